"""Lesson 02, ★★: a sum of exponentials with three silent mistakes, repaired."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_scores

import numpy as np


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """lse of each row of x (..., n), in the dtype of x, at least float32 → (...,); −∞ for a row of −∞, NaN stays."""
    m = x.max(-1, keepdims=True)
    m = np.where(m == -np.inf, x.dtype.type(0), m)
    l = np.exp(x - m).sum(-1, keepdims=True, dtype=np.promote_types(x.dtype, np.float32))
    with np.errstate(divide="ignore"):
        return (m + np.log(l))[..., 0]  # log 0 = −∞ is what an empty row should give


def cases() -> list[Case]:
    """Scores near 0, then one input for each of the three lines."""
    rng = np.random.default_rng(2)
    return [
        Case("three scores near 0", (np.array([[0.5, 1.0, -1.0]]),)),
        Case("LOW: two scores of -1000; the lse is -1000 + log 2", (np.array([[-1000.0, -1000.0]]),)),
        *far_scores(lambda x: (x,), np.array([[0.0, 1.0], [2.0, 0.0]])),
        Case("SPIKE: (0, 100000)", (np.array([[0.0, 100000]]),)),
        Case("EMPTY: row 1 is -inf alone and must give -inf", (np.array([[1000, -np.inf], [-np.inf, -np.inf]]),)),
        Case("two scores of -0.6875 in float16: lse is small, and m + log 2 in float16 is 4% off",
             (np.full((1, 2), -0.6875, np.float16),)),
        Case("65,520 scores of 0 in float16: their sum is no float16", (np.zeros((1, 65_520), np.float16),)),
        Case("NAN: a NaN in the scores is an error upstream and must stay visible", (np.array([[0, np.nan]]),)),
        Case("two scores of -0.6931 in float64: lse is 0.00005, and float32 is 0.1% off", (np.full((1, 2), -0.6931),)),
        Case("random, three axes", (rng.normal(size=(2, 3, 4)),)),
    ]


GUARD = "np.where(m == -np.inf, x.dtype.type(0), m)", "np.maximum(m, 0)"
SUM = ", dtype=np.promote_types(x.dtype, np.float32)", ""
EPSILON = "np.log(l)", "np.log(l + 1e-9)"
LSE = "(m + np.log(l))[..., 0]"
TRY = "scores of −1000, an empty row, and a row of 65,520 zeros in float16"

EXERCISE = Exercise(
    lesson="02", stars=2, reference=log_sum_exp, cases=cases, dtype=np.float32, where="eq. 2.5",
    hints=(
        "Call `broken` with a row of −1000 and a row of −∞. What should come out, and which line produces the number "
        "that you see?",
        "np.maximum(m, 0) was meant for m = −∞ only: for which other rows does it change m? Eq. 2.7. After the shift, "
        "l is at least 1, or 0 in an empty row: log 0 = −∞ is right there, and no epsilon is needed.",
        "In half precision, add in float32: x.sum(..., dtype=np.float32), section 5.",
    ),
    without={
        SUM[0][2:]: phrases.half_precision("section 5, eq. 2.6"),
        f"m = {GUARD[0]}": phrases.nothing_yet("eq. 2.7"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("eq. 2.5", inputs=TRY), but(*GUARD, *SUM, *EPSILON)),
        Mistake(phrases.one_fixed("eq. 2.5", inputs=TRY),
                but(*GUARD, *SUM), but(*GUARD, *EPSILON), but(*SUM, *EPSILON)),
        Mistake("Your shift is never below 0, so in a row of very negative scores, all exponentials are 0. Use 0 only "
                "in place of −∞, and m in every other row: eq. 2.7.",
                but(*GUARD)),
        Mistake(phrases.epsilon("eq. 2.4", instead="after the shift, the sum is at least 1, and that of an empty row "
                                                   "is 0, whose logarithm is −∞"),
                *(but("np.log(l)", f"np.log(l + {small})") for small in ("1e-9", "1e-8", "1e-10", "1e-12", "1e-6"))),
        Mistake(phrases.nan_hidden("eq. 2.7"),
                but(LSE, f"np.nan_to_num({LSE}, nan=-np.inf, neginf=-np.inf)"),
                but(LSE, f"np.nan_to_num({LSE}, nan=-np.inf)", GUARD[0], "m")),
    ),
)
