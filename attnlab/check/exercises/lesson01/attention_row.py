"""Lesson 01, ★: attention of one query."""

import numpy as np

from attnlab.check.engine import Case, Exercise


def attention_row(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """softmax(q·kᵀ / √D) · values, for one query (D,), keys (M, D) and values (M, Dv)."""
    e = np.exp(keys @ q / np.sqrt(len(q)))
    return e / e.sum() @ values


def cases() -> list[Case]:
    rng = np.random.default_rng(1)
    q, keys, values = rng.normal(size=4), rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    return [
        Case("one key: the result is its value", (np.array([1.0]), np.array([[2.0]]), np.array([[3.0]]))),
        Case("ONES: three keys, every value is 1, so the result must be 1", (q, keys, np.ones((3, 1)))),
        Case("EYE: values are the identity, so the result is the row of P; D = 4, scale 1/2", (q, keys, np.eye(3))),
        Case("random values of size 2", (q, keys, values)),
        Case("PERM: the same keys and values in another order", (q, keys[[2, 0, 1]], values[[2, 0, 1]])),
        Case("D = 9 and seven keys", (rng.normal(size=9), rng.normal(size=(7, 9)), rng.normal(size=(7, 5)))),
    ]


EXERCISE = Exercise(
    "attention_row", "01", 1, attention_row, cases,
    hints=(
        "Three lines: the M scores, their exponentials, the weighted average of the values.",
        "keys @ q gives all M products at once; divide by the square root of the size of q.",
        "The average of lesson 00, with weights e^score.",
    ),
)
