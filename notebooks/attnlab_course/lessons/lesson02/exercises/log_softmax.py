"""Lesson 02, ★★: the logarithm of the weights, without the weights."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Edit, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE, far_scores

import numpy as np


def log_softmax(x: np.ndarray) -> np.ndarray:
    """log of the softmax over the last axis of x (..., n), in its dtype; finite where x is; a row of −∞ gives −∞."""
    m = x.max(-1, keepdims=True)
    m = np.where(m == -np.inf, x.dtype.type(0), m)  # eq. 2.7
    l = np.exp(x - m).sum(-1, keepdims=True, dtype=np.promote_types(x.dtype, np.float32))
    l = np.where(l == 0, x.dtype.type(1), l)
    return (x - m - np.log(l)).astype(x.dtype)


def cases() -> list[Case]:
    """Scores where the weight vanishes, where the sum does, where nothing is visible; few shapes, for JAX."""
    from ml_dtypes import bfloat16  # comes with JAX: the package alone needs neither

    rng = np.random.default_rng(2)
    single = np.float32
    return [
        Case("(0, -200) in float32: the weight is 0 there, its logarithm -200", (np.array([0, -200], single),)),
        Case("LOW: two scores of -200 in float32", (np.array([-200, -200], single),)),
        Case("HIGH: (99, 100) in float32", (np.array([99, 100], single),)),
        Case("the score 10 and 9999 scores of 0, which add a third to the sum", (np.eye(1, 10_000)[0] * 10,)),
        *far_scores(lambda x: (x,), np.array([[0.0, 1.0], [2.0, 0.0]]), ", in float64"),
        Case("(0, -1000) and (0, -100000) in float64: weights of 0, whose logarithms are finite",
             (np.array([[0.0, -1000], [0, -100000]]),)),
        Case("(0, 0, -200) and (0, 0, -102.2) in float32: a sum of 2, beside weights of 0 or nearly so",
             (np.array([[0, 0, -200], [0, 0, -102.2]], single),)),
        Case("LOW: one visible score, -1e300, in float64; its logarithm is 0; and (0, -1e300)",
             (np.array([[ALONE, -np.inf], [0, ALONE]]),)),
        Case("EMPTY: row 1 is -inf alone and must give -inf", (np.array([[1000, -np.inf], [-np.inf, -np.inf]]),)),
        Case("4096 scores of 0 in bfloat16: added in bfloat16 they are 256", (np.zeros(4096, bfloat16),)),
        Case("65,520 scores of 0 in float16: their sum is no float16", (np.zeros(65_520, np.float16),)),
        Case("random, three axes, float32", ((3 * rng.normal(size=(2, 3, 4))).astype(single),)),
    ]


UNGUARDED = ("np.where(m == -np.inf, x.dtype.type(0), m)", "m", "np.where(l == 0, x.dtype.type(1), l)", "l")
LOG = "x - m - np.log(l)"
HALF = (", dtype=np.promote_types(x.dtype, np.float32)", "")


def any_care(*edits: str) -> tuple[Edit, ...]:
    """An edit made with care for empty rows or without, and with care for half precision or without."""
    return tuple(but(*edits, *more) for more in ((), UNGUARDED, HALF, (*UNGUARDED, *HALF)))


EXERCISE = Exercise(
    lesson="02", stars=2, reference=log_softmax, cases=cases, where="eq. 2.5",
    hints=(
        "log(a / b) = log a - log b, and the logarithm of e^(x - m) is x - m: no weight is needed. With m and l along "
        "the last axis, log p = (x - m) - log l (eq. 2.5).",
        "For an empty row, use 0 instead of a maximum of -inf, and 1 instead of a sum of 0 (eq. 2.7): x - 0 - log 1.",
        "Give the sum at least float32 (a dtype= for sum), and the result the dtype of x (astype).",
    ),
    without={
        "np.log(l)": "You don't subtract log l. Without it, x - m is the logarithm of the exponential, not of the "
                     "weight: dividing by l subtracts log l (eq. 2.5).",
        "dtype=np.promote_types(x.dtype, np.float32)": phrases.half_precision("section 5, eq. 2.6"),
    },
    mistakes=(
        Mistake("You take the logarithm of the weight. A weight below about e^-103 is 0 in float32, and its logarithm "
                "is -inf, or that of a small number if you add one; x - m is known exactly. Don't exponentiate what "
                "you'll take the logarithm of (eq. 2.5).",
                *any_care(LOG, "np.log(np.exp(x - m) / l)"),
                *any_care(LOG, "np.log(np.exp((x - m).astype(np.float64)) / l).astype(x.dtype)"),
                *(edit for epsilon in ("1e-6", "1e-8", "1e-9", "1e-10", "1e-12")
                  for edit in any_care(LOG, f"np.log(np.exp(x - m) / l + x.dtype.type({epsilon}))"))),
        Mistake(phrases.unshifted("eq. 2.5"),
                but(LOG, "x - np.log(np.exp(x).sum(-1, keepdims=True))"),
                but(LOG, "np.log(np.exp(x) / np.exp(x).sum(-1, keepdims=True))")),
        Mistake("You subtract the maximum twice, or not at all: lse = m + log l contains it. Use either x - lse or x - "
                "m - log l (eq. 2.5).",
                *any_care(LOG, "x - m - (m + np.log(l))"), *any_care(LOG, "x - np.log(l)")),
        Mistake(phrases.empty_row("eq. 2.7"), but(*UNGUARDED), but(*UNGUARDED, *HALF)),
        Mistake("Your empty row is 0. Its weights are 0, so their logarithms are -inf: shift by 0 where the maximum is "
                "-inf (eq. 2.7), and x - 0 - log 1 is -inf without a where.",
                but(*UNGUARDED, LOG, f"np.where(np.isnan({LOG}), 0, {LOG})")),
    ),
)
