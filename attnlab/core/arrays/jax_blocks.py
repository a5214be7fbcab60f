"""Blocks of an axis, in JAX: where a block starts may be traced, how large it is may not."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from attnlab.core.arrays.jax import Array
from attnlab.core.bundle import Inputs
from attnlab.core.geometry import Band, blocks

import jax.numpy as jnp
from jax import lax

Schedule = tuple[int | Array, int | Array, Callable[[Array], Array]]


class Block(NamedTuple):
    """``size`` positions from ``start`` on; those before ``first`` were in the block before."""

    start: int | Array
    size: int
    first: int | Array | None = None

    @property
    def positions(self) -> Array:
        """The positions themselves."""
        return jnp.int32(self.start) + jnp.arange(self.size, dtype=jnp.int32)

    @property
    def begin(self) -> Array:
        """The first position that wasn't in the block before."""
        return jnp.int32(self.start if self.first is None else self.first)

    @property
    def range(self) -> slice:
        """The positions as a slice, for ``Band``."""
        return slice(self.start, self.start + self.size)


def block(b: int | Array, size: int, length: int, *, once: bool = False) -> Block:
    """The b-th block of a length; all have the same size, as shapes are static.

    When the size does not divide the length, dynamic_slice moves the last block back until it ends with the
    length. The block then starts before b · size, with positions of the block before: a well-known bug if one
    forgets it. A result for them is merely computed and written
    twice; what is summed must count them once, so ``once`` marks them, and ``visibility`` hides them.
    """
    return Block(jnp.minimum(b * size, length - size), size, b * size if once and length % size != 0 else None)


def band_at(band: Band, offset: Array | None) -> Band:
    """The band at a traced offset: its two diagonals become arrays. ``offset`` may also be the pair (low, high)."""
    if offset is None:
        return band
    if offset.ndim:
        return Band(band.n, band.m, -offset[0], offset[1], 0, band.block_mask)
    left = None if band.left is None else -diagonal(offset, -band.left, band)
    right = None if band.right is None else diagonal(offset, band.right, band)
    return Band(band.n, band.m, left, right, 0, band.block_mask)


def diagonal(offset: Array, shift: int, band: Band) -> Array:
    """offset + shift, from −N to M, beyond which nothing more is hidden; no number on the way leaves 32 bits."""
    if not all(isinstance(size, int) for size in (band.n, band.m)):  # symbols, as in jax.export
        return jnp.clip(offset + shift, -band.n, band.m)
    first, last = -band.n - shift, band.m - shift  # the offsets at which the result is −N and M
    if first >= 2**31 or last < -(2**31):
        return jnp.int32(-band.n if first >= 2**31 else band.m)
    held = jnp.clip(offset, max(first, -(2**31)), min(last, 2**31 - 1))
    return held - first - band.n if first >= -(2**31) else held - last + band.m


def known_tiles(band: Band, x: Inputs) -> bool:
    """Whether shapes, causal and window alone say which tiles are visible, and all of them are numbers."""
    data = (x.mask, x.bias, x.query_segments, x.offset, band.block_mask)
    return all(y is None for y in data) and all(isinstance(size, int) for size in (band.n, band.m))


def block_range(first: int | Array, last: int | Array, size: int, length: int) -> tuple[Array, Array]:
    """The range of blocks that meet [first, last): traced, so that a loop over it skips hidden tiles."""
    first, last = jnp.maximum(first, 0), jnp.minimum(last, length)
    return first // size, jnp.where(first < last, -(-last // size), 0)


def schedule(band: Band, b: int | Array, size: int, other: int, by_keys: bool = False) -> Schedule:
    """Which blocks of the other axis the b-th block meets: a range to loop over, and the block of each turn.

    By queries (blocks of ``size`` queries meet blocks of ``other`` keys) or by keys. Without a block mask the blocks
    follow one another. With one a table, made before anything is traced, lists those that it shows, and the range is
    where the band meets the list.
    """
    length, across = (band.m, band.n) if by_keys else (band.n, band.m)
    reach = band.queries if by_keys else band.keys
    first, last = block_range(*reach(block(b, size, length).range), other, across)
    if band.block_mask is None:
        return first, last, lambda turn: turn
    unbounded = dataclasses.replace(band, left=None, right=None)
    meets = unbounded.query_blocks if by_keys else unbounded.key_blocks
    lists = [[found.start // other for found in meets(part, other)] for part in blocks(length, size)]
    width = max(1, *map(len, lists))
    table = jnp.asarray([row + [2**31 - 1] * (width - len(row)) for row in lists], jnp.int32)
    first, last = ((table[b] < end).sum(dtype=jnp.int32) for end in (first, last))
    return first, last, lambda turn: table[b, turn]


def skip_hidden(found: Schedule, seen: Array | None) -> Schedule:
    """The schedule without the blocks of which nothing is ``seen``; the others keep their order."""
    if seen is None:
        return found
    first, last, nth = found
    turns = jnp.arange(seen.size, dtype=jnp.int32)
    kept = (first <= turns) & (turns < last) & seen[nth(turns)]
    order = jnp.argsort(~kept)  # which is stable
    return 0, kept.sum(dtype=jnp.int32), lambda turn: nth(order[turn])


def squeeze_heads(x: Array, heads: tuple[int, ...]) -> Array:
    """x without its head axes of size 1. With one that x didn't have before, XLA would copy x when a loop starts.

    A constraint on the layout would prevent that, too, but gather what is sharded over several devices.
    """
    return x.reshape((*(size for size in heads if size != 1), *x.shape[len(heads):]))


def take_rows(x: Array, heads: tuple[int, ...], part: Block, axis: int = -2) -> Array:
    """A block of rows of a squeezed array, with all its head axes again."""
    x = take_block(x, part, axis)
    return x.reshape((*heads, *x.shape[axis:]))


def take_block(x: Array, part: Block, axis: int) -> Array:
    """A block of one axis; x itself if it has that size, being the whole axis or cut before."""
    return x if x.shape[axis] == part.size else lax.dynamic_slice_in_dim(x, part.start, part.size, axis)


def put_block(x: Array, new: Array, part: Block, axis: int) -> Array:
    """x with a block of one axis replaced: in place, when compiled in a loop. What was in the block before stays."""
    if part.first is not None:
        kept = (part.positions < part.first).reshape((-1,) + (1,) * (-1 - axis))
        new = jnp.where(kept, take_block(x, part, axis), new.astype(x.dtype))
    return lax.dynamic_update_slice_in_dim(x, new.astype(x.dtype), part.start, axis)
