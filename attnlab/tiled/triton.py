"""Tiled attention as Triton kernels, by name. ``attnlab.tiled.torch`` runs them by itself for arrays on a GPU."""

from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch_autograd import custom_gradient
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.kernels.triton.gpu import check_served, kernel, kernel_gradient
from attnlab.kernels.triton.tile import INTERPRETED
from attnlab.tiled import tiled_attention as public


@implements(public)
@custom_gradient(kernel_gradient)
def tiled_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """On a GPU, or in Triton's interpreter."""
    check_served(x, sizes, interpreted=bool(INTERPRETED))
    return kernel(rules, sizes, x)
