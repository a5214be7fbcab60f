"""Lesson 01, ★: attention of one query."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np


def attention_row(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """softmax(q·kᵀ / √D) · values, for one query (D,), keys (M, D) and values (M, Dv)."""
    e = np.exp(keys @ q / np.sqrt(len(q)))
    return e / e.sum() @ values


def cases() -> list[Case]:
    """Three fingerprints, very negative scores, a size whose root is no whole number."""
    rng = np.random.default_rng(1)
    q, keys = rng.normal(size=4), rng.normal(size=(3, 4))
    return [
        Case("ONE: with a single key the result is its value", (np.ones(1), np.ones((1, 1)), np.full((1, 1), 3.0))),
        Case("ONES: three keys, every value is 1, so the result must be 1", (q, keys, np.ones((3, 1)))),
        Case("EYE: values are the identity, so the result is the row of P; D = 4, scale 1/2", (q, keys, np.eye(3))),
        Case("random values of size 2", (q, keys, rng.normal(size=(3, 2)))),
        Case("D = 7, whose root is no whole number",
             (rng.normal(size=7), rng.normal(size=(6, 7)), rng.normal(size=(6, 5)))),
        Case("as many keys as their size: D = M = 3, values the identity", (q[:3], keys[:, :3], np.eye(3))),
        Case("200 keys", (rng.normal(size=3), rng.normal(size=(200, 3)), rng.normal(size=(200, 2)))),
        Case("scores −50, −49 and −48", (np.full(1, 1.0), np.array([[-50.0], [-49], [-48]]), np.eye(3))),
    ]


EXERCISE = Exercise(
    lesson="01", stars=1, reference=attention_row, cases=cases, where="eqs. 1.1 to 1.3",
    hints=(
        "Three lines: the M scores, their exponentials, the weighted average of the values.",
        "keys @ q gives all M products at once; divide by the square root of the size of q.",
        "The last line is the average of lesson 00, with weights e^score.",
    ),
    without={
        "np.sqrt(len(q))": phrases.other_scale("eq. 1.1, and eq. 1.4 for why"),
        "np.exp(keys @ q / np.sqrt(len(q)))": "You use the scores as weights, without the exponential. Scores can be "
                                              "negative, and weights can't (eq. 1.2).",
        "e.sum()": phrases.undivided("eq. 1.2"),
    },
    mistakes=(
        Mistake("You divide the scores by √M, the root of the number of keys. What makes a score large is the number "
                "of products in it, D (eq. 1.4).",
                but("len(q)", "len(keys)")),
        Mistake(phrases.divides_by_number("eq. 1.2", keys="keys"), but("e.sum()", "len(e)")),
        Mistake("You return only the value of the best key. Attention is an average in which every key has a share "
                "(eq. 1.3).",
                but("e / e.sum() @ values", "values[e.argmax()]")),
    ),
)
