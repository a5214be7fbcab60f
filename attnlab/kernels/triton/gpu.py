"""The Triton kernels run in place of the loops for arrays on a GPU. Without a GPU they aren't imported."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import Array
from attnlab.kernels import refusal

import numpy as np

OLDEST = (3, 6)
"""The Triton that pyproject.toml asks for."""


def serves(x: Inputs, sizes: Sizes) -> bool:
    """Whether a call goes to the kernels. Options such as causal or dropout never decide it."""
    return x.query.is_cuda and installed() and refusal(x, sizes) is None


@functools.cache
def installed() -> bool:
    """Whether there is a Triton of the extra's version: PyTorch 2.6 brings 3.2, which cannot read the kernels."""
    try:
        triton = importlib.import_module("triton")
    except ModuleNotFoundError:
        return False
    return version(triton) >= OLDEST


def version(module: Any) -> tuple[int, ...]:
    """The first two numbers of a module's version."""
    return tuple(int(part) for part in module.__version__.split(".")[:2])


def check_interpreter() -> None:
    """Refuse Triton's interpreter where it can't run: below 3.7 it asks of NumPy what NumPy refuses from 2.4 on."""
    triton = importlib.import_module("triton")
    if version(triton) < (3, 7) and version(np) >= (2, 4):
        theirs = f"the interpreter of Triton {triton.__version__} doesn't run with NumPy {np.__version__}"
        raise NotImplementedError(f"{theirs}: install Triton 3.7 or newer, or NumPy 2.3")


def check_served(x: Inputs, sizes: Sizes, interpreted: bool) -> None:
    """Refuse, with a way out, a call that the kernels do not serve."""
    reason = refusal(x, sizes)
    if reason is None and not (x.query.is_cuda or interpreted):
        reason = f"query is on device {x.query.device}; the kernel runs on a GPU, or in Triton's interpreter if "
        reason += "TRITON_INTERPRET=1 is set before triton is imported"
    if reason is not None:
        raise NotImplementedError(f"{reason}; else use attnlab.tiled.torch")
    if not x.query.is_cuda:
        check_interpreter()


def kernel_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core: run the forward kernel if it serves the call."""

    @functools.wraps(loops)
    def forward(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Array, Array]:
        return (kernel if serves(x, sizes) else loops)(rules, sizes, x)

    return forward


def gradient_on_gpu(loops: Callable) -> Callable:
    """Decorator of the tiled core's gradient: run the backward kernels if they serve the call."""

    @functools.wraps(loops)
    def backward(rules: Rules, sizes: Sizes, x: Inputs, *rest: Array | bool) -> tuple[Array, ...]:
        return (kernel_gradient if serves(x, sizes) else loops)(rules, sizes, x, *rest)

    return backward


def kernel(rules: Rules, sizes: Sizes, x: Inputs, dtype: Any = None) -> tuple[Array, Array]:
    """The forward kernel as a core; ``dtype`` of out."""
    from attnlab.kernels.triton.forward import forward

    return forward(x.query, x.key, x.value, x.mask, segments(x), x.seed, rules, sizes, dtype)


def kernel_gradient(
    rules: Rules, sizes: Sizes, x: Inputs, out: Array, lse: Array, dout: Array, dlse: Array, wants_bias: bool,
    dtype: Any = None,
) -> tuple[Array, ...]:
    """The backward kernels as the gradient of a core, ``dtype`` of its arrays; no call with a bias comes here."""
    from attnlab.kernels.triton.backward import backward

    return backward(x.query, x.key, x.value, x.mask, segments(x), x.seed, out, lse, dout, dlse, rules, sizes, dtype)


def paged_on_gpu(loops: Callable) -> Callable:
    """Decorator of the core of paged attention: run the kernel if it serves the call."""

    @functools.wraps(loops)
    def attend(options: Any, x: Any) -> tuple[Array, Array]:
        pages = Inputs(x.query, x.key_pages, x.value_pages)
        if not serves(pages, (None, None)):
            return loops(options, x)
        from attnlab.kernels.triton.paged import paged

        return paged(*x, options.left, options.scale)

    return attend


def segments(x: Inputs) -> tuple[Array, Array] | None:
    """The segments of queries and keys, None if none are given."""
    return None if x.query_segments is None else (x.query_segments, x.key_segments)
