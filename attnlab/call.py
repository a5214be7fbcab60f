"""What every attention function accepts: the axes, the checks, the scale, the grouping of heads.

    ...     any leading batch axes, or none; equal in query, key and value, never broadcast
    Hq, Hk  query heads, key/value heads; Hk divides Hq; absent in 2-D input, which is one head
    N, M    query length, key length
    D, Dv   size of a query or key, size of a value
    G       query heads that read one key head, Hq / Hk; head h reads key head h // G

A call is bound once, checked, and handed to a core as core(rules, sizes, x): what JAX compiles for in front, the
arrays in one bundle. The checks themselves are in arguments.py. Array-free: one file serves three libraries.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from attnlab.arguments import (
    LIBRARIES, boolean, check_arrays, check_bias, check_block_mask, check_device, check_dropout, check_float,
    check_kind, check_mask, check_offset, check_segments, check_shapes, check_static, integer, kind_of, number,
)
from attnlab.misnamed import named_as_here
from attnlab.signature import Attention, signed
from attnlab.geometry import TRACED, Band, BlockMask, gradient_tile_sizes, tile_sizes

Array = Any  # a NumPy, JAX or PyTorch array: the public functions check their arguments themselves
Function = TypeVar("Function", bound=Callable)  # so that editors and type checkers see the signature

ARGUMENTS = """
    Arguments (every attention function of attnlab takes the same and computes the same):
        query: (..., Hq, N, D), or (N, D) for one head: heads before tokens, as in PyTorch; jax.nn has them
            after. float16, bfloat16, float32 or float64.
        key: (..., Hk, M, D), Hk divides Hq; query head h reads key head h // (Hq / Hk).
        value: (..., Hk, M, Dv). One library, one dtype, one device for all three; batch axes equal.
        causal: query i sees key j iff j <= i + offset; by default aligned to the bottom right, so one new query
            against a cache of M keys sees them all. PyTorch's is_causal and jax.nn's are top-left; for
            N = M they coincide.
        window: (left, right): query i sees i + offset - left <= j <= i + offset + right. An integer w
            means (w, w); None or -1 on a side is unbounded.
        offset: the key position that stands under query 0, any integer, M - N by default. Where N new queries
            end a cache of which t slots are filled it is t - N, for a chunk of a prompt the chunk's start, and
            0 aligns to the top left; with causal, -1 hides the diagonal as well. Without causal or window it
            has no effect. Tiles that no query sees are skipped.
        mask: boolean, True = attend, broadcasting to (..., Hq, N, M).
        bias: float, added to the scaled scores, broadcasting to (..., Hq, N, M); -inf hides, a finite
            number never does. All rules combine: a key is visible if every given rule allows it.
        segments: integers, (query_segments, key_segments), broadcasting to (..., N) and (..., M), without an axis of
            heads; or one array where N = M. Query i sees key j only if their segments are equal: documents packed
            into one sequence, and padding, in O(N + M) memory. Tiles without a common segment are skipped.
        scale: finite number, 1 / sqrt(D) by default.
        dropout, seed: drop probabilities with chance ``dropout``, by the integer seed in [0, 2**32); which
            are kept is ``attnlab.dropout_mask(seed, (..., Hq, N, M), dropout)``, in every library.
        return_lse: also return lse = log sum of e^score over the visible keys.
        Under jax.jit the arrays, ``seed`` (a uint32 scalar) and ``offset`` (an int32 scalar) may be traced; the
        other options are Python values. A given offset is data even as a Python integer: one compiled program
        serves all. Under jax.vmap the examples share one dropout mask unless seed is mapped, and in jax.shard_map
        the devices do. Arrays may be sharded over a mesh by batch and heads, under jit (Auto axes, or from JAX 0.10 on
        Explicit ones, under jax.set_mesh: 0.12 needs it for gradients) or in shard_map: nothing is gathered. In
        jax.export batch, heads, N and M may be symbols; the gradient of lazy and online needs a known M, that of
        chunked a known N, as their loops must be known to go backward. JAX on a CPU takes subnormal numbers (below
        2e-308 in float64), scores too, for 0; NumPy and PyTorch keep them.
        In PyTorch autocast casts query, key and value as it does for scaled_dot_product_attention (float64
        stays), and nothing else. torch.compile and torch.export see one operator, attnlab::attention, and so
        do meta and fake tensors; its gradient is that of tiled attention, from out and lse, for every algorithm. The
        compiler of PyTorch 2.6 cannot follow the call: fullgraph=True needs a newer one.

        These are references first. Where no option is given that your library's own fused call lacks
        (torch.nn.functional.scaled_dot_product_attention, jax.nn.dot_product_attention), and the algorithm is not the
        point, that call gives the same function, and in PyTorch it is faster for short sequences and small calls:
        ``python -m attnlab.bench --small`` measures by how much.

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
    heads: tuple[int, ...]  # (*batch, Hk, G)
    dropout: float = 0.0
    lse: bool = True  # whether lse is asked for
    packed: bool = False  # whether segments are given: their tiles are smaller

    def tile_sizes(self, sizes: "Sizes", itemsize: int = 4, longest: int = 4096) -> tuple[int, int]:
        """Block sizes of the tiled algorithm; ``itemsize`` of the keys, ``longest`` tile of keys for one query."""
        return tile_sizes(self.heads, *sizes, band=self.band, itemsize=itemsize, longest=longest, packed=self.packed)

    def gradient_tile_sizes(self, sizes: "Sizes") -> tuple[int, int]:
        """Block sizes of its gradient."""
        return gradient_tile_sizes(self.heads, *sizes, packed=self.packed)


