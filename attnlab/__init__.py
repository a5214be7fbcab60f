"""attnlab: exact attention six ways, in NumPy, JAX and PyTorch.

naive, safe, lazy, online, chunked and tiled attention compute the same function of the same
arguments; they differ in the order in which one operator is evaluated, and so in memory and traffic.
Importing attnlab imports NumPy only; the library of ``query`` chooses the implementation.
"""

from typing import Any, Literal, Unpack, overload

from attnlab.chunked import chunked_attention
from attnlab.lazy import lazy_attention
from attnlab.methods import METHODS
from attnlab.naive import naive_attention
from attnlab.online import online_attention
from attnlab.rotation import rotary
from attnlab.safe import safe_attention
from attnlab.signature import Array, Options
from attnlab.dropout.numpy import dropout_mask
from attnlab.softmax import merge, naive_softmax, online_softmax, safe_softmax
from attnlab.tiled import tiled_attention, tiled_attention_backward

__version__ = "0.1.0"


@overload
def attention(
    query: Array, key: Array, value: Array, method: str = "tiled", *, return_lse: Literal[False] = False,
    **options: Unpack[Options],
) -> Array: ...
@overload
def attention(
    query: Array, key: Array, value: Array, method: str = "tiled", *, return_lse: Literal[True],
    **options: Unpack[Options],
) -> tuple[Array, Array]: ...
@overload
def attention(
    query: Array, key: Array, value: Array, method: str = "tiled", *, return_lse: bool, **options: Unpack[Options]
) -> Array | tuple[Array, Array]: ...
def attention(query: Any, key: Any, value: Any, method: str = "tiled", **options: Any) -> Any:
    """Attention by the algorithm ``method``: naive, safe, lazy, online, chunked or tiled.

    The other arguments, the result and the errors are those of the function named ``{method}_attention``;
    see :func:`tiled_attention`. Raises ValueError for an unknown method.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    return METHODS[method].function(query, key, value, **options)


__all__ = [
    "METHODS",
    "attention",
    "chunked_attention",
    "dropout_mask",
    "lazy_attention",
    "merge",
    "naive_attention",
    "naive_softmax",
    "online_attention",
    "online_softmax",
    "rotary",
    "safe_attention",
    "safe_softmax",
    "tiled_attention",
    "tiled_attention_backward",
]
