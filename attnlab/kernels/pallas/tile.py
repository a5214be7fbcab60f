"""One tile inside a kernel: where it lies, what is visible of it, what is loaded, what dropout keeps.

A kernel is one program, run many times at once: each run has program ids of its own, and references to the blocks of
the arrays that belong to it, which lie in the GPU's memory. It loads the tiles it needs; what it computes from them
stays on chip until it is stored.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from attnlab.call import Rules
from attnlab.arrays.jax import Mask, Offset, Seed
from attnlab.dropout.jax import threefry
from attnlab.arrays.jax_blocks import Block, Schedule, placed, visits
from attnlab.kernels.sizes import padded
from attnlab.geometry import TRACED, Band, blocks
from attnlab.typing import Bool, Float, Int32

import jax.numpy as jnp
from jax import Array, ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

Ref = Any  # a block of an array in the GPU's memory
Spec = pl.BlockSpec | None
Tile = Float[Array, "R C"]
Seen = Bool[Array, " S"] | None
Visible = Bool[Array, "R C"] | None

dot = functools.partial(jnp.einsum, precision="highest", preferred_element_type=jnp.float32)
"""Products in the input's dtype, summed in float32; by default a GPU rounds float32 factors to TF32."""


def launch(
    kernel: Callable, grid: tuple[int, int], inputs: Sequence[tuple[Any, Spec]],
    outputs: Sequence[tuple[ShapeDtypeStruct, Spec]], interpret: bool,
) -> Sequence[Array]:
    """Run a kernel for every (b, h) of the grid. Each array comes with the block of it that program (b, h) gets.

    Parameters of Triton choose that compiler, where Pallas has several; JAX 0.11 calls it deprecated. Eight warps, of
    32 threads each, share a program.
    """
    (arrays, in_specs), (out_shape, out_specs) = zip(*inputs), zip(*outputs)
    return pl.pallas_call(
        kernel, grid=grid, in_specs=in_specs, out_specs=list(out_specs), out_shape=list(out_shape),
        compiler_params=triton.CompilerParams(num_warps=8, num_stages=2), interpret=interpret,
    )(*arrays)  # fmt: skip


def block_b(size: int, *widths: int) -> pl.BlockSpec:
    """Of head h the b-th block of ``size`` positions."""
    return pl.BlockSpec((None, size, *map(padded, widths)), lambda b, h: (h, b, *[0] * len(widths)))