Sizes = tuple[int | None, ...]  # block sizes in the order of the signature, None where the machine may choose


class Inputs(NamedTuple):
    """The arrays of a call, heads grouped: query (*batch, Hk, G, N, D), key (*batch, Hk, M, D), value likewise.

    For JAX a pytree, for PyTorch's autograd a flat tuple. ``seed`` is an integer, in JAX an array. ``offset`` is
    given in JAX alone, as an array: elsewhere ``rules.band`` knows it. In a ring it is both diagonals, (low, high).
    """

    query: Any
    key: Any
    value: Any
    mask: Any = None
    bias: Any = None
    seed: Any = None
    offset: Any = None
    query_segments: Any = None  # (*batch or 1, 1, 1, N or 1, 1)
    key_segments: Any = None  # (*batch or 1, 1, 1, 1, M or 1), so that == is the mask


def library_of(name: str, x: Any) -> str:
    """'numpy', 'jax' or 'torch'; a TypeError for an argument ``name`` that is no array."""
    kind = kind_of(x)
    if kind is None:
        raise TypeError(f"{name} is of type {type(x).__name__}; attnlab takes NumPy, JAX and PyTorch arrays")
    return kind


def backend(name: str, x: Any, package: str) -> Any:
    """The module of ``package`` (such as 'attnlab.softmax') that serves arrays like ``x``, the argument ``name``."""
    return loaded(f"{package}.{library_of(name, x)}")


def loaded(home: str) -> Any:
    """The module of that name, imported in a way that torch.compile can follow where it serves PyTorch."""
    if not home.endswith(".torch"):
        return importlib.import_module(home)
    from attnlab import torch_operator

    return getattr(torch_operator, torch_operator.load(home))


def in_autocast(*arrays: Any) -> tuple[Any, ...]:
    """Under PyTorch's autocast arrays in its dtype, as for scaled_dot_product_attention; elsewhere as they are."""
    if kind_of(arrays[0]) != "torch":
        return arrays
    from attnlab import torch_operator

    return torch_operator.in_autocast(*arrays)


def untraced(function: Function) -> Function:
    """Decorator of a public function that torch.compile leaves alone: as far as PyTorch is there."""

    name = function.__qualname__

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if "torch" not in [kind_of(x) for x in (*args, *kwargs.values())]:
            return function(*args, **kwargs)
        from attnlab.torch_operator import apart

        return apart(name, function, *args, **kwargs)

    return called


def refuse_gradient(name: str, instead: str, **arrays: Any) -> None:
    """In PyTorch a gradient that a function does not have is an error, and not a silent 0."""
    learning = [argument for argument, x in arrays.items() if kind_of(x) == "torch" and x.requires_grad]
    if learning and sys.modules["torch"].is_grad_enabled():
        raise NotImplementedError(
            f"{learning[0]} requires a gradient, which {name} does not have; use {instead}, or torch.no_grad()"
        )


def missing(library: str, extra: str | None = None) -> ModuleNotFoundError:
    """The error for a part whose library is not installed; ``extra`` brings it, by default the one of its name."""
    name = LIBRARIES.get(library, library)
    return ModuleNotFoundError(
        f"this part of attnlab needs {name}: pip install 'attnlab[{extra or library}]'", name=library
    )


