"""Caches in NumPy: new rows are written into their slots, and the cores read views of the slots that are filled."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy import ndarray as Array

from attnlab.cache import KVCache, RollingCache
from attnlab.cache.checks import check_known_lengths, check_known_rows, check_length, check_room
from attnlab.cache.slots import PIECE, held, parts, parts_of_one, written
from attnlab.core.arguments import integer
from attnlab.core.arrays.numpy import Key, Lse, Mask, Out, Query, Value
from attnlab.core.arrays.numpy import accumulator, quiet
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import Band, blocks
from attnlab.rotation import rotary
from attnlab.softmax.numpy import merge
from attnlab.tiled.numpy import tiled_attention

Result = tuple[Out, Lse]


def storage(like: Array, dtype: str, keys: tuple[int, ...], values: tuple[int, ...]) -> tuple[Array, Array, int]:
    """Empty slots of these shapes, and the length 0."""
    return np.zeros(keys, dtype), np.zeros(values, dtype), 0


def front(keys: Array, size: int) -> Array:
    """A view of the first ``size`` numbers of each key."""
    return keys[..., :size]


def positions(cache: KVCache | RollingCache, window: int, sinks: int) -> Array:
    """The position that each slot holds, −1 where it is empty."""
    return held(np.arange(cache.capacity), cache.length, window, sinks)


def truncated(cache: KVCache, length: Any) -> KVCache:
    """The cache, cut to a length."""
    check_length(length := integer("length", length, 0), cache.length)
    cache.length = length
    return cache


def take(x: Array, rows: Any) -> Array:
    """Some rows of the first axis, a copy."""
    check_known_rows(rows.tolist(), len(x))
    return x[rows.astype(np.intp)]


@quiet
def extend(cache: KVCache, x: Inputs, scale: float, lengths: Any = None) -> tuple[Out, Lse, KVCache]:
    """The step of a KVCache: aligned to the bottom right, the new queries see what they should."""
    if lengths is not None:
        return extend_rows(cache, x, scale, lengths.tolist())
    t, count = cache.length, x.key.shape[-2]
    check_room(t, count, cache.capacity)
    cache.keys[..., t : t + count, :], cache.values[..., t : t + count, :] = x.key, x.value
    cache.length = t + count
    band = Band.of(count, cache.length, causal=True)
    filled = slice(0, cache.length)
    mask = x.mask if x.mask is None or x.mask.shape[-1] == 1 else x.mask[..., filled]
    return *attend(x.query, cache.keys[..., filled, :], cache.values[..., filled, :], band, scale, mask), cache


def extend_rows(cache: KVCache, x: Inputs, scale: float, lengths: list[int]) -> tuple[Out, Lse, KVCache]:
    """Each row of the batch is a cache of its own, a view of all: its length, its step."""
    count = x.key.shape[-2]
    check_known_lengths(lengths, cache.length, count, cache.capacity)
    results = []
    for b, length in enumerate(lengths):
        mask = x.mask if x.mask is None else x.mask[b if len(x.mask) > 1 else 0]
        row = Inputs(x.query[b], x.key[b], x.value[b], mask)
        results.append(extend(KVCache(cache.keys[b], cache.values[b], length), row, scale)[:2])
    cache.length = max(lengths, default=0) + count
    out, lse = (np.stack(parts) for parts in zip(*results))
    return out, lse, cache


@quiet
def roll(cache: RollingCache, x: Inputs, scale: float) -> tuple[Out, Lse, RollingCache]:
    """The step of a RollingCache, 512 tokens at a time: their results merge in the accumulation dtype."""
    query, lse = x.query, np.empty(x.query.shape[:-1], accumulator(x.query))
    out = np.empty((*query.shape[:-1], x.value.shape[-1]), query.dtype)
    for rows in blocks(query.shape[-2], PIECE):
        piece = (y[..., rows, :] for y in (query, x.key, x.value))
        out[..., rows, :], lse[..., rows] = reduce(joined, roll_piece(cache, *piece, scale))
    return out, lse, cache


def roll_piece(cache: RollingCache, query: Query, key: Key, value: Value, scale: float) -> Iterator[Result]:
    """What the tokens see, part by part; one token is written first, more are written last, as they evict."""
    t, count, ring = cache.length, key.shape[-2], (cache.window, cache.sinks)
    to_ring, to_sinks, key = rotated(cache, query, key)
    chunk = key.astype(cache.keys.dtype), value.astype(cache.values.dtype)
    if count == 1:
        write(cache, *chunk)
    met = parts(t, count, *ring) if count > 1 else parts_of_one(t, *ring, apart=to_sinks is not to_ring)
    for part in met:
        keys, values = (y[..., part.rows, :] for y in ((cache.keys, cache.values) if part.cached else chunk))
        yield attend(to_sinks if part.sinks else to_ring, keys, values, part.band(count), scale)
    if count > 1:
        write(cache, *chunk)


def rotated(cache: RollingCache, query: Query, key: Key) -> tuple[Query, Query, Key]:
    """The query for keys of the ring, the query for sinks, both in the accumulation dtype, and the key."""
    wide = query.astype(accumulator(query), copy=False)
    if cache.rotary is None:
        return wide, wide, key
    at = cache.length + np.arange(query.shape[-2])
    key, to_ring = rotary(key, at, base=cache.rotary), rotary(wide, at, base=cache.rotary)
    if cache.sink_positions == "text":
        return to_ring, to_ring, key
    return to_ring, rotary(wide, np.minimum(at, cache.capacity - 1), base=cache.rotary), key


def write(cache: RollingCache, key: Key, value: Value) -> None:
    """The tokens that outlive the chunk go to their slots."""
    kept, slots = written(cache.length, key.shape[-2], cache.window, cache.sinks)
    cache.keys[..., slots, :], cache.values[..., slots, :] = key[..., kept, :], value[..., kept, :]
    cache.length += key.shape[-2]


def attend(query: Query, keys: Key, values: Value, band: Band, scale: float, mask: Mask = None) -> Result:
    """The tiled core."""
    rules = Rules(scale, band, query.shape[:-2])
    return tiled_attention.core(rules, (None, None), Inputs(query, keys, values, mask))


def joined(a: Result, b: Result) -> Result:
    """Attention over two disjoint sets of keys."""
    return merge(a, b, double=a[1].dtype == np.float64)
