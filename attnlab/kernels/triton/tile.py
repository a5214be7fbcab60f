"""What the Triton kernels are made of: tiles that a program loads, what is visible of them, what dropout keeps.

A kernel gets no arrays but addresses. ``Matrices`` says where the element (i, j) of each head's matrix lies: at
start(head) + i · row_stride + j · col_stride. So an array with any strides is read where it is.

The functions below ``jit`` have the meaning of those in attnlab.geometry and attnlab.scores, for a tile that begins at
(first_row, first_col) and has the positions rows × cols.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from attnlab import dropout as dropping
from attnlab.call import Rules, Sizes
from attnlab.arrays.torch import Mask, Query, Seed, Value
from attnlab.kernels.sizes import padded, tile_sizes

import torch
from torch import Tensor as Array

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this part of attnlab needs Triton: pip install triton", name="triton") from error

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
PARITY, ROTATIONS = tl.constexpr(dropping.PARITY), tl.constexpr(dropping.ROTATIONS)
INFINITY = tl.constexpr(float("inf"))


def jit(function: Callable) -> Callable:
    """triton.jit of the function as it is written: under pytest a checker of shapes is wrapped around it."""
    return triton.jit(inspect.unwrap(function))


class Matrices(NamedTuple):
    """An array (*heads, rows, cols) as a kernel sees it."""

    data: Any
    heads: tuple[int, ...]
    strides: tuple[int, ...]  # of the axes in heads
    rows: int
    cols: int
    row_stride: int
    col_stride: int


class Band(NamedTuple):
    """attnlab.geometry.Band for a kernel; with a block mask, also the address of its table and how to read it."""

    n: int
    m: int
    offset: int
    left: int | None
    right: int | None
    table: Any
    table_q: int
    table_k: int
    table_cols: int


class Dropout(NamedTuple):
    """A probability is kept iff its word is greater than ``highest``, and then multiplied by ``factor``."""

    seed: int
    heads: int  # under vmap, of one example: every example has the same words
    highest: int
    factor: float


def matrices(x: Array) -> Matrices:
    """The matrices in the last two axes; nothing is copied."""
    return Matrices(x, tuple(x.shape[:-2]), x.stride()[:-2], *x.shape[-2:], *x.stride()[-2:])


def vectors(x: Array) -> Matrices:
    """The vectors in the last axis, as matrices of one column."""
    return matrices(x[..., None])


def visibility(query: Query, mask: Mask, rules: Rules) -> tuple[Matrices | None, Band]:
    """The mask, expanded by strides of 0, and the band."""
    band, table = rules.band, rules.band.block_mask
    if mask is not None:
        mask = matrices(mask.view(torch.uint8).expand(*query.shape[:-1], band.m))
    cells = (None, 1, 1, 1)
    if table is not None:
        shown = torch.tensor(table.tiles, dtype=torch.uint8, device=query.device)
        cells = (shown, table.block_q, table.block_k, shown.shape[-1])
    return mask, Band(band.n, band.m, band.offset, band.left, band.right, *cells)


def dropout(seed: Seed, rules: Rules) -> Dropout | None:
    """What a kernel needs to know of dropout; None where no word can be dropped."""
    dropped = round(rules.dropout * 2**32)
    factor = 0.0 if rules.dropout == 1 else 1 / (1 - rules.dropout)
    return Dropout(int(seed), math.prod(rules.heads), dropped - 1, factor) if dropped else None


def constants(query: Query, value: Value, mask: Mask, rules: Rules, sizes: Sizes, rows: int) -> dict[str, int]:
    """What a kernel is compiled for: the sizes of its tiles, its warps, its stages."""
    block_q, block_k = tile_sizes(query, value, mask, rules, sizes, rows=rows)
    return {
        "GROUP": query.shape[-3],
        "BLOCK_Q": block_q,
        "BLOCK_K": block_k,
        "D": padded(query.shape[-1]),
        "DV": padded(value.shape[-1]),
        "num_warps": 4 if max(query.shape[-1], value.shape[-1]) <= 64 else 8,
        "num_stages": 2,  # one tile of keys is on its way while the last one is worked on
    }


def launch(kernel: Any, programs: int, query: Matrices, *args: Any, **sizes: int) -> None:
    """Run that many programs of a kernel on the device of the query."""
    if programs:
        with torch.cuda.device_of(query.data):
            kernel[(programs,)](query, *args, **sizes)


@jit
def start(x, head):
    """Where the matrix of a head begins. 64 bits: a long array has more than 2³¹ elements."""
    at, head = x.data, head.to(tl.int64)
    for axis in tl.static_range(len(x.heads) - 1, -1, -1):
        at += head % x.heads[axis] * x.strides[axis]
        head = head // x.heads[axis]
    return at


@jit
def address(x, head, rows, cols):
    """Where the elements of a tile lie."""
    return start(x, head) + rows.to(tl.int64)[:, None] * x.row_stride + cols.to(tl.int64)[None, :] * x.col_stride


@jit
def load(x, head, rows, cols, seen):
    """A tile of a matrix; 0 beyond its edges and in rows that are not seen, which may hold NaN."""
    inside = (seen & (rows < x.rows))[:, None] & (cols < x.cols)[None, :]
    return tl.load(address(x, head, rows, cols), mask=inside, other=0)


@jit
def store(x, head, rows, cols, tile):
    """Write a tile of a matrix, rounded to its dtype, up to its edges."""
    inside = (rows < x.rows)[:, None] & (cols < x.cols)[None, :]
    tl.store(address(x, head, rows, cols), tile.to(x.data.dtype.element_ty), mask=inside)


@jit
def load_vector(x, head, rows):
    """A part of a vector; 0 beyond its end."""
    at = start(x, head) + rows.to(tl.int64) * x.row_stride
    return tl.load(at, mask=rows < x.rows, other=0)


@jit
def store_vector(x, head, rows, part):
    """Write a part of a vector, up to its end."""
    at = start(x, head) + rows.to(tl.int64) * x.row_stride
    tl.store(at, part, mask=rows < x.rows)


@jit
def dot(a, b):
    """a @ b, multiplied in the dtype of the inputs (float32 without TensorFloat-32) and summed in float32."""
    if INTERPRETED:  # it holds bfloat16 as integers and would multiply those
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


@jit
def finite(m):
    """The maximum to subtract: m, or 0 where nothing was seen yet, as −∞ − (−∞) is NaN."""
    return tl.where(m == -INFINITY, 0.0, m)


@jit
def positive(l):
    """The sum to divide by: l, or 1 where no weight was seen."""
    return tl.where(l == 0, 1.0, l)


@jit
def keys(band, first_row, ROWS: tl.constexpr):
    """First key and one past the last key that any of the rows sees."""
    first, last = 0, band.m
    if band.left is not None:
        first = tl.maximum(first_row + band.offset - band.left, 0)
    if band.right is not None:
        last = tl.minimum(tl.minimum(first_row + ROWS, band.n) + band.offset + band.right, band.m)
    return first, last


@jit
def queries(band, first_col, COLS: tl.constexpr):
    """First query and one past the last query that sees any of the columns."""
    first, last = 0, band.n
    if band.right is not None:
        first = tl.maximum(first_col - band.offset - band.right, 0)
    if band.left is not None:
        last = tl.minimum(tl.minimum(first_col + COLS, band.m) - band.offset + band.left, band.n)
    return first, last


@jit
def shown(band, first_row, first_col):
    """Whether the block mask shows a tile: one lookup."""
    if band.table is None:
        return True
    else:
        return tl.load(band.table + first_row // band.table_q * band.table_cols + first_col // band.table_k) != 0


@jit
def partial(band, mask, first_row, first_col, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Whether a query of the tile may not see a key of it."""
    if mask is not None:
        return True
    else:
        part = (first_row + ROWS > band.n) | (first_col + COLS > band.m)
        if band.right is not None:
            part |= first_col + COLS - 1 > first_row + band.offset + band.right
        if band.left is not None:
            part |= first_col < first_row + ROWS - 1 + band.offset - band.left
        return part


