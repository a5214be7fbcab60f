"""Caches of keys and values: attention one token, or one chunk of tokens, at a time.

A decoder's query sees no later key, so what a key is never changes: it is computed once and kept. Tokens t … t + C − 1
come with C queries; their keys are appended, and query t + i sees

    KVCache         all j ≤ t + i
    RollingCache    j ≤ t + i where t + i − j < window, or j < sinks: window + sinks slots, however long the text

Any split of a sequence into chunks gives the same rows as one call over all of it. State is explicit: NumPy and PyTorch
write in place and return the same object; in JAX a cache is a pytree, and every call returns a new one. Derived in
notebooks 14 and 16.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, overload

from attnlab.cache.quantized import Quantized, dequantize, quantize
from attnlab.cache.checks import (
    check_kept, check_latent, check_lengths, check_rotation, check_rows, check_tokens, value_of,
)
from attnlab.core.arguments import boolean, check_mask, check_static, integer, kind_of, number
from attnlab.core.bundle import Inputs, group, group_heads
from attnlab.core.dispatch import backend, in_autocast, refuse_gradient, untraced
from attnlab.core.other_names import ends_at_call, errors_end_at_calls
from attnlab.core.signature import Array

import numpy as np

__all__ = ["KVCache", "Quantized", "RollingCache", "dequantize", "quantize"]

SinkPositions = Literal["text", "cache"]


@ends_at_call
@dataclass
class Cache:
    """What both caches have: the slots of keys and values, and how many tokens were taken so far."""

    keys: Any
    values: Any
    length: Any

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values; values that are part of the keys, as in a latent, take none."""
        shared = self.values is None or getattr(self, "latent", None) is not None
        return self.keys.nbytes + (0 if shared else self.values.nbytes)

    def select(self, rows: Any) -> Self:
        """A new cache with these rows of the first batch axis, in this order: beams, or what is not finished yet.

        ``rows``: integers, in a list or an array of the cache's library, in JAX also traced; a row may come twice or
        not at all. The cache itself stays, and shares no memory with the new one: all rows make a copy to branch off.
        Raises TypeError or ValueError (no batch axis in front of the heads, a row that doesn't exist).
        """
        check_rows(self.keys, rows := rows if kind_of(rows) else np.array(rows))
        library, latent = backend("keys", self.keys, __name__), getattr(self, "latent", None)
        keys = library.select_rows(self.keys, rows)
        values = library.select_rows(self.values, rows) if latent is None else library.values_of_latent(keys, latent)
        return replace(self, keys=keys, values=values)


