"""What the Triton kernels are made of: tiles that a program loads, what is visible of them, what dropout keeps.

The functions have the meaning of those in attnlab.core.geometry and attnlab.core.scores, for a tile that begins at
(first_row, first_col) and has the positions rows × cols. Row r is query r // G of head r % G of its group. What they
get besides, such as ``Matrices``, is explained in layout.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

from attnlab.core import dropout as dropping
from attnlab.kernels.triton.layout import Matrices

import torch
import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
PARITY, ROTATIONS = tl.constexpr(dropping.PARITY), tl.constexpr(dropping.ROTATIONS)
INFINITY, LOG2E, LN2 = (tl.constexpr(x) for x in (math.inf, math.log2(math.e), math.log(2)))


def jit(function: Callable) -> Callable:
    """triton.jit of the function as it is written: under pytest a checker of shapes is wrapped around it."""
    return triton.jit(inspect.unwrap(function))


def launch(kernel: Any, programs: int, query: Matrices, *args: Any, **constants: int) -> None:
    """Run that many programs of a kernel on the device of the query.

    s · scale − m · scale is one operation only where the compiler may fuse the two: from Triton 3.10 on if it is asked.
    """
    if programs:
        with torch.cuda.device_of(query.data):
            kernel[(programs,)](query, *args, enable_fp_fusion=True, **constants)


@jit
def start(x, head):
    """Where the matrix of a head begins. 64 bits: a long array has more than 2³¹ elements."""
    at, head = 0, head.to(tl.int64)
    for axis in tl.static_range(len(x.heads) - 1, -1, -1):
        at += head % x.heads[axis] * x.strides[axis]
        head = head // x.heads[axis]
    return x.data + x.unit * at


@jit
def down(x, rows):
    """How far below the first row the rows begin, in units."""
    rows = rows.to(tl.int64)
    if x.group == 1:
        return rows * x.row_stride
    else:
        return rows // x.group * x.row_stride + rows % x.group * x.group_stride


@jit
def address(x, head, rows, cols):
    """Where the elements of a tile lie."""
    return start(x, head) + x.unit * down(x, rows)[:, None] + cols.to(tl.int64)[None, :] * x.col_stride


@jit
def load(x, head, rows, cols, seen):
    """A tile of a matrix; 0 beyond its edges and in rows that are not seen, which may hold NaN. None: all are seen."""
    if seen is None:
        if cols.shape[0] == x.cols:
            return tl.load(address(x, head, rows, cols))
        else:
            return tl.load(address(x, head, rows, cols), mask=(cols < x.cols)[None, :], other=0)
    else:
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
    at = start(x, head) + x.unit * down(x, rows)
    return tl.load(at, mask=rows < x.rows, other=0)


@jit
def store_vector(x, head, rows, part):
    """Write a part of a vector, up to its end."""
    at = start(x, head) + x.unit * down(x, rows)
    tl.store(at, part, mask=rows < x.rows)


@jit
def signed(q, rules):
    """The queries with the sign of the scale, by way of float32: the interpreter multiplies bfloat16 as integers."""
    if rules.sign is None:
        return q
    else:
        return (q.to(tl.float32) * rules.sign).to(q.dtype)


@jit
def dot(a, b):
    """a @ b, multiplied in the dtype of the inputs (float32 without TensorFloat-32) and summed in float32."""
    if INTERPRETED:  # it holds bfloat16 as integers and would multiply those
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


@jit
def zero_if_empty(m):
    """The maximum to subtract: m, or 0 where nothing was seen yet, as −∞ − (−∞) is NaN."""
    return tl.where(m == -INFINITY, 0.0, m)


@jit
def one_if_empty(l):
    """The sum to divide by: l, or 1 where no weight was seen."""
    return tl.where(l == 0, 1.0, l)


@jit
def seen_by(rules, first_row, ROWS: tl.constexpr):
    """Keys that any of the rows sees, from the first to one past the last, and keys that all of them see."""
    last_row = tl.minimum(first_row + ROWS, rules.rows) - 1
    first_i, last_i = first_row // rules.group + rules.offset, last_row // rules.group + rules.offset
    any_first, any_last, all_first, all_last = 0, rules.m, 0, rules.m
    if rules.left is not None:
        any_first, all_first = tl.maximum(first_i - rules.left, 0), tl.maximum(last_i - rules.left, 0)
    if rules.right is not None:
        any_last = tl.maximum(tl.minimum(last_i + rules.right + 1, rules.m), 0)
        all_last = tl.maximum(tl.minimum(first_i + rules.right + 1, rules.m), 0)
    return any_first, any_last, all_first, all_last


@jit
def seeing(rules, first_col, COLS: tl.constexpr):
    """Rows that see any of the columns, from the first to one past the last, and rows that see all of them."""
    first_j, last_j = first_col - rules.offset, tl.minimum(first_col + COLS, rules.m) - 1 - rules.offset
    any_first, any_last, all_first, all_last = 0, rules.rows, 0, rules.rows
    if rules.right is not None:
        any_first = tl.maximum(first_j - rules.right, 0) * rules.group
        all_first = tl.maximum(last_j - rules.right, 0) * rules.group
    if rules.left is not None:
        any_last = tl.maximum(tl.minimum((last_j + rules.left + 1) * rules.group, rules.rows), 0)
        all_last = tl.maximum(tl.minimum((first_j + rules.left + 1) * rules.group, rules.rows), 0)
    return any_first, any_last, all_first, all_last


@jit
def visits(rules, seen, tile, SIZE: tl.constexpr):
    """How many tiles are visited in full, how many in all, and where the two ranges begin.

    ``seen`` are positions as from ``seen_by``; with a block mask the row ``tile`` of its table counts.
    """
    any_first, any_last, all_first, all_last = seen
    begin, end = any_first // SIZE, tl.cdiv(any_last, SIZE)
    full_begin, full_end = tl.cdiv(all_first, SIZE), all_last // SIZE
    full, total = tl.maximum(full_end - full_begin, 0), tl.maximum(end - begin, 0)
    if rules.table is not None:
        row = rules.table.data + tile * rules.table.width
        full, total = tl.load(row), tl.load(row + 1)
    if rules.mask is not None or rules.segments is not None:
        full = full * 0
    return full, total, begin, full_begin


@jit
def visited(rules, turns, tile, turn, PARTIAL: tl.constexpr):
    """The tile of a turn: first those visited in full, then those before and after them."""
    full, _, begin, full_begin = turns
    if rules.table is not None:
        return tl.load(rules.table.data + tile * rules.table.width + 2 + turn)
    elif PARTIAL:
        found = begin + turn - full
        return tl.where(found >= full_begin, found + full, found)
    else:
        return full_begin + turn


@jit
def visible(rules, head, rows, cols):
    """True where a row sees a key; rows and cols are a column and a row, or a row and a column."""
    i, sees = rows // rules.group + rules.offset, (rows < rules.rows) & (cols < rules.m)
    if rules.right is not None:
        sees &= cols <= i + rules.right
    if rules.left is not None:
        sees &= cols >= i - rules.left
    if rules.mask is not None:
        at = start(rules.mask, head) + rules.mask.unit * down(rules.mask, rows)
        sees &= tl.load(at + cols.to(tl.int64) * rules.mask.col_stride, mask=sees, other=0) != 0
    if rules.segments is not None:
        sees &= load_vector(rules.segments[0], head, rows) == load_vector(rules.segments[1], head, cols)
    return sees


@jit
def within(rules, part, seen, sees, axis: tl.constexpr):
    """True for a row or column of a tile that anything sees: by its position or, where arrays hide keys, by looking."""
    if rules.mask is None and rules.segments is None:
        return (seen[0] <= part) & (part < seen[1])
    else:
        return tl.max(sees.to(tl.int32), axis) > 0


@jit
def drop(p, rules, head, rows, cols):
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout; rows and cols as in ``visible``."""
    if rules.dropout is None:
        return p
    else:
        i, h = rows // rules.group, (head * rules.group + rows % rules.group) % rules.dropout.heads
        word = threefry(rules.dropout.seed, h, i, cols)
        return tl.where(word > rules.dropout.highest, p * rules.dropout.factor, 0.0)


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
