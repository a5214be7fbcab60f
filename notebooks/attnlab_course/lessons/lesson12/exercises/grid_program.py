"""Lesson 12, ★★: a program of the grid with three faults that blocks which fit do not show, fixed."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import deepest, large_key, levels, lifted
from attnlab_course.checker.promises import inverse
from attnlab_course.instruments.flat import FlatMemory

import numpy as np

Array = np.ndarray


def grid_program(
    memory: FlatMemory, pid: int, q: int, k: int, v: int, o: int, shape: tuple[int, int, int, int], block: int
) -> Array:
    """Program pid of attention; (H, N, D) begins at q, o and (H, M, D) at k, v; shape (H, N, M, D) → memory.fetch."""
    heads, n, m, d = shape
    head, i = divmod(pid, -(-n // block))  # eq. 12.1: a short last block needs a program, too
    rows, cols = i * block + np.arange(block), np.arange(d)
    own, inside = head * n * d + rows[:, None] * d + cols, (rows < n)[:, None]  # eq. 12.2
    q_i = memory.load(q + own, inside) / d**0.5
    top, l, acc = np.full(block, -np.inf), np.zeros(block), np.zeros((block, d))
    for first in range(0, m, block):
        keys = first + np.arange(block)
        theirs, there = head * m * d + keys[:, None] * d + cols, (keys < m)[:, None]  # a head of keys has m rows
        s = np.where(there.T, q_i @ memory.load(k + theirs, there).T, -np.inf)  # 0 is a score
        new = np.maximum(top, s.max(1))
        a, p = np.exp(top - new), np.exp(s - new[:, None])
        top, l, acc = new, a * l + p.sum(1), a[:, None] * acc + p @ memory.load(v + theirs, there)
    memory.store(o + own, acc / l[:, None], inside)
    return memory.fetch(o, (heads, n, d))


def call(
    pid: int, heads: int, n: int, m: int, block: int, level: Array | None = None, front: int = 0, first: bool = False,
    blank: bool = False, deep: bool = False,
) -> tuple:
    """Arguments of a call, D = 2; ``level`` of the scores of each query; ``front`` numbers of others begin the memory.

    If ``first``, the scores of key 0 alone lie near 100000; if ``blank``, query 0 is 0, and so are its scores; if
    ``deep``, all are −10¹² and less.
    """
    rng = np.random.default_rng(n + 10 * m + 100 * heads)
    q, k, v = (rng.normal(size=(heads, length, 2)) for length in (n, m, m))
    if level is not None:
        q, k = (x[None] for x in lifted(q[0], k[0], level))
    if first:
        q, k = (x[None] for x in large_key(q[0], k[0], 0))
    if deep:
        q, k = (x[None] for x in deepest(n, m, 2))
    q[0, 0] *= 0 if blank else 1
    memory = FlatMemory(np.full(front, np.nan), q, k, v, np.full(q.size, np.nan))
    return memory, pid, *map(int, np.cumsum([front, q.size, k.size, v.size])), (heads, n, m, 2), block


def cases() -> list[Case]:
    """Blocks that fit first, which the broken program gets right."""
    return [
        Case("one head of four queries and four keys, blocks of two: program 0", call(0, 1, 4, 4, 2)),
        Case("two heads of four queries and four keys, blocks of two: program 3", call(3, 2, 4, 4, 2)),
        Case("RECT: two heads, one query, two keys, blocks of one: program 1 is head 1", call(1, 2, 1, 2, 1)),
        Case("RAGGED: one head, one query, one key, blocks of two", call(0, 1, 1, 1, 2)),
        Case("RAGGED: two heads of three queries and four keys, blocks of two: program 2 is head 1",
             call(2, 2, 3, 4, 2)),
        Case("RAGGED: two heads of four queries and three keys, blocks of two: program 1 is head 0",
             call(1, 2, 4, 3, 2)),
        *[Case(f"{label}; one head of four queries and six keys, blocks of four", call(0, 1, 4, 6, 4, level))
          for label, level in levels(4).items()],
        Case("HIGH, DOWN: the scores of key 0 alone lie near 100000; four queries and six keys, blocks of four",
             call(0, 1, 4, 6, 4, first=True)),
        Case("LOW: scores −10¹² to −6·10¹²; four queries and six keys, blocks of four", call(0, 1, 4, 6, 4, deep=True)),
        Case("q begins at offset 5; two heads of three queries and four keys, blocks of two: program 2",
             call(2, 2, 3, 4, 2, front=5)),
        Case("a query of zeros, whose scores are all 0; four queries and three keys, blocks of two: program 0",
             call(0, 1, 4, 3, 2, blank=True)),
        Case("three heads, 10 queries, 7 keys, blocks of four: program 5", call(5, 3, 10, 7, 4)),
    ]


def loaded(answer: Function, library: str) -> float:
    """Numbers loaded by program 5 of two heads, 5 queries and 7 keys in blocks of two, over those of its tiles."""
    memory, *rest = call(5, 2, 5, 7, 2)
    answer(memory, *rest)
    return memory.loads / (1 * 2 + 2 * 7 * 2)


NUMBER = "divmod(pid, -(-n // block))", "divmod(pid, max(n // block, 1))"
STRIDE = "theirs, there = head * m", "theirs, there = head * n"
VOTES = "np.where(there.T, q_i @ memory.load(k + theirs, there).T, -np.inf)", "q_i @ memory.load(k + theirs, there).T"

TRY = "two heads with N ≠ M, keys that don't fill the last block, and queries that don't"

EXERCISE = Exercise(
    lesson="12", stars=2, reference=grid_program, where="section 1", cases=cases,
    hints=(
        "Launch the whole grid of `broken` on a Memory of section 1 and compare with attnlab.safe_attention. N = M = "
        "32 in blocks of 16 is right. Change one length at a time.",
        "Three settings show the three faults: keys that don't fill the last block; two heads with N ≠ M; queries that "
        "don't fill the last block, with two heads.",
        "The three lines: pid is split by ⌈N / block⌉, eq. 12.1; heads of keys are M rows apart, eq. 12.2; a key that "
        "doesn't exist is loaded as 0, and its score has to be −∞.",
    ),
    without={
        "np.where(there.T, q_i @ memory.load(k + theirs, there).T, -np.inf)":
            phrases.hidden_zero("section 1", what="Keys that don't exist"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 12.1 and 12.2", inputs=TRY), but(*NUMBER, *STRIDE, *VOTES)),
        Mistake(phrases.one_fixed("eqs. 12.1 and 12.2", inputs=TRY),
                but(*NUMBER, *STRIDE), but(*NUMBER, *VOTES), but(*STRIDE, *VOTES)),
        Mistake("Your number of blocks of queries isn't rounded up. What's left over needs one of its own, "
                "however little it is (eq. 12.1).",
                but(*NUMBER)),
        Mistake("Your heads of keys and values don't begin M rows apart. With N = M, that doesn't show (eq. 12.2).",
                but(*STRIDE)),
    ),
    costs=(
        Cost(loaded, 1, "It loads {found:.2f} times the numbers of its tiles."),
        Cost(inverse(loaded), 1, "Its tiles have {found:.2f} times the numbers that it loads: a program reads what it "
             "loads, and fetch is for the host (section 1)."),
    ),
)
