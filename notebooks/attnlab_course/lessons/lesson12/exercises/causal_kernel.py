"""Lesson 12, ★★★: the causal fold in Triton, in two loops: full tiles without any mask, then those on the diagonal."""

from typing import TYPE_CHECKING, Any

from attnlab.core.geometry import Band, blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, large_key
from attnlab_course.checker.promises import Measure

import numpy as np

if TYPE_CHECKING:
    import triton.language as tl


def causal_kernel(
    q: Any, k: Any, v: Any, out: Any, n: int, m: int, scale: float,
    D: "tl.constexpr", BLOCK_Q: "tl.constexpr", BLOCK_K: "tl.constexpr",
) -> None:
    """One program of causal attention, one head, n ≤ m: query i sees key j if j ≤ i + (m − n). Skip hidden tiles."""
    begin = tl.program_id(0) * BLOCK_Q
    rows, cols = begin + tl.arange(0, BLOCK_Q), tl.arange(0, D)
    own, inside = rows[:, None] * D + cols, rows[:, None] < n
    q_i, factor = tl.load(q + own, mask=inside, other=0.0), scale * 1.4426950408889634  # eq. 12.3
    top = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l, acc = tl.zeros([BLOCK_Q], tl.float32), tl.zeros([BLOCK_Q, D], tl.float32)
    full = (begin + m - n + 1) // BLOCK_K * BLOCK_K  # keys that every row sees, in whole tiles
    for first in range(0, full, BLOCK_K):
        theirs = (first + tl.arange(0, BLOCK_K))[:, None] * D + cols
        k_j, v_j = tl.load(k + theirs), tl.load(v + theirs)
        t = tl.dot(q_i, tl.trans(k_j)) * factor
        new = tl.maximum(top, tl.max(t, 1))
        a, p = tl.exp2(top - new), tl.exp2(t - new[:, None])
        top, l, acc = new, a * l + tl.sum(p, 1), a[:, None] * acc + tl.dot(p.to(v_j.dtype), v_j)
    for first in range(full, tl.minimum(begin + BLOCK_Q + m - n, m), BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)
        theirs, there = keys[:, None] * D + cols, keys[:, None] < m
        k_j, v_j = tl.load(k + theirs, mask=there, other=0.0), tl.load(v + theirs, mask=there, other=0.0)
        t = tl.where(keys <= rows[:, None] + m - n, tl.dot(q_i, tl.trans(k_j)) * factor, -float("inf"))
        new = tl.maximum(top, tl.max(t, 1))
        a, p = tl.exp2(top - new), tl.exp2(t - new[:, None])
        top, l, acc = new, a * l + tl.sum(p, 1), a[:, None] * acc + tl.dot(p.to(v_j.dtype), v_j)
    tl.store(out + own, acc / l[:, None], mask=inside)  # eq. 12.4


