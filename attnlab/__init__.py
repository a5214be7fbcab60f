"""attnlab: exact attention six ways, in NumPy, JAX and PyTorch.

naive, safe, lazy, online, chunked and tiled attention compute the same function of the same
arguments; they differ in the order in which one operator is evaluated, and so in memory and traffic.
Importing attnlab imports NumPy only; the library of ``query`` chooses the implementation. The rooms beside the six
(cache, paged, linear, ring, compat, ...) are loaded when they are first asked for: ``attnlab.cache.KVCache``.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from attnlab.core.arguments import kind_of
from attnlab.chunked import chunked_attention
from attnlab.lazy import lazy_attention
from attnlab.methods import METHODS
from attnlab.naive import naive_attention
from attnlab.online import online_attention
from attnlab.rotation import rotary
from attnlab.safe import safe_attention
from attnlab.core.signature import Array, Method, Options
from attnlab.core.dropout.numpy import dropout_mask
from attnlab.softmax import merge, naive_softmax, online_softmax, safe_softmax
from attnlab.tiled import tiled_attention, tiled_attention_backward

if TYPE_CHECKING:
    from attnlab import adapters as adapters, cache as cache
    from attnlab_course import bench as bench, check as check
    from attnlab import compat as compat, costs as costs
    from  import attnlab_course as attnlab_course
    from attnlab_course.instruments import hardware as hardware
    from attnlab import linear as linear, measure as measure
    from attnlab_course.instruments import machine as machine
    from attnlab_course import model as model
    from attnlab import paged as paged, ring as ring
    from attnlab_course import plots as plots, serve as serve

__version__ = "0.1.0"

ROOMS = (
    "adapters", "bench", "cache", "check", "compat", "costs", "course", "hardware", "linear", "machine", "measure",
    "model", "paged", "plots", "ring", "serve",
)  # fmt: skip
"""Packages and modules beside the six functions."""


@overload
def attention(
    query: Array, key: Array, value: Array, method: Method = "tiled", *, return_lse: Literal[False] = False,
    **options: Unpack[Options],
) -> Array: ...
@overload
def attention(
    query: Array, key: Array, value: Array, method: Method = "tiled", *, return_lse: Literal[True],
    **options: Unpack[Options],
) -> tuple[Array, Array]: ...
@overload
def attention(
    query: Array, key: Array, value: Array, method: Method = "tiled", *, return_lse: bool, **options: Unpack[Options]
) -> Array | tuple[Array, Array]: ...
def attention(query: Any, key: Any, value: Any, method: Method = "tiled", **options: Any) -> Any:
    """Attention by the algorithm ``method``: naive, safe, lazy, online, chunked or tiled.

    The other arguments, the result and the errors are those of the function named ``{method}_attention``;
    see :func:`tiled_attention`. Raises ValueError for an unknown method.
    """
    if kind_of(method):
        raise TypeError("method is an array; masks and other options are given by name: mask=...")
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    return METHODS[method].function(query, key, value, **options)


if not TYPE_CHECKING:  # a checker would take every name for a module

    def __getattr__(name: str) -> ModuleType:
        """A room, loaded at first use. One whose library is missing is, to hasattr and help, not there."""
        if name not in ROOMS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            absent = f"{error.name} comes with the course: pip install attnlab-course"
            raise AttributeError(absent if error.name == f"{__name__}.{name}" else str(error)) from error

    def __dir__() -> list[str]:
        return sorted({*globals(), *ROOMS})


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
