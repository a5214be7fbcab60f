"""How an attention function is called: its arguments, once for Python and help(), once for type checkers and editors.

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


def signed(public: Callable, sizes: tuple[str, ...], results: tuple[str, ...] = ()) -> None:
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