def run(answer: Function) -> Function:
    """The answer as a function of a case's arguments, in Triton's interpreter."""
    from attnlab_course.instruments.interpreted import interpreted

    return interpreted(answer, grid=lambda q, *rest: (-(-len(q) // rest[-2]),), out=3)


def arguments(n: int, m: int, block_q: int, block_k: int, d: int = 4) -> tuple:
    """The kernel's arguments, with random inputs."""
    rng = np.random.default_rng(n + m)
    q, k, v = (rng.normal(size=(length, d)).astype(np.float32) for length in (n, m, m))
    return q, k, v, np.full(q.shape, np.nan, np.float32), n, m, d**-0.5, d, block_q, block_k


def cases() -> list[Case]:
    """Square and with a cache, square tiles and others, lengths that blocks do not divide."""
    calls = {
        "ONE: two queries, two keys, one tile": (2, 2, 2, 2),
        "N = M = 6, blocks of 2": (6, 6, 2, 2),
        "N = M = 8, blocks of 2 by 4": (8, 8, 2, 4),
        "N = M = 8, blocks of 4 by 2": (8, 8, 4, 2),
        "RECT: 4 new queries, 12 keys, blocks of 2": (4, 12, 2, 2),
        "RECT: 4 new queries, 5 keys, blocks of 2": (4, 5, 2, 2),
        "RECT: 1 new query, 6 keys, blocks of 2 by 4": (1, 6, 2, 4),
        "RAGGED: N = M = 7, blocks of 4": (7, 7, 4, 4),
        "RAGGED: N = 5, M = 9, blocks of 4 by 2": (5, 9, 4, 2),
    }
    q, k, *rest = arguments(8, 8, 2, 4)  # equal scores in each row, as float32 holds no others near 100000
    far = far_queries(lambda q, k: (q, k, *rest), 0 * q, k, "; N = M = 8, blocks of 2 by 4")
    future = "FUTURE: the last key has scores near 100000; N = M = 8, blocks of 2 by 4"
    half = Case("HALF: float16, N = M = 8, blocks of 4",
                tuple(x.astype(np.float16) if isinstance(x, np.ndarray) else x for x in arguments(8, 8, 4, 4)))
    late = Case(future, (*large_key(q, k, -1), *rest))
    steps, long = np.float32([[1, 0, 0, 0]]) * np.arange(16, dtype=np.float32)[:, None], arguments(16, 16, 2, 4)[2:]
    slopes = [Case(f"{label}; N = M = 16, blocks of 2 by 4", (2000 * steps[1:2].repeat(16, 0), sign * steps, *long))
              for label, sign in {"UP: scores 0, 1000, 2000, …": 1, "DOWN: scores 0, −1000, −2000, …": -1}.items()]
    return [*[Case(label, arguments(*sizes)) for label, sizes in calls.items()], *far, *slopes, late, half]


SIZES = 15, 16, 4, 2  # of the grid whose tiles are counted


def counted(what: str) -> Measure:
    """Loads, loads under a mask, products or choices of a grid, over what its visible tiles need."""
    n, m, block_q, block_k = SIZES
    band = Band(n, m, None, 0)
    tiles = [(rows, cols) for rows in blocks(n, block_q) for cols in band.key_blocks(rows, block_k)]
    partial = sum(not band.full(*tile) for tile in tiles)
    need = {
        "loads": 4 * (n + 2 * sum(cols.stop - cols.start for _, cols in tiles)),  # D = 4
        "products": 2 * len(tiles),
        "masked": -(-n // block_q) + 2 * partial,
        "choices": partial,
    }[what]

    def measure(answer: Function, library: str) -> float:
        kernel = run(answer)
        kernel(*arguments(*SIZES))
        return kernel.counts[what] / need

    return measure


def outside(answer: Function, library: str) -> float:
    """Numbers that the kernel reads beyond its arrays, where the last blocks are short."""
    kernel = run(answer)
    kernel(*arguments(5, 9, 4, 2))
    return kernel.counts["outside"]


FULL, END = "(begin + m - n + 1) // BLOCK_K * BLOCK_K", "tl.minimum(begin + BLOCK_Q + m - n, m)"
SEEN = "keys <= rows[:, None] + m - n"

EXERCISE = Exercise(
    lesson="12", stars=3, reference=causal_kernel, where="section 3", cases=cases, run=run, needs="triton",
    hints=(
        "The first row of the block, begin = pid · BLOCK_Q, sees the fewest keys: begin + M − N + 1 of them. As many "
        "whole tiles as fit into that are full.",
        "Full tiles: range(0, full, BLOCK_K), with full a multiple of BLOCK_K, and neither a mask for the loads nor a "
        "tl.where. The last row of the block sees keys up to begin + BLOCK_Q − 1 + M − N: that's where the second loop "
        "ends.",
        "In the second loop, keys can be past the end: min(begin + BLOCK_Q + M − N, M), loads masked by keys < M, "
        "scores through tl.where(keys <= rows[:, None] + M − N, …, −∞). top, l and acc carry over from the first loop.",
    ),
    without={"1.4426950408889634": phrases.missing_log2e("eq. 12.3")},
    mistakes=(
        Mistake(phrases.top_left("eq. 1.10", rule="j ≤ i + (M − N)"), but(" + m - n", "")),
        Mistake("You treat the tiles on the diagonal as full: their scores need the mask of (1.10), query by query "
                "(section 1 of lesson 08).",
                but(SEEN, "keys < m"), but(SEEN, "keys >= 0")),
        Mistake("Your loop without masks goes too far: its tiles have to be visible to the *first* row of the block, "
                "which sees the fewest keys, begin + M − N + 1 (section 3).",
                but(FULL, "(begin + BLOCK_Q + m - n) // BLOCK_K * BLOCK_K"),
                but(FULL, "tl.cdiv(begin + m - n + 1, BLOCK_K) * BLOCK_K")),
        Mistake("Your second loop ends too early: the *last* row of the block sees keys up to begin + BLOCK_Q − 1 + M "
                "− N, that one included (section 3).",
                but(END, "tl.minimum(begin + 1 + m - n, m)"), but(END, "tl.minimum(begin + BLOCK_Q - 1 + m - n, m)")),
        Mistake("Your second loop starts over, so the tiles of the first loop are counted twice. Start where the first "
                "one ended (section 3).",
                but(f"range(full, {END}", f"range(0, {END}")),
    ),
    costs=(
        Cost(counted("products"), 1.0, "the grid computes {found:.2f} times the products of its visible tiles."),
        Cost(counted("loads"), 1.0, "the grid loads {found:.2f} times the numbers that its visible tiles hold."),
        Cost(outside, 0, "it reads {found:.0f} numbers outside of its arrays: a load needs a mask."),
        Cost(counted("masked"), 1.0, "it loads {found:.2f} times as many tiles under a mask as there are blocks of "
             "queries and partial tiles of keys and of values: full tiles need none."),
        Cost(counted("choices"), 1.0, "it uses tl.where {found:.2f} times as often as it has partial tiles."),
    ),
)
