"""The Pallas kernel in the place of the loops, for arrays on a GPU. Where there is none, Pallas is not imported.

JAX compiles one function for every device it may run on, and only then knows which one it is: both versions are
traced, and ``platform_dependent`` keeps the one that serves the device.
"""

import functools
import importlib
from collections.abc import Callable

from attnlab.call import Inputs, Rules, Sizes
from attnlab.tiled.pallas_rules import serves

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jax.lax import platform_dependent


def kernel_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core: the forward kernel where it serves the call."""

    @functools.wraps(loops)
    def forward(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Array, Array]:
        if not (jax.default_backend() == "gpu" and serves(x.query, x.value, x.mask, x.bias, rules, *sizes)):
            return loops(rules, sizes, x)
        kernel = importlib.import_module("attnlab.tiled.pallas").forward

        def native(x: Inputs) -> tuple[Array, Array]:
            return kernel(x.query, x.key, x.value, x.mask, x.seed, rules, *sizes)

        return platform_dependent(x, cuda=native, default=lambda x: loops(rules, sizes, x))

    return forward


def gradient_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core's gradient: the two backward kernels where they serve the call."""

    @functools.wraps(loops)
    def pull(rules: Rules, sizes: Sizes, kept: tuple, grads: tuple) -> tuple[Inputs]:
        x, *_ = kept
        if not (jax.default_backend() == "gpu" and serves(x.query, x.value, x.mask, x.bias, rules, *sizes)):
            return loops(rules, sizes, kept, grads)
        kernels = importlib.import_module("attnlab.tiled.pallas_grad").backward
        grads = tuple(jnp.zeros(g.shape, g.dtype) if isinstance(g, SymbolicZero) else g for g in grads)

        def native(kept: tuple, grads: tuple) -> tuple[Inputs]:
            x, out, lse, _ = kept
            dq, dk, dv = kernels(x.query, x.key, x.value, x.mask, x.seed, out, lse, *grads, rules, *sizes)
            return (Inputs(dq, dk, dv),)

        return platform_dependent(kept, grads, cuda=native, default=lambda *args: loops(rules, sizes, *args))

    return pull