def group(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Check the three arrays and group their heads: (*batch, Hk, G, N, D), (*batch, Hk, M, D), (*batch, Hk, M, Dv).

    A 2-D array is one head. Every result is a view: splitting an axis copies nothing.
    """
    check_arrays(kind_of(query), query=query, key=key, value=value)
    check_shapes(tuple(query.shape), tuple(key.shape), tuple(value.shape))
    *batch, hq, n, d = query.shape if query.ndim > 2 else (1, *query.shape)
    hk = key.shape[-3] if key.ndim > 2 else 1
    query = query.reshape((*batch, hk, hq // max(hk, 1) or 1, n, d))
    return query, *(x.reshape((*batch, hk, *x.shape[-2:])) for x in (key, value))


def group_heads(x: Any, heads: tuple[int, ...]) -> Any:
    """A mask or bias with every axis present: (*batch or 1, Hk or 1, G or 1, N or 1, M or 1)."""
    shape = (1,) * (len(heads) + 1 - x.ndim) + tuple(x.shape)
    split = (1, 1) if shape[-3] == 1 else heads[-2:]
    return x.reshape((*shape[:-3], *split, *shape[-2:]))


def group_segments(x: Any, heads: tuple[int, ...]) -> Any:
    """Segments with every axis present: (*batch or 1, 1, 1, N or 1)."""
    shape = (1,) * (len(heads) - 1 - x.ndim) + tuple(x.shape)
    return x.reshape((*shape[:-1], 1, 1, shape[-1]))


def checked_call(
    kind: str, query: Any, key: Any, value: Any, *, causal: Any = False, window: Any = None, offset: Any = None,
    mask: Any = None, bias: Any = None, segments: Any = None, scale: Any = None, dropout: Any = 0.0, seed: Any = None,
    block_mask: Any = None, lse: bool = True, **sizes: Any,
) -> tuple[Rules, Sizes, Inputs]:
    """Check one call and turn it into what a core takes."""
    x = Inputs(*group(query, key, value), seed=seed)
    check_static(causal=causal, window=window, scale=scale, dropout=dropout, **sizes)
    (*heads, n, d), m = x.query.shape, key.shape[-2]
    heads, shape = tuple(heads), (*query.shape[:-1], m)
    if mask is not None:
        check_mask(mask, query, shape)
        x = x._replace(mask=group_heads(mask, heads))
    if bias is not None:
        check_bias(bias, query, shape)
        x = x._replace(bias=group_heads(bias, heads))
    if segments is not None:
        of_queries, of_keys = (group_segments(s, heads) for s in check_segments(segments, query, n, m))
        x = x._replace(query_segments=of_queries[..., None], key_segments=of_keys[..., None, :])
    offset = check_offset(offset, kind)
    if kind == "jax" and offset is not None and (kind_of(offset) or -(2**31) <= offset < 2**31):
        x, offset = x._replace(offset=offset), TRACED  # data: one program serves all
    if kind == "jax" and offset is None and not all(isinstance(size, int) for size in (n, m)):  # symbols, in jax.export
        x, offset = x._replace(offset=m - n), TRACED
    band = Band.of(n, m, boolean("causal", causal), window, offset)
    p = check_dropout(dropout, seed, kind)
    scale = 1 / math.sqrt(max(d, 1)) if scale is None else number("scale", scale)
    sizes = {name: size if size is None else integer(name, size, 1) for name, size in sizes.items()}
    if block_mask is not None:
        tiles = check_block_mask(block_mask, n, m, **sizes)
        band = dataclasses.replace(band, block_mask=BlockMask(sizes["block_q"], sizes["block_k"], tiles))
    return Rules(scale, band, heads, p, lse, segments is not None), tuple(sizes.values()), x


def run_attention(kind: str, core: Callable, *, return_lse: Any, **arguments: Any) -> Any:
    """One call: check it, run the core, give the results the shape of the query."""
    check_static(return_lse=return_lse)
    return_lse = boolean("return_lse", return_lse)
    out, lse = core(*checked_call(kind, lse=return_lse, **arguments))
    rows = tuple(arguments["query"].shape[:-1])
    out = out.reshape((*rows, out.shape[-1]))
    return (out, lse.reshape(rows)) if return_lse else out


def run_gradient(kind: str, core: Callable, *, out: Any, lse: Any, dout: Any, dlse: Any, **arguments: Any) -> tuple:
    """One gradient: check it, run the core, give each result the shape of the array that it belongs to."""
    rules, sizes, x = checked_call(kind, **arguments)
    inputs = [y for name in ("query", "key", "value", "bias") if (y := arguments[name]) is not None]
    rows, dv = tuple(inputs[0].shape[:-1]), inputs[2].shape[-1]
    shapes, results = {"out": (*rows, dv), "lse": rows, "dout": (*rows, dv), "dlse": rows}, []
    for (name, shape), y in zip(shapes.items(), (out, lse, dout, dlse)):
        if y is not None or name != "dlse":
            check_kind(name, y, kind)
            check_float(name, y)
            check_device(name, y, inputs[0])
            if tuple(y.shape) != shape:
                given = tuple(y.shape)
                raise ValueError(f"{name} has shape {given}; with this query and value it must be {shape}")
            y = y.reshape((*x.query.shape[:-1], *shape[len(rows) :]))
        results.append(y)
    return tuple(grad.reshape(tuple(y.shape)) for grad, y in zip(core(rules, sizes, x, *results), inputs))


def call(public: Callable, arrays: tuple, options: dict[str, Any]) -> Any:
    """One call of a public function, served by the function of its name in the file of the query's library."""
    kind = library_of("query", arrays[0])
    return route(kind, f"{public.__module__}.{kind}", public, bound(public, arrays, options))


def bound(public: Callable, arrays: tuple, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, in the order of the signature; an unknown name that another library has is told ours."""
    if len(arrays) == len(public.arrays) and options.keys() <= public.defaults.keys():
        return dict(zip(public.arrays, arrays)) | public.defaults | options
    try:  # arrays by name, or a mistake: some 20 µs more
        given = public.__signature__.bind(*arrays, **options)
    except TypeError as error:
        raise named_as_here(TypeError(f"{public.__name__}() {error}"), options) from None
    given.apply_defaults()
    return given.arguments


def route(kind: str, home: str, public: Callable, arguments: dict[str, Any]) -> Any:
    """One call, in the file ``home``. PyTorch's ways of working are in a file of their own."""
    if kind == "torch":
        from attnlab.torch_operator import operate, ready, symbolic

        arguments = ready(arguments)
        if symbolic(arguments["query"]):
            gradient = getattr(public, "gradient", public)  # attnlab.methods says which
            return operate(f"{home}.{public.__name__}", f"{gradient.__module__}.torch.{gradient.__name__}", arguments)
    return getattr(importlib.import_module(home), public.__name__).plain(**arguments)


def dispatches(*sizes: str) -> Callable[[Callable], Attention]:
    """Decorator of a public attention: gives it all arguments, block sizes beside them, and what they mean."""

    def decorate(public: Callable) -> Callable:
        signed(public, sizes)
        public.__doc__ = inspect.cleandoc(public.__doc__) + "\n\n" + inspect.cleandoc(ARGUMENTS)
        return public

    return decorate


def dispatches_gradient(*sizes: str) -> Callable[[Function], Function]:
    """Decorator of a public gradient, likewise; it also takes the results of the forward and their gradients."""

    def decorate(public: Function) -> Function:
        signed(public, sizes, ("out", "lse", "dout"))
        return public

    return decorate


def implements(public: Function, run: Callable = run_attention) -> Callable[[Callable], Function]:
    """Decorator of a core: names it as one of ``public``, and gives it that signature, for calls by its own file.

    The core is called as core(rules, sizes, x) and returns (out, lse) with grouped heads; which library it
    serves is the name of its file. ``run`` is what one call does. In PyTorch autocast is off in a core.
    """

    def decorate(core: Callable) -> Callable:
        name = core.__module__.rpartition(".")[2].partition("_")[0]
        kind = {"triton": "torch"}.get(name, name)
        if kind == "torch":
            from attnlab.torch_operator import no_autocast

            core = no_autocast(core)

        @functools.wraps(public)
        def function(*arrays: Any, **options: Any) -> Any:
            arguments = bound(public, arrays, options)
            check_kind("query", arguments["query"], kind)
            return route(kind, core.__module__, public, arguments)

        function.__module__, function.core = core.__module__, core
        function.plain = functools.partial(run, kind, core)
        return function

    return decorate
