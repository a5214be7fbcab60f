"""The steps of caches that are written in place, as NumPy and PyTorch do: the cores read views of the filled slots."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import Any

from attnlab.cache import KVCache, RollingCache
from attnlab.cache.checks import check_known_lengths, check_length, check_capacity
from attnlab.cache.slots import PIECE, position_in_slot, ranges_after_write, ranges_before_write, slots_written
from attnlab.core.arguments import dtype_name, integer
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.dispatch import Array
from attnlab.core.geometry import Band, blocks
from attnlab.rotation import rotary

Result = tuple[Array, Array]  # out and lse


def cut_to(cache: KVCache, length: Any) -> KVCache:
    """The cache, cut to a length."""
    check_length(length := integer("length", length, 0), cache.length)
    cache.length = length
    return cache


def values_of_latent(keys: Array, size: int) -> Array:
    """A view of the first ``size`` numbers of each key."""
    return keys[..., :size]


@dataclass(frozen=True)
class InPlace:
    """The steps, with what each library has by another name."""

    integers: Callable[[int, Array], Array]  # 0, 1, …, as many as asked for, on the device of an array
    convert: Callable[[Array, Any], Array]  # an array in a dtype
    stack: Callable[[Any], Array]
    where: Callable[..., Array]
    arrays: ModuleType  # attnlab.core.arrays.numpy or torch
    merge: Callable[..., Result]
    core: Callable[..., Result]  # of tiled attention

    def positions(self, cache: KVCache | RollingCache, window: int, sinks: int) -> Array:
        """The position that each slot holds, −1 where it is empty."""
        return position_in_slot(self.integers(cache.capacity, cache.keys), cache.length, window, sinks, self.where)

    def extend(self, cache: KVCache, x: Inputs, scale: float, lengths: Any = None) -> tuple[Array, Array, KVCache]:
        """The step of a KVCache: write the new tokens, then attend, aligned to the bottom right."""
        if lengths is not None:
            return self.extend_rows(cache, x, scale, lengths.tolist())
        t, count = cache.length, x.key.shape[-2]
        check_capacity(t, count, cache.capacity)
        cache.keys[..., t : t + count, :], cache.values[..., t : t + count, :] = x.key, x.value
        cache.length = t + count
        filled = slice(0, cache.length)
        mask = x.mask if x.mask is None or x.mask.shape[-1] == 1 else x.mask[..., filled]
        seen = Inputs(x.query, cache.keys[..., filled, :], cache.values[..., filled, :], mask)
        return *self.attend(seen, Band.of(count, cache.length, causal=True), scale), cache

    def extend_rows(self, cache: KVCache, x: Inputs, scale: float, lengths: list[int]) -> tuple[Array, Array, KVCache]:
        """The step of each row of the batch, which is a cache of its own length: a view of the whole one."""
        count = x.key.shape[-2]
        check_known_lengths(lengths, cache.length, count, cache.capacity)
        results = []
        for b, length in enumerate(lengths):
            mask = x.mask if x.mask is None else x.mask[b if len(x.mask) > 1 else 0]
            row = Inputs(x.query[b], x.key[b], x.value[b], mask)
            results.append(self.extend(KVCache(cache.keys[b], cache.values[b], length), row, scale)[:2])
        cache.length = max(lengths, default=0) + count
        out, lse = map(self.stack, zip(*results))
        return out, lse, cache

    def roll(self, cache: RollingCache, x: Inputs, scale: float) -> tuple[Array, Array, RollingCache]:
        """The step of a RollingCache, 512 tokens at a time: their results merge in the accumulation dtype."""
        out, lse = self.arrays.empty(x)
        for rows in blocks(x.query.shape[-2], PIECE):
            piece = (y[..., rows, :] for y in x[:3])
            out[..., rows, :], lse[..., rows] = reduce(self.merge_two, self.roll_piece(cache, *piece, scale))
        return out, lse, cache

    def roll_piece(self, cache: RollingCache, query: Array, key: Array, value: Array, scale: float) -> Iterator[Result]:
        """What the tokens see, range by range. One token is written first; more evict keys, so they're written last."""
        t, count, ring = cache.length, key.shape[-2], (cache.window, cache.sinks)
        to_ring, to_sinks, key = self.rotate(cache, query, key)
        chunk = [self.convert(new, kept.dtype) for new, kept in ((key, cache.keys), (value, cache.values))]
        if count == 1:
            write(cache, *chunk)
            ranges = ranges_after_write(t, *ring, apart=to_sinks is not to_ring)
        else:
            ranges = ranges_before_write(t, count, *ring)
        for part in ranges:
            keys, values = (y[..., part.rows, :] for y in ((cache.keys, cache.values) if part.cached else chunk))
            yield self.attend(Inputs(to_sinks if part.sinks else to_ring, keys, values), part.band(count), scale)
        if count > 1:
            write(cache, *chunk)

    def rotate(self, cache: RollingCache, query: Array, key: Array) -> tuple[Array, Array, Array]:
        """The query for keys of the ring, the query for sinks, both in the accumulation dtype, and the key."""
        wide = self.convert(query, self.arrays.accumulator(query))
        if cache.rotary is None:
            return wide, wide, key
        at = cache.length + self.integers(query.shape[-2], query)
        key, to_ring = rotary(key, at, base=cache.rotary), rotary(wide, at, base=cache.rotary)
        if cache.sink_positions == "text":
            return to_ring, to_ring, key
        return to_ring, rotary(wide, at.clip(max=cache.capacity - 1), base=cache.rotary), key

    def attend(self, x: Inputs, band: Band, scale: float) -> Result:
        """The core of tiled attention, in tiles of its own size."""
        return self.core(Rules(scale, band, x.query.shape[:-2]), (None, None), x)

    def merge_two(self, a: Result, b: Result) -> Result:
        """Attention over two disjoint sets of keys."""
        return self.merge(a, b, double=dtype_name(a[1]) == "float64")


def write(cache: RollingCache, key: Array, value: Array) -> None:
    """Write the tokens that outlive the chunk into their slots."""
    kept, slots = slots_written(cache.length, key.shape[-2], cache.window, cache.sinks)
    cache.keys[..., slots, :], cache.values[..., slots, :] = key[..., kept, :], value[..., kept, :]
    cache.length += key.shape[-2]
