"""Lesson 10, ★: one number a query that stands for a row of weights and their gradients."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.promises import growth

import numpy as np


def row_deltas(out: np.ndarray, dout: np.ndarray) -> np.ndarray:
    """Δ (..., N) of attention's backward pass, from out and dout, both (..., N, Dv)."""
    return (out * dout).sum(-1)


def arrays(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Random out and dout."""
    rng = np.random.default_rng(shape[-1])
    return rng.normal(size=shape), rng.normal(size=shape)


def cases() -> list[Case]:
    """One query, a square, a rectangle, heads."""
    return [
        Case("ONE: one query, one output", (np.array([[3.0]]), np.array([[-2.0]]))),
        Case("ONES: every dout is 1, so Δ is the row sum of out", (arrays(2, 3)[0], np.ones((2, 3)))),
        Case("two queries, Dv = 3", arrays(2, 3)),
        Case("square: N = Dv = 4", arrays(4, 4)),
        Case("heads of one query each, as in decoding", arrays(3, 1, 2)),
        Case("a batch of two, three heads of 70 queries, Dv = 2", arrays(2, 3, 70, 2)),
        Case("three leading axes, (2, 1, 3): six times two queries, Dv = 130", arrays(2, 1, 3, 2, 130)),
    ]


EXERCISE = Exercise(
    lesson="10", stars=1, reference=row_deltas, where="eq. 10.2", cases=cases,
    hints=(
        "The sum over keys of p·dp: which array returned by the forward pass already contains this sum?",
        "Eq. 10.2: Δ of a query is the dot product of its own row of dout with its own row of out.",
        "Multiply the two arrays elementwise and sum over the last axis, which has Dv entries.",
    ),
    without={
        "-1": "Δ has one number for each query: sum over the last axis, and over no other (eq. 10.2).",
        **dict.fromkeys(("out", "dout"), "You sum one array alone. Δ weights each entry of dout by the same entry of "
                        "out (eq. 10.2)."),
    },
    mistakes=(
        Mistake(phrases.over_queries("eq. 10.2"), but("-1", "-2"), but("-1", "0")),
        Mistake("The values are right, but the summed axis is still there: Δ has shape (..., N). Leave keepdims out "
                "here (eq. 10.2).",
                but("-1", "-1, keepdims=True")),
        Mistake("You multiply every row of dout by every row of out and use only the diagonal: an N × N matrix, in the "
                "function that's there to avoid one. Multiply elementwise, then sum (eq. 10.2).",
                but("(out * dout).sum(-1)", "np.diagonal(dout @ out.swapaxes(-1, -2), axis1=-2, axis2=-1).copy()")),
    ),
    costs=(
        Cost(growth(lambda n: arrays(n, 16), 256, 512), 3,
             "Its memory grew {found:.1f}× when there were twice as many queries; 2 is what a row of numbers "
             "needs, 4 a matrix."),
    ),
)