@dataclass
class KVCache(Cache):
    """All keys and values so far, in ``capacity`` slots: token p is in slot p.

    ``keys``: (..., Hk, capacity, D), ``values``: (..., Hk, capacity, Dv). ``length``: tokens taken so far, in JAX an
    int32 scalar. ``latent``: None, or Dv where the values are the first Dv numbers of the keys and stored with them:
    ``values`` is then a view, and in JAX, which has none, None. Made by ``empty``.
    """

    latent: int | None = None

    @classmethod
    def empty(cls, key: Any, value: Any, *, capacity: int, dtype: Any = None) -> "KVCache":
        """A cache without tokens, for keys (..., Hk, C, D) and values (..., Hk, C, Dv) like these, which it leaves out.

        2-D keys are one head. ``value`` may be an integer Dv ≤ D: the values are the first Dv numbers of the keys, as
        in multi-head latent attention, and ``attend`` takes None for them. ``dtype``: in which keys and values are
        kept, rounded once, key's own by default; float64 is kept as float64. Raises TypeError or ValueError, naming the
        argument.
        """
        capacity = integer("capacity", capacity, 1)
        if not isinstance(value, (int, np.integer)):
            return cls(*make_slots(key, value, capacity, dtype))
        check_latent(key, latent := integer("value", value, 1))
        keys, _, length = make_slots(key, key[..., :0], capacity, dtype)
        return cls(keys, backend("key", key, __name__).values_of_latent(keys, latent), length, latent)

    @property
    def capacity(self) -> int:
        """How many tokens fit."""
        return self.keys.shape[-2]

    @property
    def positions(self) -> Any:
        """The position that each slot holds, −1 where it is empty: (capacity,) integers."""
        return backend("keys", self.keys, __name__).positions(self, 1, self.capacity)

    @overload
    def attend(
        self, query: Array, key: Array, value: Array | None, *, lengths: Any = None, mask: Array | None = None,
        scale: float | None = None, return_lse: Literal[False] = False,
    ) -> tuple[Array, "KVCache"]: ...
    @overload
    def attend(
        self, query: Array, key: Array, value: Array | None, *, lengths: Any = None, mask: Array | None = None,
        scale: float | None = None, return_lse: Literal[True],
    ) -> tuple[tuple[Array, Array], "KVCache"]: ...
    @untraced
    def attend(
        self, query: Any, key: Any, value: Any, *, lengths: Any = None, mask: Any = None,
        scale: float | None = None, return_lse: bool = False,
    ) -> tuple[Any, "KVCache"]:
        """Append the C newest tokens in order, and attend: (out, cache), or ((out, lse), cache).

        ``query`` (..., Hq, C, D), ``key`` (..., Hk, C, D), ``value`` (..., Hk, C, Dv) or, of a latent, None, C ≥ 1; out
        and lse as of every attention function, each query seeing all keys up to its own. ``mask``: boolean,
        broadcasting to (..., Hq, C, capacity), True = attend, its last axis being slots, which are positions.
        ``lengths``: (B,) integers, in a list or an array of the cache's library, where the rows of the first batch axis
        differ: how many tokens each has before this call, between 0 and ``length``. Row b goes on as if it were alone:
        its tokens take the slots from lengths[b] on, over what was there, and see none behind them. ``length`` then
        counts from the longest. So prompts of unequal lengths are padded at the end, with any finite numbers, and at
        every later call lengths says how far each row is; with rotary, that's the position of its new token. NumPy and
        PyTorch take the rows one by one.
        In JAX differentiable. In PyTorch there is no gradient, and NotImplementedError where one is asked for;
        torch.compile leaves the call alone, and refuses it with fullgraph=True; autocast casts as in every attention
        function.
        Raises ValueError, before anything is written, where the tokens do not fit; in JAX under jit, where length is
        traced, rows that do not fit are NaN, old keys stay, and length counts on, so that every later row is NaN too;
        so are the rows of a traced entry of lengths that is out of range.
        One compiled program serves all lengths; with the cache donated it's written in place (with ``lengths`` from JAX
        0.10 on).
        Extra memory: the tiles of ``tiled_attention``, whose sizes know of one query.
        """
        return attend(self, "extend", query, key, value, scale, return_lse, mask, lengths)

    def truncate(self, length: Any) -> "KVCache":
        """Forget the tokens from ``length`` on, as after guesses that were wrong: what comes next takes their slots.

        0 ≤ length ≤ the tokens taken so far, else ValueError; in JAX it may be traced, and is then held in that range.
        Takes no time: in NumPy and PyTorch the same cache, in JAX a new one of the same arrays.
        """
        return backend("keys", self.keys, __name__).cut_to(self, length)


