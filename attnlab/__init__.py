"""attnlab: exact attention six ways, in NumPy, JAX and PyTorch.

naive, safe, lazy, online, chunked and tiled attention compute the same function of the same
arguments; they differ in the order in which one operator is evaluated, and so in memory and traffic.
Importing attnlab imports NumPy only; the library of ``query`` chooses the implementation. The rooms beside the six
(cache, paged, linear, ring, compat, ...) are loaded when they are first asked for: ``attnlab.cache.KVCache``.
"""

import difflib
import dis
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from attnlab.chunked import chunked_attention
from attnlab.core.arguments import check_choice, kind_of, shown
from attnlab.core.dropout.numpy import dropout_mask
from attnlab.core.other_names import ends_at_call
from attnlab.core.signature import Array, Attention, Method, Options
from attnlab.lazy import lazy_attention
from attnlab.naive import naive_attention
from attnlab.online import online_attention
from attnlab.rotation import rotary
from attnlab.safe import safe_attention
from attnlab.softmax import merge, naive_softmax, online_softmax, safe_softmax
from attnlab.tiled import tiled_attention, tiled_attention_backward

if TYPE_CHECKING:
    from attnlab import adapters as adapters, cache as cache, compat as compat, conventions as conventions
    from attnlab import costs as costs, linear as linear, measure as measure, paged as paged, ring as ring

__version__ = "0.1.0"

METHODS: dict[Method, Attention] = {
    "naive": naive_attention, "safe": safe_attention, "lazy": lazy_attention, "online": online_attention,
    "chunked": chunked_attention, "tiled": tiled_attention,
}  # fmt: skip
"""The six functions by name, from the bottom of the ladder to the top."""
ROOMS = ("adapters", "compat", "cache", "conventions", "costs", "linear", "measure", "paged", "ring")
"""Packages and modules beside the six functions."""
OF_COURSE = {"bench": "", "check": "", "hardware": ".instruments", "machine": ".instruments", "model": "", "plots": "",
             "serve": ""}  # fmt: skip
"""Where the course's own package has what is looked for here."""


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
@ends_at_call
def attention(query: Any, key: Any, value: Any, method: Method = "tiled", **options: Any) -> Any:
    """Attention by the algorithm ``method``: naive, safe, lazy, online, chunked or tiled.

    The other arguments, the result and the errors are those of the function named ``{method}_attention``;
    see :func:`tiled_attention`. Raises ValueError for an unknown method.
    """
    if kind_of(method) or isinstance(method, bool):
        raise TypeError(f"method is {shown(method)}; masks and other options are given by name: mask=...")
    return METHODS[check_choice("method", method, METHODS)](query, key, value, **options)


if not TYPE_CHECKING:  # a checker would take every name for a module

    @ends_at_call
    def __getattr__(name: str) -> ModuleType:
        """A room, loaded at first use. One whose library is missing is, to hasattr and help, not there.

        Where ``from attnlab import`` asks, a known way is an ImportError: Python would hide it behind words of its own.
        """
        if name in ROOMS:
            try:
                return importlib.import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                raise AttributeError(str(error)) from error
        words, near = f"module {__name__!r} has no attribute {name!r}", []
        if name in OF_COURSE:
            home = f"attnlab_course{OF_COURSE[name]}"
            words = f"{name} is in attnlab_course: pip install attnlab-course; from {home} import {name}"
        elif name[0] != "_":
            rooms = ROOMS[1 if sys.modules.get("torch") else 2 :]
            near = [f"attnlab.{x}.{name}" for x in rooms if hasattr(importlib.import_module(f"attnlab.{x}"), name)]
            near += ["tiled_attention"] if name.startswith("flash") else difflib.get_close_matches(name, __all__, 1)
            words += f"; did you mean {near[0]}?" if near else ""
        asks = sys._getframe(2)
        imports = asks.f_code.co_code[asks.f_lasti] == dis.opmap["IMPORT_FROM"]
        raise (ImportError if imports and (near or name in OF_COURSE) else AttributeError)(words)

    def __dir__() -> list[str]:
        return sorted({*globals(), *ROOMS})


__all__ = [
    "METHODS", "attention", "chunked_attention", "dropout_mask", "lazy_attention", "merge", "naive_attention",
    "naive_softmax", "online_attention", "online_softmax", "rotary", "safe_attention", "safe_softmax",
    "tiled_attention", "tiled_attention_backward",
]  # fmt: skip