@jit
def visible(band, mask, head, rows, cols):
    """True where query i sees key j."""
    i, j = rows[:, None] + band.offset, cols[None, :]
    sees = (rows < band.n)[:, None] & (cols < band.m)[None, :]
    if band.right is not None:
        sees &= j <= i + band.right
    if band.left is not None:
        sees &= j >= i - band.left
    if mask is not None:
        sees &= load(mask, head, rows, cols, rows < band.n) != 0
    return sees


@jit
def seen_keys(band, mask, head, rows, cols, first, last):
    """True for a key that any of the rows sees; ``keys`` gave first and last."""
    if mask is None:
        return (first <= cols) & (cols < last)
    else:
        return tl.max(visible(band, mask, head, rows, cols).to(tl.int32), 0) > 0


@jit
def seeing_queries(band, mask, head, rows, cols, first, last):
    """True for a query that sees any of the columns; ``queries`` gave first and last."""
    if mask is None:
        return (first <= rows) & (rows < last)
    else:
        return tl.max(visible(band, mask, head, rows, cols).to(tl.int32), 1) > 0


@jit
def drop(p, dropout, head, rows, cols):
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout."""
    if dropout is None:
        return p
    else:
        word = threefry(dropout.seed, head % dropout.heads, rows[:, None], cols[None, :])
        return tl.where(word > dropout.highest, p * dropout.factor, 0.0)


@jit
def threefry(seed, h, i, j):
    """First word of Threefry-2x32 with 20 rounds, key (seed, h), counter (i, j)."""
    a, b = (h * 0 + seed).to(tl.uint32), h.to(tl.uint32)
    key = (a, b, a ^ b ^ PARITY)
    x, y = i.to(tl.uint32) + key[0], j.to(tl.uint32) + key[1]
    for r in tl.static_range(20):
        x += y
        y = (y << ROTATIONS[r % 8]) | (y >> (32 - ROTATIONS[r % 8]))
        y ^= x
        if r % 4 == 3:
            x += key[(r // 4 + 1) % 3]
            y += key[(r // 4 + 2) % 3] + (r // 4 + 1)
    return x