def whole(shape: tuple[int, ...], *widths: int, group: int = 1) -> pl.BlockSpec:
    """All positions of head h // group: the G heads of a group read the same keys, and none is repeated."""
    block = (None, *shape, *map(padded, widths))
    return pl.BlockSpec(block, lambda b, h: (h // group, *[0] * (len(block) - 1)))


def with_mask(mask: Mask, heads: Sequence[int]) -> tuple[Mask, Spec]:
    """A mask, and of it what belongs to the h-th of the heads; an axis over which it broadcasts stays at 0."""
    if mask is None:
        return None, None
    rest = mask.shape[len(heads) :]

    def index(b: Array, h: Array) -> tuple[int | Array, ...]:
        at = []
        for full, size in zip(heads[::-1], mask.shape[: len(heads)][::-1]):
            at.append(h % full if size > 1 else 0)
            h //= full
        return *at[::-1], *[0] * len(rest)

    return mask, pl.BlockSpec((*[None] * len(heads), *rest), index)


def with_number(x: Seed | Offset) -> tuple[Array | None, Spec]:
    """The seed of dropout, or an offset that is data, for every program."""
    return (None, None) if x is None else (x.reshape(1), pl.BlockSpec((1,), lambda b, h: (0,)))


def with_table(band: Band, size: int, other: int, by_keys: bool = False) -> tuple[Array | None, Spec]:
    """The block mask as a table: row b holds a count, then the blocks that block b meets. Program (b, h) gets row b."""
    if band.block_mask is None:
        return None, None
    if band.offset == TRACED:  # what else the band hides is known too late for a table, and is masked
        band = dataclasses.replace(band, left=None, right=None)
    meets, length = (band.query_blocks, band.m) if by_keys else (band.key_blocks, band.n)
    lists = [[found.start // other for found in meets(part, other)] for part in blocks(length, size)]
    width = 1 + max(map(len, lists))
    table = jnp.asarray([([len(row), *row] + [0] * width)[:width] for row in lists], jnp.int32)
    return table, pl.BlockSpec((None, width), lambda b, h: (b, 0))


def schedule(band: Band, table: Ref, b: Array, size: int, other: int, by_keys: bool = False) -> Schedule:
    """Which blocks of the other axis the b-th block meets: a range to loop over, and the block of each turn."""
    if table is not None:
        return 1, table[0] + 1, lambda turn: table[turn]
    reach, across = (band.queries, band.n) if by_keys else (band.keys, band.m)
    return *visits(*reach(Block(b * size, size).range), other, across), lambda turn: turn


def band_of(rules: Rules, offset: Ref) -> Band:
    """The band of a call; an offset that is data is read where it lies."""
    return placed(rules.band, None if offset is None else offset[0])


def load(ref: Ref, size: int, seen: Seen) -> Float[Array, "R P"]:
    """A tile of q, k, v or do with ``size`` numbers a row. What is not seen is not read and counts as 0.

    It may hold NaN, or lie past the end of the array.
    """
    real = jnp.arange(ref.shape[-1])[None, :] < size
    return triton.load(ref, mask=real if seen is None else real & seen[:, None], other=0.0)


def load_rows(ref: Ref, rows: Block, n: int) -> Float[Array, " R"]:
    """A number for each query of a tile: of lse or of Δ."""
    return triton.load(ref, mask=rows.positions < n, other=0.0)


def store(ref: Ref, size: int, x: Float[Array, "R P"], inside: Bool[Array, " R"]) -> None:
    """Write a tile of a result, without what fills it up."""
    real = jnp.arange(ref.shape[-1])[None, :] < size
    triton.store(ref, x.astype(ref.dtype), mask=real & inside[:, None])


def visibility(mask: Ref, band: Band, rows: Block, cols: Block, head: tuple = ()) -> Visible:
    """True where query i sees key j; None if no rule hides anything. Past its end nothing sees or is seen."""
    i, j = rows.positions[:, None], cols.positions[None, :]
    rules = [i < band.n] if band.n % rows.size else []
    rules += [j < band.m] if band.m % cols.size else []
    rules += [j >= i + (band.offset - band.left)] if band.left is not None else []
    rules += [j <= i + (band.offset + band.right)] if band.right is not None else []
    rules += [cut(mask, band, rows, cols, head)] if mask is not None else []
    return jnp.broadcast_to(functools.reduce(jnp.logical_and, rules), (rows.size, cols.size)) if rules else None


def cut(mask: Ref, band: Band, rows: Block, cols: Block, head: tuple) -> Bool[Array, "#R #C"]:
    """The part of a mask over one tile; an axis of size 1 stays 1."""
    head = [jnp.minimum(g, size - 1) for g, size in zip(head, mask.shape)]
    rows, cols = (x if size > 1 else Block(0, 1) for x, size in zip((rows, cols), mask.shape[-2:]))
    inside = (rows.positions < band.n)[:, None] & (cols.positions < band.m)[None, :]
    return triton.load(mask.at[*head, pl.ds(*rows[:2]), pl.ds(*cols[:2])], mask=inside, other=False)


def seen(visible: Visible, axis: int) -> Seen:
    """Which keys of a tile some query sees (axis 0), or which queries see some key (axis 1)."""
    return None if visible is None else visible.astype(jnp.int32).max(axis) > 0


def scores(q: Float[Array, "R P"], k: Float[Array, "C P"], visible: Visible, scale: float) -> Tile:
    """s = scale · q kᵀ of one tile, −∞ where invisible."""
    s = scale * dot("qd,kd->qk", q, k)
    return s if visible is None else jnp.where(visible, s, -jnp.inf)


def kept(seed: Ref, h: Int32[Array, ""], dropout: float, rows: Block, cols: Block) -> Visible:
    """True where dropout keeps, as ``attnlab.scores.jax.kept`` for one head; None without dropout."""
    threshold = round(dropout * 2**32)
    if threshold in (0, 2**32):
        return None if threshold == 0 else jnp.zeros((rows.size, cols.size), bool)
    i, j = rows.positions[:, None].astype(jnp.uint32), cols.positions.astype(jnp.uint32)
    return threefry(seed[0], h.astype(jnp.uint32).reshape(1, 1), i, j) >= jnp.uint32(threshold)


def drop(p: Tile, keep: Visible, dropout: float) -> Tile:
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout."""
    factor = 0 if dropout == 1 else 1 / (1 - dropout)
    return p if keep is None else jnp.where(keep, factor * p, 0)
