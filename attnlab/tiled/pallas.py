"""Tiled attention as Pallas kernels, by name. ``attnlab.tiled.jax`` runs them by itself for arrays on a GPU."""

import functools

from attnlab.call import Inputs, Rules, Sizes, implements
from attnlab.arrays.jax import Lse, Out
from attnlab.arrays.jax import compiled
from attnlab.kernels.pallas.backward import custom_gradient
from attnlab.kernels.pallas.gpu import check_served, kernel
from attnlab.tiled import tiled_attention as public

from jax.lax import platform_dependent


@implements(public)
@compiled
@custom_gradient
def tiled_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Compiled for a GPU, interpreted elsewhere."""
    check_served(x, sizes)
    native = functools.partial(kernel, rules, sizes)
    return platform_dependent(x, cuda=native, default=functools.partial(native, interpret=True))