@dataclass
class RollingCache(Cache):
    """The keys and values of the last ``window`` tokens and of the first ``sinks``.

    Token p is in slot p if p < sinks, else in sinks + (p − sinks) mod window. ``keys``: (..., Hk, window + sinks, D),
    ``values``: (..., Hk, window + sinks, Dv). ``length``: tokens taken so far, in JAX an int32 scalar. Made by
    ``empty``. There is no ``truncate``: the ring has overwritten keys that would be visible again.
    """

    window: int
    sinks: int = 0
    rotary: float | None = None
    sink_positions: SinkPositions = "text"

    @classmethod
    def empty(
        cls, key: Any, value: Any, *, window: int, sinks: int = 0, rotary: float | None = None,
        sink_positions: SinkPositions = "text", dtype: Any = None,
    ) -> "RollingCache":
        """A cache without tokens, for keys (..., Hk, C, D) and values (..., Hk, C, Dv) like these, which it leaves out.

        A query sees the last ``window`` keys, its own among them, and the first ``sinks``. ``rotary``: the base with
        which queries and keys are rotated here (``attnlab.rotary``); None leaves them as they come. Positions are those
        of the text, or with ``sink_positions="cache"`` counted among the tokens kept, so that no distance exceeds
        window + sinks − 1 (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks", section 3.2).
        ``dtype``: as in ``KVCache``. Raises TypeError or ValueError, naming the argument.
        """
        window, sinks = integer("window", window, 1), integer("sinks", sinks, 0)
        check_rotation(key, rotary, sink_positions)
        return cls(*make_slots(key, value, window + sinks, dtype), window, sinks, rotary, sink_positions)

    @property
    def capacity(self) -> int:
        """How many tokens are kept: window + sinks."""
        return self.window + self.sinks

    @property
    def positions(self) -> Any:
        """The position that each slot holds, −1 where it is empty: (capacity,) integers."""
        return backend("keys", self.keys, __name__).positions(self, self.window, self.sinks)

    @overload
    def attend(
        self, query: Array, key: Array, value: Array, *, scale: float | None = None, return_lse: Literal[False] = False
    ) -> tuple[Array, "RollingCache"]: ...
    @overload
    def attend(
        self, query: Array, key: Array, value: Array, *, scale: float | None = None, return_lse: Literal[True]
    ) -> tuple[tuple[Array, Array], "RollingCache"]: ...
    @untraced
    def attend(
        self, query: Any, key: Any, value: Any, *, scale: float | None = None, return_lse: bool = False
    ) -> tuple[Any, "RollingCache"]:
        """Append the C newest tokens in order, and attend: (out, cache), or ((out, lse), cache).

        Arguments and results as of ``KVCache.attend``; query i sees key j ≤ i where i − j < window or j < sinks. No
        length is too long, C may exceed the window, and the rows of a batch are equally long: no mask, no lengths.
        With "cache" positions keys need not be rotated anew: the distance to a key of the window is i − j as ever, that
        to sink r is min(i, sinks + window − 1) − r, so sinks meet a query of a rotation of its own, and the two results
        are merged.
        Extra memory: the tiles of ``tiled_attention`` and 512 rows of results, independent of C and window. In JAX the
        tokens of a chunk go one by one through a compiled loop, which costs C times a step: every step reads all slots.
        """
        return attend(self, "roll", query, key, value, scale, return_lse)


def make_slots(key: Any, value: Any, capacity: int, dtype: Any) -> tuple[Any, Any, Any]:
    """Keys and values of ``capacity`` slots, and the length 0; one head where key has no axis for heads."""
    name = check_kept(key, value, dtype)
    heads = tuple(key.shape[:-2]) or (1,)
    shapes = ((*heads, capacity, x.shape[-1]) for x in (key, value))
    return backend("key", key, __name__).empty_slots(key, name, *shapes)


def attend(
    cache: Any, step: str, query: Any, key: Any, value: Any, scale: Any, return_lse: Any, mask: Any = None,
    lengths: Any = None,
) -> tuple[Any, Any]:
    """One call: check it, let the library of the arrays take the step, give the results the shape of the query."""
    instead = "tiled_attention(query, keys, values, causal=True, offset=length)"
    value = value_of(getattr(cache, "latent", None), key, value)
    refuse_gradient(f"{type(cache).__name__}.attend", instead, query=query, key=key, value=value)
    query, key, value = in_autocast(query, key, value)
    x = Inputs(*group(query, key, value))
    check_static(scale=scale, return_lse=return_lse)
    check_tokens(cache, x)
    if mask is not None:
        check_mask(mask, query, (*query.shape[:-1], cache.capacity))
        x = x._replace(mask=group_heads(mask, tuple(x.query.shape[:-2])))
    return_lse = boolean("return_lse", return_lse)
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else number("scale", scale)
    more = {}
    if lengths is not None:
        check_lengths(cache.keys, lengths := lengths if kind_of(lengths) else np.array(lengths))
        more = {"lengths": lengths} if len(lengths) else {}
    out, lse, cache = getattr(backend("query", query, __name__), step)(cache, x, scale, **more)
    rows = tuple(query.shape[:-1])
    out = out.reshape((*rows, out.shape[-1]))
    return ((out, lse.reshape(rows)) if return_lse else out), cache


errors_end_at_calls(__name__)
