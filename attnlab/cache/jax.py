"""Caches in JAX: pytrees, of which every step returns a new one. Donate the old one, and its memory is reused.

The length is data, so one program serves all lengths: the cores run over all slots with a traced offset, and skip the
tiles behind it.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from attnlab.cache import KVCache, RollingCache
from attnlab.cache.checks import check_known_lengths, check_known_rows, check_length, check_capacity
from attnlab.cache.slots import position_in_slot
from attnlab.core.arguments import integer
from attnlab.core.arrays.jax import Key, Lse, Mask, Out, Query, Value
from attnlab.core.arrays.jax import accumulator, zeros
from attnlab.core.arrays.jax_blocks import Block, put_block, take_rows, squeeze_heads
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import TRACED, Band
from attnlab.core.shapes import Int32
from attnlab.rotation import rotary
from attnlab.softmax.jax import merge
from attnlab.tiled.jax import LONGEST, tiled_attention

import jax
import jax.numpy as jnp
from jax import Array, lax

Result = tuple[Out, Lse]

jax.tree_util.register_dataclass(KVCache, ["keys", "values", "length"], ["latent"])
jax.tree_util.register_dataclass(
    RollingCache, ["keys", "values", "length"], ["window", "sinks", "rotary", "sink_positions"]
)


def empty_slots(like: Array, dtype: str, keys: tuple[int, ...], values: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Empty slots of these shapes, each in a buffer of its own, so that it can be donated, and the length 0."""
    return jnp.zeros(keys, dtype), jnp.zeros(values, dtype), jnp.zeros((), jnp.int32)


def values_of_latent(keys: Array, size: int) -> None:
    """None: JAX has no views, so the step reads the values from the keys."""


def positions(cache: KVCache | RollingCache, window: int, sinks: int) -> Int32[Array, " slots"]:
    """The position that each slot holds, −1 where it is empty."""
    return position_in_slot(jnp.arange(cache.capacity, dtype=jnp.int32), cache.length, window, sinks, jnp.where)


def cut_to(cache: KVCache, length: Any) -> KVCache:
    """The cache, cut to a length; a traced one is held in its range."""
    if not any(isinstance(x, jax.core.Tracer) for x in (length, cache.length)):
        check_length(integer("length", int(length), 0), int(cache.length))
    return replace(cache, length=jnp.clip(jnp.asarray(length, jnp.int32), 0, cache.length))


def select_rows(x: Array, rows: Any) -> Array:
    """Rows of the first axis, copied. A traced index out of range can't raise, so it gives NaN."""
    if not isinstance(rows, jax.core.Tracer):
        check_known_rows(rows.tolist(), len(x))
    return x.at[jnp.asarray(rows, jnp.int32)].get(mode="fill", fill_value=jnp.nan)


def extend(cache: KVCache, x: Inputs, scale: float, lengths: Any = None) -> tuple[Out, Lse, KVCache]:
    """The step of a KVCache. A traced length cannot raise: then rows that do not fit become NaN."""
    count, traced = x.key.shape[-2], isinstance(cache.length, jax.core.Tracer)
    if lengths is None:
        if not traced:
            check_capacity(int(cache.length), count, cache.capacity)
        return _extend(cache, x, scale)
    if not traced and not isinstance(lengths, jax.core.Tracer):
        check_known_lengths(lengths.tolist(), int(cache.length), count, cache.capacity)
    return extend_rows(cache, x, scale, jnp.asarray(lengths, jnp.int32))


@partial(jax.jit, static_argnames="scale")
def extend_rows(cache: KVCache, x: Inputs, scale: float, lengths: Int32[Array, " B"]) -> tuple[Out, Lse, KVCache]:
    """Each row of the batch takes its own step. A row whose length is out of range gets no slots, so it becomes NaN."""
    lengths = jnp.where((lengths >= 0) & (lengths <= cache.length), lengths, cache.capacity)
    one_mask = x.mask is not None and len(x.mask) == 1
    x = x._replace(mask=x.mask[0]) if one_mask else x
    axes = Inputs(0, 0, 0, None if one_mask else 0)
    step = jax.vmap(lambda *row: _extend(KVCache(*row[:3]), row[3], scale), (0, 0, 0, axes))
    out, lse, rows = step(cache.keys, cache.values, lengths, x)
    return out, lse, replace(cache, keys=rows.keys, values=rows.values, length=rows.length.max())


