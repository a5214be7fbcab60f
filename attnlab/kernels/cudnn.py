"""cuDNN's attention in the place of the loops in JAX, for arrays on a GPU; where there is none, it is never traced.

JAX ships it as ``jax.nn.dot_product_attention(implementation="cudnn")``: FlashAttention for each generation of GPU,
kept up by its makers. It serves what most training asks for: half precision, everything or causal, N = M. It does not
serve lse, which JAX hands out rounded to half precision and without a gradient. For all else there are the loops.

JAX compiles one function for every device it may run on, and only then knows which one it is: both versions are
traced, and ``platform_dependent`` keeps the one that serves the device.
"""

import functools
from collections.abc import Callable

from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator
from attnlab.core.bundle import Inputs, Rules, Sizes

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.lax import platform_dependent

IMPLEMENTATION = "cudnn"
LARGEST_HEAD = 128  # JAX takes 256 on some generations


def serves(rules: Rules, sizes: Sizes, x: Inputs) -> bool:
    """Whether a call goes to cuDNN on a GPU: query, key and value alone, N = M, in half precision, no lse.

    Block sizes ask for the loops: cuDNN has its own. So does a band other than everything and causal.
    """
    band, d = rules.band, x.query.shape[-1]
    return (
        jax.default_backend() == "gpu" and has_fused_attention() and not rules.lse
        and band.block_mask is None and band.left is None and band.right in (None, 0) and band.n == band.m
        and all(given is None for given in (*x[3:], *sizes)) and rules.dropout == 0
        and x.query.dtype == x.key.dtype == x.value.dtype and x.query.dtype.itemsize == 2
        and x.value.shape[-1] == d and d % 8 == 0 and d <= LARGEST_HEAD and 0 not in x.query.shape
    )  # fmt: skip


def has_fused_attention() -> bool:
    """Whether the GPU is one of cuDNN's: of the Ampere generation or later."""
    return float(jax.local_devices()[0].compute_capability) >= 8


def run_cudnn(rules: Rules, x: Inputs) -> Out:
    """The output with grouped heads, by JAX's function, which has tokens before heads."""
    *_, hk, g, n, d = x.query.shape
    query = jnp.moveaxis(x.query.reshape((-1, hk * g, n, d)), 1, 2)
    key, value = (jnp.moveaxis(a.reshape((-1, *a.shape[-3:])), 1, 2) for a in (x.key, x.value))
    causal = rules.band.right == 0
    out = jax.nn.dot_product_attention(
        query, key, value, scale=rules.scale, is_causal=causal, implementation=IMPLEMENTATION
    )
    return jnp.moveaxis(out, 2, 1).reshape(x.query.shape)


def kernel_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core: cuDNN where it serves the call, with an lse of zeros that nobody sees."""

    @functools.wraps(loops)
    def forward(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
        plain = functools.partial(loops, rules, sizes)
        if not serves(rules, sizes, x):
            return plain(x)
        native = lambda x: (run_cudnn(rules, x), jnp.zeros_like(x.query[..., 0], accumulator(x.query)))  # noqa: E731
        return platform_dependent(x, cuda=native, default=plain)

    return forward


def gradient_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core's gradient: cuDNN's, after one more forward, where it serves the call."""

    @functools.wraps(loops)
    def pullback(rules: Rules, sizes: Sizes, kept: tuple, grads: tuple) -> tuple[Inputs]:
        if not serves(rules, sizes, kept[0]):
            return loops(rules, sizes, kept, grads)
        dout = grads[0]
        dout = jnp.zeros(dout.shape, dout.dtype) if isinstance(dout, SymbolicZero) else dout
        native = lambda kept, dout: jax.vjp(functools.partial(run_cudnn, rules), kept[0])[1](dout)  # noqa: E731
        plain = lambda kept, dout: loops(rules, sizes, kept, (dout, grads[1]))  # noqa: E731
        return platform_dependent(kept, dout, cuda=native, default=plain)

    return pullback
