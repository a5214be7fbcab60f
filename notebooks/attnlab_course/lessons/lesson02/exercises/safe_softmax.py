"""Lesson 02, ★: softmax with the shift, over rows of any size."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Edit, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE, far_scores

import numpy as np


def safe_softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis of x (..., n), any finite scores; a row of −∞ gives 0; the dtype of x."""
    m = x.max(-1, keepdims=True)
    m = np.where(m == -np.inf, x.dtype.type(0), m)  # eq. 2.7
    e = np.exp(x - m)
    l = e.sum(-1, keepdims=True, dtype=np.promote_types(x.dtype, np.float32))
    l = np.where(l == 0, 1, l)
    return (e / l).astype(x.dtype)


def cases() -> list[Case]:
    """Scores that each wrong shift, each wrong guard and each wrong sum is caught by; few shapes, for JAX."""
    rng = np.random.default_rng(2)
    single = np.float32
    return [
        Case("HIGH: (90, 100) in float32", (np.array([90, 100], single),)),
        Case("LOW: two scores of -200 in float32", (np.array([-200, -200], single),)),
        Case("SPIKE: (0, 100000) in float32", (np.array([0, 100000], single),)),
        Case("HIGH: two scores of 100,000,000 in float32, each weight is 1/2", (np.array([1e8, 1e8], single),)),
        Case("NAN: a NaN in the scores is an error upstream and must stay visible", (np.array([0, np.nan], single),)),
        Case("a row of NaN alone is not empty: they must stay visible", (np.array([np.nan, np.nan], single),)),
        Case("EMPTY: row 1 is -inf alone and must give 0", (np.array([[1000, -np.inf], [-np.inf, -np.inf]]),)),
        *far_scores(lambda x: (x,), np.array([[0.0, 1.0], [2.0, 0.0]]), ", in float64"),
        Case("LOW: one visible score, -1e300, in float64; its weight is 1", (np.array([ALONE, -np.inf]),)),
        Case("random, three axes, float16", (rng.normal(size=(2, 3, 4)).astype(np.float16),)),
        Case("CONST: 65,520 equal scores in float16, whose sum is no float16", (np.full(65_520, 2, np.float16),)),
    ]


UNGUARDED = ("np.where(m == -np.inf, x.dtype.type(0), m)", "m", "np.where(l == 0, 1, l)", "l")
HALF = (", dtype=np.promote_types(x.dtype, np.float32)", "")


def any_care(*edits: str) -> tuple[Edit, ...]:
    """An edit made with care for empty rows or without, and with care for half precision or without."""
    return tuple(but(*edits, *more) for more in ((), UNGUARDED, HALF, (*UNGUARDED, *HALF)))


EXERCISE = Exercise(
    lesson="02", stars=1, reference=safe_softmax, cases=cases, dtype=True, where="eq. 2.3",
    hints=(
        "Three steps, all along the last axis: the maximum, the exponentials of x minus it, the division by their sum. "
        "keepdims=True lets the maximum and the sum of each row broadcast against x.",
        "In a row of -inf, the maximum is -inf: subtract 0 there, and divide by 1 where the sum is 0 (eq. 2.7).",
        "Give the sum at least float32 (a dtype= for sum), and the result the dtype of x (astype).",
    ),
    without={
        "l": phrases.undivided("eq. 2.3"),
        "dtype=np.promote_types(x.dtype, np.float32)": phrases.half_precision("section 5, eq. 2.6"),
    },
    mistakes=(
        Mistake(phrases.one_maximum("eq. 2.2"), *any_care("x.max(-1, keepdims=True)", "x.max()"), seen="ROWS"),
        Mistake("You subtract less than the maximum of the row, such as its mean, its minimum or its first score. Then "
                "some exponents stay positive, and e^u overflows; the maximum makes all of them at most 0 (eq. 2.4).",
                *any_care("x.max(-1, keepdims=True)", "x.mean(-1, keepdims=True)")),
        Mistake(phrases.unshifted("eq. 2.3"), *any_care("x - m", "x")),
        Mistake(phrases.empty_row("eq. 2.7"),
                but(*UNGUARDED), but("np.where(l == 0, 1, l)", "l"), but(*UNGUARDED, *HALF)),
        Mistake(phrases.nan_hidden("eq. 2.7"), *any_care("(e / l)", "np.nan_to_num(e / l)")),
    ),
)