@partial(jax.jit, static_argnames="scale")
def _extend(cache: KVCache, x: Inputs, scale: float) -> tuple[Out, Lse, KVCache]:
    at = cache.length + jnp.arange(x.key.shape[-2], dtype=jnp.int32)

    def write(kept: Array, new: Array) -> Array:  # dynamic_update_slice would move back to fit, over old keys
        return kept.at[..., at, :].set(new.astype(kept.dtype), mode="drop", unique_indices=True)

    keys = write(cache.keys, x.key)
    values = None if cache.values is None else write(cache.values, x.value)
    whole = keys if values is None else values  # of a latent out is too wide: a slice of the keys would copy them
    out, lse = attend_from(x.query, keys, whole, cache.length, scale, mask=x.mask)
    out = out[..., : x.value.shape[-1]]
    fits = at < cache.capacity
    out, lse = jnp.where(fits[:, None], out, jnp.nan), jnp.where(fits, lse, jnp.nan)
    return out, lse, replace(cache, keys=keys, values=values, length=cache.length + at.size)


@partial(jax.jit, static_argnames="scale")
def roll(cache: RollingCache, x: Inputs, scale: float) -> tuple[Out, Lse, RollingCache]:
    """The step of a RollingCache, one token after the other."""
    out, lse = zeros(x.query, x.value.shape[-1]), jnp.zeros_like(x.query[..., 0], accumulator(x.query))
    new = [(squeeze_heads(y, y.shape[:-2]), y.shape[:-2]) for y in x[:3]]

    def token(i: Array, results: tuple[Out, Lse, RollingCache]) -> tuple[Out, Lse, RollingCache]:
        (out, lse, cache), one = results, Block(i, 1)
        o, l, cache = roll_token(cache, *(take_rows(y, heads, one) for y, heads in new), scale)
        return put_block(out, o, one, -2), put_block(lse, l, one, -1), cache

    return lax.fori_loop(0, x.key.shape[-2], token, (out, lse, cache))


def roll_token(
    cache: RollingCache, query: Query, key: Key, value: Value, scale: float
) -> tuple[Out, Lse, RollingCache]:
    """Write one token and attend to every filled slot. They're a prefix of all slots: an offset says where it ends."""
    t, window, sinks, last = cache.length, cache.window, cache.sinks, cache.capacity - 1
    key = key if cache.rotary is None else rotary(key, t, base=cache.rotary)
    slot = jnp.where(t < sinks, t, sinks + (t - sinks) % window)
    keys, values = (
        lax.dynamic_update_slice_in_dim(kept, new.astype(kept.dtype), slot, -2)
        for kept, new in ((cache.keys, key), (cache.values, value))
    )
    end, wide = jnp.minimum(t, last), query.astype(accumulator(query))
    if cache.sink_positions == "text":
        wide = wide if cache.rotary is None else rotary(wide, t, base=cache.rotary)
        out, lse = attend_from(wide, keys, values, end, scale)
    else:  # the window by one rotation; by another the sinks that left it, in a tile of their own: a slice would copy
        ring = attend_from(rotary(wide, t, base=cache.rotary), keys, values, end, scale, window, LONGEST)
        left = jnp.minimum(t - window, sinks - 1)
        to_sinks, tile = rotary(wide, end, base=cache.rotary), min(max(sinks, 1), LONGEST)
        rest = attend_from(to_sinks, keys, values, left, scale, tile=tile)
        out, lse = merge(ring, rest, double=wide.dtype == jnp.float64)
    return out.astype(query.dtype), lse, replace(cache, keys=keys, values=values, length=t + 1)


def attend_from(
    query: Query, keys: Key, values: Value, offset: Int32[Array, ""], scale: float, window: int | None = None,
    tile: int | None = None, mask: Mask = None,
) -> Result:
    """The tiled core, causal from ``offset`` on, in tiles of its own size or of ``tile`` keys."""
    n, m = query.shape[-2], keys.shape[-2]
    band = Band.of(n, m, True, None if window is None else (window - 1, None), TRACED)
    x = Inputs(query, keys, values, mask, offset=offset)
    return tiled_attention.core(Rules(scale, band, query.shape[:-2]), (None, tile), x)
