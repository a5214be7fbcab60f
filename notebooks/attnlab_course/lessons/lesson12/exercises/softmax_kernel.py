"""Lesson 12, ★★: a kernel in Triton, softmax of rows, a program for each row."""

import warnings
from typing import TYPE_CHECKING, Any

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import far_scores

import numpy as np

if TYPE_CHECKING:
    import triton.language as tl


def softmax_kernel(x: Any, out: Any, n: int, BLOCK: "tl.constexpr") -> None:
    """Program r: row r of out = softmax of row r of x, rows of n numbers; BLOCK ≥ n is a power of two."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    there = cols < n
    s = tl.load(x + row * n + cols, mask=there, other=-float("inf"))
    e = tl.exp(s - tl.max(s, axis=0))
    tl.store(out + row * n + cols, e / tl.sum(e, axis=0), mask=there)


def run(answer: Function) -> Function:
    """The answer as a function of a case's arguments, in Triton's interpreter."""
    from attnlab_course.instruments.interpreted import interpreted

    return interpreted(answer, grid=lambda x, *_: (len(x),), out=1)


def cases() -> list[Case]:
    """One row and many, lengths that are no power of two, scores of any size."""
    rng = np.random.default_rng(12)
    shifted = rng.normal(size=(3, 6)) + np.array([[100], [-110], [0]])
    rows = {
        "ONE: a single number": [[3.0]],
        "one row of 4 numbers, in a block of 4": [[0.0, 1.0, 2.0, -1.0]],
        "three rows of 4 numbers": rng.normal(size=(3, 4)).round(1),
        "RAGGED: one row of 3 numbers, in a block of 4": [[-1.0, -2.0, -3.0]],
        "RAGGED: four rows of 5 numbers, in blocks of 8": rng.normal(size=(4, 5)).round(1),
        "HIGH, LOW: rows of 6 numbers near 100, −110 and 0": shifted,
        "HIGH, LOW: scores 9 and more apart, in blocks of 8": [[0, 200, 190, 189, 9], [0, -9, -10, -12, -60]],
        "CONST: equal scores": np.full((2, 7), 5.0),
    }
    found = [Case(label, arguments(np.asarray(x, np.float32))) for label, x in rows.items()]
    return [*found, *far_scores(lambda x: arguments(x.astype(np.float32)), np.zeros((3, 6)), ", all equal")]


def arguments(x: np.ndarray) -> tuple:
    """The kernel's arguments for an array of rows."""
    n = x.shape[1]
    return x, np.full(x.shape, np.nan, np.float32), n, 1 << (n - 1).bit_length()


def outside(answer: Function, library: str) -> float:
    """Numbers that the kernel reads beyond its arrays, for two rows of 5 in blocks of 8."""
    kernel = run(answer)
    kernel(*arguments(np.ones((2, 5), np.float32)))
    return kernel.counts["outside"]


def stored(answer: Function, library: str) -> float:
    """Numbers that the kernel stores, over those of its output, for three rows of 5 in blocks of 8."""
    kernel = run(answer)
    kernel(*arguments(np.ones((3, 5), np.float32)))
    return kernel.counts["stores"] / 15


def strange(answer: Function, library: str) -> float:
    """Numbers that the programs of two rows of 5 read in other rows than their own; only row 0 is there."""
    from attnlab_course.instruments.interpreted import interpreted

    kernel = interpreted(answer, grid=lambda *_: (2,), out=1)
    with warnings.catch_warnings(action="ignore"):  # of NaN, which is where row 1 would be
        kernel(np.ones((1, 5), np.float32), np.zeros((2, 5), np.float32), 5, 8)
    return 2 * kernel.counts["outside"] - kernel.counts["loads"]  # 0 if all that row 1 reads is outside, and no more


LOAD, ROW = 'tl.load(x + row * n + cols, mask=there, other=-float("inf"))', "row * n"

EXERCISE = Exercise(
    lesson="12", stars=2, reference=softmax_kernel, where="eq. 2.3", cases=cases, run=run, needs="triton",
    hints=(
        "The program's number, tl.program_id(0), is the row. The row's numbers: x + row · n + tl.arange(0, BLOCK).",
        "Only the first n of the BLOCK numbers belong to the row: a mask for the load and the same for the store.",
        "What's masked can't count in the sum, but e⁰ is 1. Load it as −∞, other=-float('inf'). Then subtract tl.max, "
        "take tl.exp, divide by tl.sum, with axis=0.",
    ),
    mistakes=(
        Mistake("Your load has no mask: past the end is the next array, or memory that isn't yours (section 1).",
                but(LOAD, "tl.load(x + row * n + cols)")),
        Mistake(phrases.hidden_zero("section 1", what="The numbers that the mask leaves out"),
                but('-float("inf")', "0.0"), but(', other=-float("inf")', "")),
        Mistake("All your programs work on row 0: the row is tl.program_id(0), and each begins n numbers further on "
                "(eq. 12.2).",
                but(ROW, "0")),
        Mistake("Rows are n numbers apart: not one, and not BLOCK, which is only the next power of two (eq. 12.2).",
                but(ROW, "row * BLOCK"), but(ROW, "row")),
        Mistake("You read beyond the end of the row and hide the scores afterward. That memory may not be yours: mask "
                "the load itself (section 1).",
                but(LOAD, 'tl.where(there, tl.load(x + row * n + cols), -float("inf"))')),
    ),
    costs=(
        Cost(outside, 0, "it reads {found:.0f} numbers behind its array: a load needs a mask."),
        Cost(strange, 0, "the programs of two rows read {found:.0f} numbers of other rows than their own. What the "
             "mask hides is not read: the mask of the load is cols < n."),
        Cost(stored, 1.0, "it stores {found:.2f} times the numbers of its output. A program writes its own row and "
             "nothing else: the mask of the store is cols < n."),
    ),
)
