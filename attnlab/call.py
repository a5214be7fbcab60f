"""What every attention function accepts: the axes, the checks, the scale, the grouping of heads.

    ...     any leading batch axes, or none; equal in query, key and value, never broadcast
    Hq, Hk  query heads, key/value heads; Hk divides Hq; absent in 2-D input, which is one head
    N, M    query length, key length
    D, Dv   size of a query or key, size of a value
    G       query heads that read one key head, Hq / Hk; head h reads key head h // G

The checks themselves are in checks.py. Array-free: one file serves three backends.
"""

import dataclasses
import functools
import importlib
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from attnlab.arguments import (
    LIBRARIES, boolean, check_arrays, check_bias, check_block_mask, check_dropout, check_mask, check_shapes,
    check_static, integer, kind_of, number, window_sides,
)
from attnlab.geometry import Band, BlockMask

Array = Any  # a NumPy, JAX or PyTorch array: the public functions check their arguments themselves
Function = TypeVar("Function", bound=Callable)  # so that editors and type checkers see the signature
Window = int | tuple[int | None, int | None] | None

ARGUMENTS = """
    Arguments (every attention function of attnlab takes the same and computes the same):
        query: (..., Hq, N, D), or (N, D) for one head: heads before tokens, as in PyTorch; jax.nn has them
            after. float16, bfloat16, float32 or float64.
        key: (..., Hk, M, D), Hk divides Hq; query head h reads key head h // (Hq / Hk).
        value: (..., Hk, M, Dv). One library, one dtype, one device for all three; batch axes equal.
        causal: query i sees key j iff j <= i + (M - N): aligned to the bottom right, so one new query
            against a cache of M keys sees them all. PyTorch's is_causal and jax.nn's are top-left; for
            N = M they coincide.
        window: (left, right): query i sees i + (M - N) - left <= j <= i + (M - N) + right. An integer w
            means (w, w); None or -1 on a side is unbounded.
        mask: boolean, True = attend, broadcasting to (..., Hq, N, M).
        bias: float, added to the scaled scores, broadcasting to (..., Hq, N, M); -inf hides, a finite
            number never does. All rules combine: a key is visible if every given rule allows it.
        scale: finite number, 1 / sqrt(D) by default.
        dropout, seed: drop probabilities with chance ``dropout``, by the integer seed in [0, 2**32); which
            are kept is ``attnlab.dropout_mask(seed, (..., Hq, N, M), dropout)``, in every library.
        return_lse: also return lse = log sum of e^score over the visible keys.
        Under jax.jit the arrays and ``seed`` (a uint32 scalar) may be traced; the other options are Python
        values. Of a cache that holds t keys, t traced, mask = arange(M) < t hides the rest. Under jax.vmap
        the examples share one dropout mask unless seed is mapped.

    Returns out (..., Hq, N, Dv) in query's dtype, or (out, lse) with lse (..., Hq, N) in float32 (float64
    for float64 input). Scores and sums are accumulated in that dtype. A query that sees no key gives
    out = 0, lse = -inf and no gradient. Hidden keys and values may hold NaN.

    Raises TypeError (mixed libraries, mixed or unsupported dtypes, a mask that is not boolean, an array
    where a Python value belongs) or ValueError (shapes, devices, values out of range), naming the argument.
    """


@dataclass(frozen=True)
class Rules:
    """What a call asks for, in plain numbers; hashable, so that JAX can treat it as static."""

    scale: float
    band: Band
    dropout: float
    heads: tuple[int, ...]  # (*batch, Hk, G)


@dataclass(frozen=True)
class Call:
    """A checked call: arrays with heads grouped, query (*batch, Hk, G, N, D), key (*batch, Hk, M, D)."""

    query: Any
    key: Any
    value: Any
    mask: Any
    bias: Any
    seed: Any
    rules: Rules
    blocks: dict[str, int | None]


def backend(name: str, x: Any, package: str) -> Any:
    """The module of ``package`` (such as 'attnlab.tiled') that serves arrays like ``x``, the argument ``name``."""
    kind = kind_of(x)
    if kind is None:
        raise TypeError(f"{name} is of type {type(x).__name__}; attnlab takes NumPy, JAX and PyTorch arrays")
    return importlib.import_module(f"{package}.{kind}")


def missing(library: str) -> ModuleNotFoundError:
    """The error for a backend whose library is not installed."""
    return ModuleNotFoundError(
        f"this part of attnlab needs {LIBRARIES[library]}: pip install 'attnlab[{library}]'", name=library
    )


