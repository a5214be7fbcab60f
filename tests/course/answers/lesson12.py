"""Answers to the exercises of lesson 12: right ones, written in other ways, and ones to refuse."""

import math
from typing import TYPE_CHECKING

import numpy as np

from tests.course.answers import edited

if TYPE_CHECKING:
    import triton.language as tl


def tile_from_the_largest(n, d, dv, registers, shared, warps):
    """The first that fits, from the blocks that read least on."""
    sizes = 16, 32, 64, 128, 256
    for b_r in sorted(sizes, key=lambda size: (-(-n // size), size)):
        for b_c in sorted(sizes, key=lambda size: (-(-n // size), size)):
            for w in sorted(warps):
                fits = b_r * (b_c + dv + 2) <= registers * 32 * w and 2 * b_r * d + 4 * b_c * (d + dv) <= shared
                if fits:
                    return b_r, b_c, w
    return None


def tile_by_a_sort(n, d, dv, registers, shared, warps):
    """All plans that fit, by what they cost."""
    plans = [
        (-(-n // int(b_r)), -(-n // int(b_c)), w, int(b_r), int(b_c))
        for b_r in 2 ** np.arange(4, 9) for b_c in 2 ** np.arange(4, 9) for w in warps
        if (b_r * b_c + b_r * dv + 2 * b_r) / 32 / w <= registers and 2 * b_r * d + 4 * b_c * (d + dv) <= shared
    ]
    _, _, w, b_r, b_c = sorted(plans)[0]
    return b_r, b_c, w


def grid_by_rows(memory, pid, q, k, v, o, lengths, d, block):
    """Slices of the rows and keys that there are, in place of masks."""
    ends = np.cumsum(lengths)
    first, end, begin = [(e - n, e, i) for n, e in zip(lengths, ends) for i in range(e - n, e, block)][pid]
    rows, cols = np.arange(begin, min(begin + block, end)), np.arange(d)
    queries = memory.load(q + rows[:, None] * d + cols)
    top, total, out = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros((len(rows), d))
    for key in range(first, end, block):
        offsets = np.arange(key, min(key + block, end))[:, None] * d + cols
        s = queries @ memory.load(k + offsets).T / math.sqrt(d)
        new = np.maximum(top, s.max(1))
        p = np.exp(s - new[:, None])
        out *= np.exp(top - new)[:, None]
        total *= np.exp(top - new)
        out += p @ memory.load(v + offsets)
        total += p.sum(1)
        top = new
    memory.store(o + rows[:, None] * d + cols, out / total[:, None])
    return memory.fetch(o, (sum(lengths), d))


def grid_at_once(memory, pid, q, k, v, o, lengths, d, block):
    """All keys of the sequence at once."""
    programs = [math.ceil(n / block) for n in lengths]
    mine = np.searchsorted(np.cumsum(programs), pid, side="right")
    first, end = sum(lengths[:mine]), sum(lengths[: mine + 1])
    begin = first + (pid - sum(programs[:mine])) * block
    rows, keys = np.arange(begin, min(begin + block, end)), np.arange(first, end)
    own, theirs = (at[:, None] * d + np.arange(d) for at in (rows, keys))
    s = memory.load(q + own) @ memory.load(k + theirs).T / math.sqrt(d)
    memory.store(o + own, np.exp(s - np.logaddexp.reduce(s, axis=1)[:, None]) @ memory.load(v + theirs))
    return memory.fetch(o, (sum(lengths), d))


def softmax_in_exp2(x, out, n, BLOCK: "tl.constexpr"):
    """A pointer to the row, powers of two, a mask by tl.where."""
    x += tl.program_id(0) * n
    out += tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    s = tl.where(at < n, tl.load(x + at, mask=at < n) * 1.4426950408889634, -1e38)
    p = tl.where(at < n, tl.exp2(s - tl.max(s, 0)), 0.0)
    tl.store(out + at, p / tl.sum(p, 0), mask=at < n)


def softmax_of_triton(x, out, n, BLOCK: "tl.constexpr"):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    there = tl.arange(0, BLOCK) < n
    tl.store(out + at, tl.softmax(tl.load(x + at, mask=there, other=float("-inf"))), mask=there)


def softmax_far_away(x, out, n, BLOCK: "tl.constexpr"):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at + 100_000_000), mask=at < n)


def softmax_clears_the_input(x, out, n, BLOCK: "tl.constexpr"):
    softmax_in_exp2(x, out, n, BLOCK)
    tl.store(x + tl.arange(0, BLOCK), tl.zeros([BLOCK], tl.float32), mask=tl.arange(0, BLOCK) < n)


def visit(q_i, factor, k, v, keys, rows, state, shift, m, masked: "tl.constexpr", D: "tl.constexpr"):
    """One tile, for the causal kernel below."""
    top, l, acc = state
    at, there = keys[:, None] * D + tl.arange(0, D), keys[:, None] < m
    k_j = tl.load(k + at, mask=there, other=0.0) if masked else tl.load(k + at)
    v_j = tl.load(v + at, mask=there, other=0.0) if masked else tl.load(v + at)
    t = tl.dot(q_i, tl.trans(k_j)) * factor
    t = tl.where(keys[None, :] <= rows[:, None] + shift, t, float("-inf")) if masked else t
    new = tl.maximum(top, tl.max(t, 1))
    a, p = tl.exp2(top - new), tl.exp2(t - new[:, None])
    return new, a * l + tl.sum(p, 1), a[:, None] * acc + tl.dot(p.to(v_j.dtype), v_j)


def causal_by_visits(q, k, v, out, n, m, scale, D: "tl.constexpr", BLOCK_Q: "tl.constexpr", BLOCK_K: "tl.constexpr"):
    """The five lines in a function of their own."""
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    own, inside = rows[:, None] * D + tl.arange(0, D), rows[:, None] < n
    q_i, factor = tl.load(q + own, mask=inside, other=0.0), scale * 1.4426950408889634
    start = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    state = start, tl.zeros([BLOCK_Q], tl.float32), tl.zeros([BLOCK_Q, D], tl.float32)
    first, shift = tl.program_id(0) * BLOCK_Q, m - n
    full = (first + shift + 1) // BLOCK_K
    for j in range(full):
        state = visit(q_i, factor, k, v, j * BLOCK_K + tl.arange(0, BLOCK_K), rows, state, shift, m, False, D)
    for j in range(full, tl.cdiv(tl.minimum(first + BLOCK_Q + shift, m), BLOCK_K)):
        state = visit(q_i, factor, k, v, j * BLOCK_K + tl.arange(0, BLOCK_K), rows, state, shift, m, True, D)
    tl.store(out + own, state[2] / state[1][:, None], mask=inside)


def causal_backwards(q, k, v, out, n, m, scale, D: "tl.constexpr", BLOCK_Q: "tl.constexpr", BLOCK_K: "tl.constexpr"):
    """The diagonal first, then the full tiles from the last one to the first: ⊕ does not mind."""
    first, shift = tl.program_id(0) * BLOCK_Q, m - n
    rows = first + tl.arange(0, BLOCK_Q)
    own, inside = rows[:, None] * D + tl.arange(0, D), rows[:, None] < n
    q_i, factor = tl.load(q + own, mask=inside, other=0.0), scale * 1.4426950408889634
    start = tl.full([BLOCK_Q], -1e30, tl.float32)
    state = start, tl.zeros([BLOCK_Q], tl.float32), tl.zeros([BLOCK_Q, D], tl.float32)
    full = (first + shift + 1) // BLOCK_K
    for j in range(full, tl.cdiv(tl.minimum(first + BLOCK_Q + shift, m), BLOCK_K)):
        state = visit(q_i, factor, k, v, j * BLOCK_K + tl.arange(0, BLOCK_K), rows, state, shift, m, True, D)
    for j in range(full):
        keys = (full - 1 - j) * BLOCK_K + tl.arange(0, BLOCK_K)
        state = visit(q_i, factor, k, v, keys, rows, state, shift, m, False, D)
    tl.store(out + own, state[2] / state[1][:, None], mask=inside)


FULL = "theirs = (first + tl.arange(0, BLOCK_K))[:, None] * D + cols"
SEEN = 'tl.where(keys <= rows[:, None] + m - n, tl.dot(q_i, tl.trans(k_j)) * factor, -float("inf"))'
causal_masks_loads = edited(
    "causal_kernel", "tl.load(k + theirs), tl.load(v + theirs)",
    "tl.load(k + theirs, mask=there), tl.load(v + theirs, mask=there)", FULL, f"{FULL}; there = theirs < m * D"
)

ALL_OF_OUT = "tl.num_programs(0) * n"
softmax_stores_beyond = edited(  # into the next row, whose own program comes later and stores over it
    "softmax_kernel", "axis=0), mask=there)", f"axis=0), mask=row * n + cols < {ALL_OF_OUT})",
)
softmax_reads_on = edited(
    "softmax_kernel", 'tl.load(x + row * n + cols, mask=there, other=-float("inf"))',
    f'tl.where(there, tl.load(x + row * n + cols, mask=row * n + cols < {ALL_OF_OUT}), -float("inf"))',
)
softmax_clipped = edited(
    "softmax_kernel", "tl.exp(s - tl.max(s, axis=0))",
    "tl.where(there, tl.exp(tl.maximum(s - tl.max(s, axis=0), -8.0)), 0.0)",
)
causal_maximum_of_all = edited(  # the hidden ones too
    "causal_kernel", f"t = {SEEN}", "t = tl.dot(q_i, tl.trans(k_j)) * factor; high = tl.maximum(top, tl.max(t, 1)); "
    "l, acc = l * tl.exp2(top - high), acc * tl.exp2(top - high)[:, None]; top = high; "
    "t = tl.where(keys <= rows[:, None] + m - n, t, -float('inf'))",
)


RIGHT = [
    ("tile_choice", tile_from_the_largest),
    ("tile_choice", tile_by_a_sort),
    ("grid_program", grid_by_rows),
    ("grid_program", grid_at_once),
    ("softmax_kernel", softmax_in_exp2),
    ("softmax_kernel", softmax_of_triton),
    ("causal_kernel", causal_by_visits),
    ("causal_kernel", causal_backwards),
]


program_that_hides_zeros = edited(
    "grid_program", "np.where(there.T, q_i @ memory.load(k + theirs, there).T, -np.inf)",
    "q_i @ memory.load(k + theirs, there).T\n        s = np.where(s == 0, -np.inf, s)"
)


REFUSED = [
    ("softmax_kernel", softmax_far_away, "far outside"),
    ("softmax_kernel", softmax_clears_the_input, "outside of its output"),
    ("causal_kernel", causal_masks_loads, "as many tiles under a mask"),
    ("softmax_kernel", softmax_stores_beyond, "times the numbers of its output"),
    ("softmax_kernel", softmax_reads_on, "of other rows than their own"),
    ("softmax_kernel", softmax_clipped, "9 and more apart"),
    ("causal_kernel", causal_maximum_of_all, "FUTURE"),
    ("grid_program", program_that_hides_zeros, "a query of zeros"),
]
