"""Lesson 12, ★★: a program for packed sequences with three faults that blocks which fit do not show, fixed."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import deepest, large_key, levels, lifted
from attnlab_course.checker.promises import inverse
from attnlab_course.instruments.flat import FlatMemory

import numpy as np

Array = np.ndarray


def grid_program(
    memory: FlatMemory, pid: int, q: int, k: int, v: int, o: int, lengths: tuple[int, ...], d: int, block: int
) -> Array:
    """Program pid of attention in packed sequences; (sum of lengths, D) begins at q, k, v, o → memory.fetch of o."""
    first, cols = 0, np.arange(d)
    for n in lengths:  # whose block of queries is it?
        programs = -(-n // block)  # eq. 12.1, for one sequence: a short last block needs a program, too
        if pid < programs:
            break
        first, pid = first + n, pid - programs
    rows, end = first + pid * block + np.arange(block), first + n
    own, inside = rows[:, None] * d + cols, (rows < end)[:, None]  # eq. 12.2; the next sequence isn't ours
    q_i = memory.load(q + own, inside) / d**0.5
    top, l, acc = np.full(block, -np.inf), np.zeros(block), np.zeros((block, d))
    for at in range(first, end, block):
        keys = at + np.arange(block)
        theirs, there = keys[:, None] * d + cols, (keys < end)[:, None]
        s = np.where(there.T, q_i @ memory.load(k + theirs, there).T, -np.inf)  # 0 is a score
        new = np.maximum(top, s.max(1))
        a, p = np.exp(top - new), np.exp(s - new[:, None])
        top, l, acc = new, a * l + p.sum(1), a[:, None] * acc + p @ memory.load(v + theirs, there)
    memory.store(o + own, acc / l[:, None], inside)
    return memory.fetch(o, (sum(lengths), d))


def call(
    pid: int, lengths: tuple[int, ...], block: int, level: Array | None = None, front: int = 0, first: bool = False,
    blank: bool = False, deep: bool = False,
) -> tuple:
    """Arguments of a call, D = 2; ``level`` of the scores of each query; ``front`` numbers of others begin the memory.

    If ``first``, the scores of key 0 alone lie near 100000; if ``blank``, query 0 is 0, and so are its scores; if
    ``deep``, all are −10¹² and less.
    """
    total = sum(lengths)
    rng = np.random.default_rng(total + 100 * len(lengths))
    q, k, v = rng.normal(size=(3, total, 2))
    if level is not None:
        q, k = lifted(q, k, level)
    if first:
        q, k = large_key(q, k, 0)
    if deep:
        q, k = deepest(total, total, 2)
    q[0] *= 0 if blank else 1
    memory = FlatMemory(np.full(front, np.nan), q, k, v, np.full(q.size, np.nan))
    return memory, pid, *(front + i * q.size for i in range(4)), lengths, 2, block


def cases() -> list[Case]:
    """Blocks that fit first, which the broken program gets right."""
    return [
        Case("one sequence of four, blocks of two: program 0", call(0, (4,), 2)),
        Case("sequences of four and two, blocks of two: program 2 is the second sequence", call(2, (4, 2), 2)),
        Case("sequences of one and one, blocks of one: program 1 is the second sequence", call(1, (1, 1), 1)),
        Case("RAGGED: one sequence of one, blocks of two", call(0, (1,), 2)),
        Case("RAGGED: sequences of three and two, blocks of two: program 1 is the first sequence", call(1, (3, 2), 2)),
        Case("RAGGED: sequences of three and two, blocks of two: program 2 is the second sequence",
             call(2, (3, 2), 2)),
        *[Case(f"{label}; one sequence of six, blocks of four", call(0, (6,), 4, level))
          for label, level in levels(6).items()],
        Case("HIGH, DOWN: the scores of key 0 alone lie near 100000; one sequence of six, blocks of four",
             call(0, (6,), 4, first=True)),
        Case("LOW: scores −10¹² to −6·10¹²; one sequence of six, blocks of four", call(0, (6,), 4, deep=True)),
        Case("q begins at offset 5; sequences of three and four, blocks of two: program 3",
             call(3, (3, 4), 2, front=5)),
        Case("a query of zeros, whose scores are all 0; one sequence of three, blocks of two: program 0",
             call(0, (3,), 2, blank=True)),
        Case("sequences of 2, 7 and 10, blocks of four: program 5 is the last block", call(5, (2, 7, 10), 4)),
    ]


def loaded(answer: Function, library: str) -> float:
    """Numbers loaded by the last program of sequences of 2 and 7 in blocks of two, over those of its tiles."""
    memory, *rest = call(4, (2, 7), 2)
    answer(memory, *rest)
    return memory.loads / (1 * 2 + 2 * 7 * 2)


NUMBER = "-(-n // block)", "max(n // block, 1)"
INSIDE = "(rows < end)[:, None]", "(rows < sum(lengths))[:, None]"
VOTES = "np.where(there.T, q_i @ memory.load(k + theirs, there).T, -np.inf)", "q_i @ memory.load(k + theirs, there).T"

TRY = "sequences that don't fill their last block, in the middle and at the end"

EXERCISE = Exercise(
    lesson="12", stars=2, reference=grid_program, where="section 1", cases=cases,
    hints=(
        "Run all programs of `broken`, each on a copy of the same memory, and compare the rows with "
        "attnlab.safe_attention of each sequence. Lengths of 32 and 16 in blocks of 16 are right. Change one of them.",
        "One sequence that doesn't fill its last block shows two of the faults, in rows and in values. Two such "
        "sequences show the third: which rows of the output does a program write?",
        "The three lines: a sequence has ⌈n / block⌉ programs, eq. 12.1; its rows end where the next sequence begins; "
        "a key that doesn't exist is loaded as 0, and its score has to be −∞.",
    ),
    without={
        "np.where(there.T, q_i @ memory.load(k + theirs, there).T, -np.inf)":
            phrases.hidden_zero("section 1", what="Keys that don't exist"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 12.1 and 12.2", inputs=TRY), but(*NUMBER, *INSIDE, *VOTES)),
        Mistake(phrases.one_fixed("eqs. 12.1 and 12.2", inputs=TRY),
                but(*NUMBER, *INSIDE), but(*NUMBER, *VOTES), but(*INSIDE, *VOTES)),
        Mistake("Your number of blocks of queries isn't rounded up. What's left over of a sequence needs one of its "
                "own, however little it is (eq. 12.1).",
                but(*NUMBER)),
        Mistake("A program of the last block of a sequence goes on into the next one, and writes rows that aren't its "
                "own. Two programs that write the same row race (section 2).",
                but(*INSIDE)),
    ),
    costs=(
        Cost(loaded, 1, "It loads {found:.2f} times the numbers of its tiles."),
        Cost(inverse(loaded), 1, "Its tiles have {found:.2f} times the numbers that it loads: a program reads what it "
             "loads, and fetch is for the host (section 1)."),
    ),
)