def make_band(n: int, m: int, causal: bool, window: Any) -> Band:
    """The band of visible keys; a side that hides nothing counts as unbounded."""
    left, right = window_sides(window)
    if causal:
        right = 0 if right is None else min(right, 0)
    left = None if left is None or left >= m - 1 else left
    right = None if right is None or right >= n - 1 else right
    return Band(n, m, left, right)


def prepare(
    kind: str,
    query: Any,
    key: Any,
    value: Any,
    *,
    causal: Any = False,
    window: Any = None,
    mask: Any = None,
    bias: Any = None,
    scale: Any = None,
    dropout: Any = 0.0,
    seed: Any = None,
    block_mask: Any = None,
    **blocks: Any,
) -> Call:
    """Check one call and group its heads. Every view is free: splitting an axis copies nothing."""
    check_arrays(kind, query=query, key=key, value=value)
    check_shapes(tuple(query.shape), tuple(key.shape), tuple(value.shape))
    check_static(causal=causal, window=window, scale=scale, dropout=dropout, **blocks)
    *batch, hq, n, d = query.shape if query.ndim > 2 else (1, *query.shape)
    hk = key.shape[-3] if key.ndim > 2 else 1
    m, dv = value.shape[-2:]
    heads = (*batch, hk, hq // max(hk, 1) or 1)
    target = (*query.shape[:-1], m)
    if mask is not None:
        check_mask(mask, query, target)
        mask = group_heads(mask, heads)
    if bias is not None:
        check_bias(bias, query, target)
        bias = group_heads(bias, heads)
    band = make_band(n, m, boolean("causal", causal), window)
    p = check_dropout(dropout, seed, kind)
    scale = 1 / math.sqrt(max(d, 1)) if scale is None else number("scale", scale)
    blocks = {name: size if size is None else integer(name, size, 1) for name, size in blocks.items()}
    if block_mask is not None:
        tiles = check_block_mask(block_mask, n, m, **blocks)
        band = dataclasses.replace(band, block_mask=BlockMask(blocks["block_q"], blocks["block_k"], tiles))
    query = query.reshape((*heads, n, d))
    key, value = key.reshape((*heads[:-1], m, d)), value.reshape((*heads[:-1], m, dv))
    return Call(query, key, value, mask, bias, seed, Rules(scale, band, p, heads), blocks)


def group_heads(x: Any, heads: tuple[int, ...]) -> Any:
    """A mask or bias with every axis present: (*batch or 1, Hk or 1, G or 1, N or 1, M or 1)."""
    shape = (1,) * (len(heads) + 1 - x.ndim) + tuple(x.shape)
    split = (1, 1) if shape[-3] == 1 else heads[-2:]
    return x.reshape((*shape[:-3], *split, *shape[-2:]))


def bind(public: Callable, signature: inspect.Signature, args: tuple, kwargs: dict) -> inspect.BoundArguments:
    """The arguments by name; a TypeError names the function, as Python's own would."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{public.__name__}() {error}") from None


def dispatches(public: Function) -> Function:
    """Decorator of a public signature: call the function of that name in the file of the query's library."""
    signature = inspect.signature(public)

    @functools.wraps(public)
    def function(*args: Any, **kwargs: Any) -> Any:
        query = bind(public, signature, args, kwargs).arguments["query"]
        module = backend("query", query, public.__module__)
        return getattr(module, public.__name__)(*args, **kwargs)

    function.__doc__ = inspect.cleandoc(public.__doc__) + "\n\n" + inspect.cleandoc(ARGUMENTS)
    return function


def implements(public: Function) -> Callable[[Callable], Function]:
    """Decorator of a core: it gets the signature and the documentation of ``public``, its checks and its shapes.

    The core is called as core(query, key, value, mask, bias, seed, rules, **block sizes) with grouped
    heads and returns (out, lse); which library it serves is the name of its file.
    """
    signature = inspect.signature(public)

    def decorate(core: Callable) -> Callable:
        name = core.__module__.rpartition(".")[2]
        kind = {"triton": "torch", "pallas": "jax"}.get(name, name)

        @functools.wraps(public)
        def function(*args: Any, **kwargs: Any) -> Any:
            bound = bind(public, signature, args, kwargs)
            bound.apply_defaults()
            check_static(return_lse=bound.arguments["return_lse"])
            return_lse = boolean("return_lse", bound.arguments.pop("return_lse"))
            call = prepare(kind, **bound.arguments)
            out, lse = core(
                call.query, call.key, call.value, call.mask, call.bias, call.seed, call.rules, **call.blocks
            )
            rows = tuple(bound.arguments["query"].shape[:-1])
            out = out.reshape((*rows, out.shape[-1]))
            return (out, lse.reshape(rows)) if return_lse else out

        function.__module__ = core.__module__
        return function

    return decorate
