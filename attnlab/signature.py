"""How the attention functions look to type checkers and editors: the options, and a result that follows return_lse.

The six functions write their arguments out, for readers and for help(); a test holds both lists together.
"""

from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack, overload, runtime_checkable

Array = TypeVar("Array")  # the result is an array of the kind of query, key and value
Method = Literal["naive", "safe", "lazy", "online", "chunked", "tiled"]
Window = int | tuple[int | None, int | None] | None
Segments = Any | tuple[Any, Any] | None


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
