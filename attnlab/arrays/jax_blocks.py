"""Blocks of an axis, in JAX: where a block starts may be traced, how large it is may not."""

from collections.abc import Callable
from typing import NamedTuple

from attnlab.call import missing
from attnlab.geometry import Band, blocks

try:
    import jax.numpy as jnp
    from jax import Array, lax
    from jax.experimental.layout import Layout, with_layout_constraint
except ModuleNotFoundError as error:
    raise missing("jax") from error


Schedule = tuple[int | Array, int | Array, Callable[[Array], Array]]


class Block(NamedTuple):
    """``size`` positions from ``start`` on; those before ``first`` were in the block before."""

    start: int | Array
    size: int
    first: int | Array | None = None

    @property
    def positions(self) -> Array:
        """The positions themselves."""
        return self.start + jnp.arange(self.size, dtype=jnp.int32)

    @property
    def range(self) -> slice:
        """The positions as a slice, for ``Band``."""
        return slice(self.start, self.start + self.size)


def block(b: int | Array, size: int, length: int, *, once: bool = False) -> Block:
    """The b-th block of a length; all have the same size, as shapes are static.

    When the size does not divide the length, dynamic_slice moves the last block back until it ends with the
    length: a famous bug for those who take it to start at b · size, and correct once that is reckoned with.
    The block then begins with positions of the block before. A result for them is merely computed and written
    twice; what is summed must count them once, so ``once`` marks them, and ``visibility`` hides them.
    """
    return Block(jnp.minimum(b * size, length - size), size, b * size if once and length % size else None)


def visits(first: int | Array, last: int | Array, size: int, length: int) -> tuple[Array, Array]:
    """The range of blocks that meet [first, last): traced, so that a loop over it skips hidden tiles."""
    return jnp.maximum(first, 0) // size, -(-jnp.minimum(last, length) // size)


def schedule(band: Band, b: int | Array, size: int, other: int, by_keys: bool = False) -> Schedule:
    """Which blocks of the other axis the b-th block meets: a range to loop over, and the block of each turn.

    By queries (blocks of ``size`` queries meet blocks of ``other`` keys) or by keys. Without a block mask the blocks
    follow one another; with one a table, made before anything is traced, lists those that are visible.
    """
    length, across = (band.m, band.n) if by_keys else (band.n, band.m)
    if band.block_mask is None:
        reach = band.queries if by_keys else band.keys
        return *visits(*reach(block(b, size, length).range), other, across), lambda turn: turn
    meets = band.query_blocks if by_keys else band.key_blocks
    lists = [[found.start // other for found in meets(part, other)] for part in blocks(length, size)]
    width = max(1, *map(len, lists))
    table = jnp.asarray([row + [0] * (width - len(row)) for row in lists], jnp.int32)
    return 0, jnp.asarray([len(row) for row in lists], jnp.int32)[b], lambda turn: table[b, turn]


def in_order(x: Array) -> Array:
    """x laid out as its axes stand: an array with an axis of size 1 XLA would copy when it enters a loop."""
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))


def at(x: Array, part: Block, axis: int) -> Array:
    """A block of one axis; x itself if it has that size, being the whole axis or cut before."""
    return x if x.shape[axis] == part.size else lax.dynamic_slice_in_dim(x, part.start, part.size, axis)


def write(x: Array, new: Array, part: Block, axis: int) -> Array:
    """x with a block of one axis replaced: in place, when compiled in a loop. What was in the block before stays."""
    if part.first is not None:
        kept = (part.positions < part.first).reshape((-1,) + (1,) * (-1 - axis))
        new = jnp.where(kept, at(x, part, axis), new.astype(x.dtype))
    return lax.dynamic_update_slice_in_dim(x, new.astype(x.dtype), part.start, axis)
