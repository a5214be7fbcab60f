"""The Pallas kernel in the place of the loops, for arrays on a GPU. Where there is none, Pallas is not imported.

JAX compiles one function for every device it may run on, and only then knows which one it is: both versions are
traced, and ``platform_dependent`` keeps the one that serves the device.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from attnlab.call import Rules
from attnlab.tiled.pallas_rules import serves

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jax.lax import platform_dependent


def kernel_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core: the forward kernel where it serves the call."""

    @functools.wraps(loops)
    def forward(
        query: Array, key: Array, value: Array, mask: Any, bias: Any, seed: Any, *static: Rules | int | None
    ) -> tuple[Array, Array]:
        arrays = query, key, value, mask, bias, seed
        if not (jax.default_backend() == "gpu" and serves(query, value, mask, bias, *static)):
            return loops(*arrays, *static)
        kernel = importlib.import_module("attnlab.tiled.pallas").forward

        def native(query: Array, key: Array, value: Array, mask: Any, bias: None, seed: Any) -> tuple[Array, Array]:
            return kernel(query, key, value, mask, seed, *static)

        return platform_dependent(*arrays, cuda=native, default=lambda *arrays: loops(*arrays, *static))

    return forward


def gradient_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core's gradient: the two backward kernels where they serve the call."""

    @functools.wraps(loops)
    def backward(rules: Rules, block_q: int | None, block_k: int | None, kept: tuple, grads: tuple) -> tuple:
        (query, _, value, mask, bias, *_), static = kept, (rules, block_q, block_k)
        if not (jax.default_backend() == "gpu" and serves(query, value, mask, bias, *static)):
            return loops(*static, kept, grads)
        kernels = importlib.import_module("attnlab.tiled.pallas_grad").backward
        grads = tuple(jnp.zeros(g.shape, g.dtype) if isinstance(g, SymbolicZero) else g for g in grads)

        def native(kept: tuple, grads: tuple) -> tuple:
            query, key, value, mask, _, seed, out, lse, _ = kept
            return *kernels(query, key, value, mask, seed, out, lse, *grads, *static), None, None, None

        return platform_dependent(kept, grads, cuda=native, default=lambda *arrays: loops(*static, *arrays))

    return backward
