"""Lesson 12, ★★★: the fold as a kernel in Triton, a program for each block of queries of each head."""

import warnings
from typing import TYPE_CHECKING, Any

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import far_queries
from attnlab_course.checker.promises import Measure

import numpy as np

if TYPE_CHECKING:
    import triton.language as tl


def fold_kernel(
    q: Any, k: Any, v: Any, out: Any, n: int, m: int, scale: float,
    D: "tl.constexpr", BLOCK_Q: "tl.constexpr", BLOCK_K: "tl.constexpr",
) -> None:
    """Program h · ⌈n / BLOCK_Q⌉ + i of attention: q and out (H, n, D), k and v (H, m, D)."""
    blocks = tl.cdiv(n, BLOCK_Q)
    head, i = tl.program_id(0) // blocks, tl.program_id(0) % blocks  # eq. 12.1
    rows, cols = i * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, D)
    own, inside = head * n * D + rows[:, None] * D + cols, rows[:, None] < n  # eq. 12.2
    q_i, factor = tl.load(q + own, mask=inside, other=0.0), scale * 1.4426950408889634  # eq. 12.3
    top = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l, acc = tl.zeros([BLOCK_Q], tl.float32), tl.zeros([BLOCK_Q, D], tl.float32)
    for first in range(0, m, BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)
        theirs, there = head * m * D + keys[:, None] * D + cols, keys[:, None] < m
        k_j, v_j = tl.load(k + theirs, mask=there, other=0.0), tl.load(v + theirs, mask=there, other=0.0)
        t = tl.where(keys < m, tl.dot(q_i, tl.trans(k_j)) * factor, -float("inf"))
        new = tl.maximum(top, tl.max(t, 1))
        a, p = tl.exp2(top - new), tl.exp2(t - new[:, None])
        l = a * l + tl.sum(p, 1)
        acc = a[:, None] * acc + tl.dot(p.to(v_j.dtype), v_j)
        top = new
    tl.store(out + own, acc / l[:, None], mask=inside)  # eq. 12.4


def run(answer: Function) -> Function:
    """The answer as a function of a case's arguments, in Triton's interpreter."""
    from attnlab_course.instruments.interpreted import interpreted

    return interpreted(answer, grid=programs, out=3)


