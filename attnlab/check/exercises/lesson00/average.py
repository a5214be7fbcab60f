"""Lesson 00, ★: the weighted average, to meet the checker."""

import numpy as np

from attnlab.check.engine import Case, Exercise


def average(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Average of the rows of ``values`` (n, d) with positive ``weights`` (n,) of any sum."""
    return weights @ values / weights.sum()


def cases() -> list[Case]:
    rng = np.random.default_rng(0)
    return [
        Case("ONES: weights 1 and 2, every value 1 (an average of ones is 1)", (np.array([1.0, 2.0]), np.ones((2, 1)))),
        Case("EYE: values are the identity, so the result is the weights, normalized",
             (np.array([1.0, 2.0, 5.0]), np.eye(3))),
        Case("five random rows", (rng.random(5), rng.normal(size=(5, 3)))),
    ]


EXERCISE = Exercise(
    "average", "00", 1, average, cases,
    hints=("What must the weights add up to, so that an average of ones is 1?", "Divide by weights.sum()."),
)
