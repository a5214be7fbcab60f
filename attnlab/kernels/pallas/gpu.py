"""The Pallas kernels in the place of the loops, for arrays on a GPU. Where there is none, they are not imported.

JAX compiles one function for every device it may run on, and only then knows which one it is: both versions are
traced, and ``platform_dependent`` keeps the one that serves the device.

The kernels are compiled for a band whose place is known: the default, M − N. A given offset is data in JAX, and the
loops serve it.
"""

import functools
from collections.abc import Callable

from attnlab.call import Inputs, Rules, Sizes
from attnlab import kernels

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jax.lax import platform_dependent

LARGEST_MASK = 2**31  # Pallas counts the elements of an array below 4 GiB in 32 bits with a sign


def refusal(x: Inputs, sizes: Sizes) -> str | None:
    """Why the kernels do not serve a call: the argument, what came, and the rule; None if they do."""
    if x.mask is not None and x.mask.size > LARGEST_MASK:
        return f"mask has {x.mask.size} elements; the kernel takes 2**31 at most"
    if x.offset is not None and x.offset.ndim:
        return "the band is given by both of its diagonals; the kernel takes an offset"
    return kernels.refusal(x, sizes)


def serves(x: Inputs, sizes: Sizes) -> bool:
    """Whether a call goes to the kernels on a GPU. Options such as causal or dropout never decide it."""
    return jax.default_backend() == "gpu" and refusal(x, sizes) is None


def check_served(x: Inputs, sizes: Sizes) -> None:
    """Refuse, with a way out, a call that the kernels do not serve."""
    if reason := refusal(x, sizes):
        raise NotImplementedError(f"{reason}; use attnlab.tiled.jax, which takes every call")


def kernel_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core: the forward kernel where it serves the call."""

    @functools.wraps(loops)
    def forward(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Array, Array]:
        if not serves(x, sizes):
            return loops(rules, sizes, x)
        native = functools.partial(kernel, rules, sizes)
        return platform_dependent(x, cuda=native, default=functools.partial(loops, rules, sizes))

    return forward


def gradient_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core's gradient: the backward kernels where they serve the call."""

    @functools.wraps(loops)
    def pull(rules: Rules, sizes: Sizes, kept: tuple, grads: tuple) -> tuple[Inputs]:
        if not serves(kept[0], sizes):
            return loops(rules, sizes, kept, grads)
        grads = tuple(jnp.zeros(g.shape, g.dtype) if isinstance(g, SymbolicZero) else g for g in grads)
        native = functools.partial(kernel_gradient, rules, sizes)
        return platform_dependent(kept, grads, cuda=native, default=functools.partial(loops, rules, sizes))

    return pull


def kernel(rules: Rules, sizes: Sizes, x: Inputs, interpret: bool = False) -> tuple[Array, Array]:
    """The forward kernel as a core."""
    from attnlab.kernels.pallas.forward import forward

    return forward(x.query, x.key, x.value, x.mask, x.seed, x.offset, rules, sizes, interpret)


def kernel_gradient(
    rules: Rules, sizes: Sizes, kept: tuple, grads: tuple[Array, Array], interpret: bool = False
) -> tuple[Inputs]:
    """The backward kernels as the gradient of a core, from the inputs and results that it kept."""
    from attnlab.kernels.pallas.backward import backward

    x, out, lse, *_ = kept
    arrays = x.query, x.key, x.value, x.mask, x.seed, x.offset, out, lse, *grads
    return (Inputs(*backward(*arrays, rules, sizes, interpret)),)
