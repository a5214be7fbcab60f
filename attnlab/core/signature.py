"""The arguments of an attention function: once for Python and help(), once for type checkers and editors.

``arguments`` is what all six take; block sizes, and the arrays of a gradient, are added where a function is defined.
``Options`` says the same to type checkers; a test holds both lists together.
"""

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack, overload, runtime_checkable

Array = TypeVar("Array")  # the result is an array of the kind of query, key and value
Method = Literal["naive", "safe", "lazy", "online", "chunked", "tiled"]
Window = int | tuple[int | None, int | None] | None
Segments = Any | tuple[Any, Any] | None


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
        the bench of the course, ``make bench ARGS=--small``, measures by how much.

    Returns out (..., Hq, N, Dv) in query's dtype, or (out, lse) with lse (..., Hq, N) in float32 (float64
    for float64 input). Scores and sums are accumulated in that dtype. A query that sees no key gives
    out = 0, lse = -inf and no gradient. Hidden keys and values may hold NaN.

    Raises TypeError (mixed libraries, mixed or unsupported dtypes, a mask that is not boolean, an array
    where a Python value belongs) or ValueError (shapes, devices, values out of range), naming the argument.
    """


def arguments(
    query: Any, key: Any, value: Any, *, causal: bool = False, window: Window = None, offset: int | Any | None = None,
    mask: Any = None, bias: Any = None, segments: Segments = None, scale: float | None = None, dropout: float = 0.0,
    seed: int | Any | None = None, return_lse: bool = False,
) -> None:
    """What every attention function takes."""


class Options(TypedDict, total=False):
    """What may be given by name, but for ``return_lse``; block sizes are those of chunked and tiled attention."""

    causal: bool
    window: Window
    offset: int | Any | None
    mask: Any
    bias: Any
    segments: Segments
    scale: float | None
    dropout: float
    seed: int | Any | None
    query_chunk_size: int | None
    key_chunk_size: int | None
    block_q: int | None
    block_k: int | None
    block_mask: Any


def give_signature(public: Callable, sizes: tuple[str, ...], results: tuple[str, ...] = ()) -> None:
    """Give a public function its signature: ``arguments`` and block sizes; with ``results`` it is that of a gradient.

    ``arrays`` and ``defaults`` are the same, as a call needs it: the names of the arrays, and {option: default}.
    """
    known = inspect.signature(arguments)
    arrays = [p for p in known.parameters.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    options = [p for p in known.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    if results:
        arrays += [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=Any) for name in results]
        options = [Parameter("dlse", Parameter.KEYWORD_ONLY, default=None, annotation=Any), *options[:-1]]
    types = Options.__annotations__
    options += [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=types[name]) for name in sizes]
    public.__signature__ = known.replace(parameters=[*arrays, *options], return_annotation=known.empty)
    public.arrays, public.defaults = tuple(p.name for p in arrays), {p.name: p.default for p in options}


@runtime_checkable
class Attention(Protocol):
    """The type of the six functions, in the package and in each library's file."""

    __name__: str

    @overload
    def __call__(
        self, query: Array, key: Array, value: Array, *, return_lse: Literal[False] = False, **options: Unpack[Options]
    ) -> Array: ...
    @overload
    def __call__(
        self, query: Array, key: Array, value: Array, *, return_lse: Literal[True], **options: Unpack[Options]
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self, query: Array, key: Array, value: Array, *, return_lse: bool, **options: Unpack[Options]
    ) -> Array | tuple[Array, Array]: ...