def programs(q: np.ndarray, *rest: Any) -> tuple[int]:
    """The grid of a call."""
    heads, n, _ = q.shape
    return (heads * -(-n // rest[-2]),)


def arguments(heads: int, n: int, m: int, block_q: int, block_k: int, d: int = 4, size: float = 1.0) -> tuple:
    """The kernel's arguments, with random inputs."""
    rng = np.random.default_rng(n + m)
    q, k, v = (size * rng.normal(size=(heads, length, d)).astype(np.float32) for length in (n, m, m))
    return q, k, v, np.full(q.shape, np.nan, np.float32), n, m, d**-0.5, d, block_q, block_k


def cases() -> list[Case]:
    """One block and several, of queries and of keys; heads; lengths that blocks do not divide; large scores."""
    calls = {
        "ONE: one head, one block of 2 queries and 2 keys": (1, 2, 2, 2, 2),
        "two blocks of keys": (1, 2, 4, 2, 2),
        "four blocks of keys": (1, 2, 8, 2, 2),
        "two blocks of queries": (1, 4, 4, 2, 4),
        "three heads; N = 4, M = 8": (3, 4, 8, 2, 4),
        "RAGGED: 5 queries in blocks of 4, two heads": (2, 5, 8, 4, 4),
        "RAGGED: 7 keys in blocks of 4, two heads": (2, 4, 7, 4, 4),
        "HIGH: scores of a hundred and more": (1, 4, 8, 4, 2, 4, 10.0),
    }
    q, k, *rest = arguments(1, 4, 7, 4, 2)  # equal scores in each row, as float32 holds no others near 100000
    other = list(arguments(2, 4, 7, 4, 2))
    other[6] = 1.0
    far = far_queries(lambda q, k: (q[None], k[None], *rest), 0 * q[0], k[0], "; 4 queries, 7 keys, blocks of 4 by 2")
    half = Case("HALF: two heads in float16, 4 queries, 7 keys, blocks of 4",
                tuple(x.astype(np.float16) if isinstance(x, np.ndarray) else x for x in arguments(2, 4, 7, 4, 4)))
    scaled = Case("RAGGED: two heads, 4 queries, 7 keys, scale 1 in place of 1/√D", tuple(other))
    return [*[Case(label, arguments(*sizes)) for label, sizes in calls.items()], scaled, half, *far]


def counted(what: str) -> Measure:
    """How often a grid of 2 heads, 8 queries, 16 keys in blocks of 4 does something, over what it needs."""
    need = {"loads": 2 * 4 * (8 + 2 * 2 * 16), "divisions": 4}[what]

    def measure(answer: Function, library: str) -> float:
        kernel = run(answer)
        kernel(*arguments(2, 8, 16, 4, 4))
        return kernel.counts[what] / need

    return measure


def stored(answer: Function, library: str) -> float:
    """Numbers that a grid stores, over those of the output, where the last block of a head is short."""
    kernel = run(answer)
    size = kernel(*arguments(2, 5, 7, 4, 4)).size
    return kernel.counts["stores"] / size


def elsewhere(answer: Function, library: str) -> float:
    """Numbers that programs 0, 1 and 2 of four leave out: they have both blocks of head 0 and the first of head 1."""
    from attnlab_course.instruments.interpreted import interpreted

    out = interpreted(answer, grid=lambda *_: (3,), out=3)(*arguments(2, 4, 8, 2, 4))
    return np.isnan(out[0]).sum() + np.isnan(out[1, :2]).sum()


def outside(answer: Function, library: str) -> float:
    """Numbers that the kernel reads beyond its arrays, where the last blocks are short."""
    kernel = run(answer)
    kernel(*arguments(2, 5, 7, 4, 4))
    return kernel.counts["outside"]


def strange(answer: Function, library: str) -> float:
    """Numbers that the programs of two heads read in other heads than their own; only head 0 is there."""
    from attnlab_course.instruments.interpreted import interpreted

    q, k, v, out, *rest = arguments(1, 5, 7, 4, 4)
    kernel = interpreted(answer, grid=lambda *_: (4,), out=3)
    with warnings.catch_warnings(action="ignore"):  # of NaN, which is where head 1 would be
        kernel(q, k, v, np.concatenate([out, out]), *rest)
    return 2 * kernel.counts["outside"] - kernel.counts["loads"]  # 0 if all that head 1 reads is outside, and no more


NUMBER = "tl.program_id(0) // blocks, tl.program_id(0) % blocks"
RESCALED = "a[:, None] * acc + tl.dot(p.to(v_j.dtype), v_j)"

EXERCISE = Exercise(
    lesson="12", stars=3, reference=fold_kernel, where="eq. 12.4", cases=cases, run=run, needs="triton",
    hints=(
        "Start with the kernel of section 3. What's new is the head: pid // blocks and pid % blocks, where blocks = "
        "tl.cdiv(n, BLOCK_Q); the tile of q begins at q + head · n · D, those of k and v at head · m · D.",
        "Two masks: rows < n where q is loaded and out is stored, keys < m where k and v are loaded. Scores of keys "
        "that don't exist are −∞, through tl.where, because a score of 0 has weight 1.",
        "Multiply the scores by scale · log₂ e: they're float32, while q may be half precision; and tl.dot wants both "
        "factors in one dtype, p.to(v_j.dtype). In the loop: tl.exp2, and l and acc times a = 2^(top − new). Once "
        "after the loop: acc / l.",
    ),
    without={
        "tl.where(keys < m, tl.dot(q_i, tl.trans(k_j)) * factor, -float('inf'))":
            phrases.hidden_zero("section 1", what="Keys that don't exist"),
        "1.4426950408889634": phrases.missing_log2e("eq. 12.3"),
        "scale": phrases.unscaled("section 1"),
    },
    mistakes=(
        Mistake("You ignore the head, or take it from the wrong digit of the number: head = pid // blocks and i = pid "
                "% blocks (eq. 12.1).",
                but(NUMBER, "0, tl.program_id(0) % blocks"), but(NUMBER, "0, tl.program_id(0)"),
                but(NUMBER, "tl.program_id(0) % blocks, tl.program_id(0) // blocks")),
        Mistake(phrases.not_rounded_up("eq. 12.1", what="blocks of queries"),
                but("tl.cdiv(n, BLOCK_Q)", "tl.maximum(n // BLOCK_Q, 1)")),
        Mistake(phrases.heads_apart("eq. 12.2"), but("head * m * D", "head * n * D"), but("head * m * D", "0")),
        Mistake(phrases.rescales_partly("eq. 12.4", sums="acc or l", factor="2^(top − new)"),
                but(RESCALED, "acc + tl.dot(p.to(v_j.dtype), v_j)"), but("l = a * l", "l = l"),
                but(RESCALED, "acc + tl.dot(p.to(v_j.dtype), v_j)", "l = a * l", "l = l")),
        Mistake(phrases.one_maximum("eq. 12.4"), but("tl.max(t, 1)", "tl.max(t)")),
    ),
    costs=(
        Cost(counted("loads"), 1.0, "the grid loads {found:.2f} times the numbers that its tiles hold."),
        Cost(outside, 0, "it reads {found:.0f} numbers outside of its arrays: a load needs a mask."),
        Cost(strange, 0, "the programs of two heads read {found:.0f} numbers of other heads than their own: the masks "
             "of the loads are rows < n and keys < m."),
        Cost(stored, 1.0, "it stores {found:.2f} times the numbers of its output. Rows that a block lacks are the "
             "next head's: the mask of the store is rows < n."),
        Cost(elsewhere, 0, "of two heads with two blocks each, programs 0, 1 and 2 leave out {found:.0f} numbers that "
             "are theirs by eq. 12.1."),
        Cost(counted("divisions"), 1.0, "it divides {found:.0f} times a program."),
    ),
)
