"""Lesson 00, ★: the weighted average, to meet the checker."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np


def average(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Average of the rows of ``values`` (n, d) with positive ``weights`` (n,) of any sum."""
    return weights @ values / weights.sum()


def cases() -> list[Case]:
    """Two fingerprints and random rows, weights so small that anything added to their sum is seen, many."""
    rng = np.random.default_rng(0)
    return [
        Case("ONES: weights 1 and 2, every value 1 (an average of ones is 1)", (np.array([1.0, 2.0]), np.ones((2, 1)))),
        Case(
            "EYE: values are the identity, so the result is the weights, normalized",
            (np.array([1.0, 2.0, 5.0]), np.eye(3)),
        ),
        Case("five random rows", (rng.random(5), rng.normal(size=(5, 3)))),
        Case("three rows of three numbers, weights near 10⁻¹⁵", (1e-15 * rng.random(3), rng.normal(size=(3, 3)))),
        Case("EYE: two weights are equal", (np.array([1.0, 1.0, 2.0]), np.eye(3))),
        Case("130 random rows", (rng.random(130), rng.normal(size=(130, 2)))),
    ]


EXERCISE = Exercise(
    lesson="00", stars=1, reference=average, cases=cases,
    hints=(
        "What must the weights add up to, so that an average of ones is 1?",
        "The numerator of the formula is weights @ values.",
        "Divide by weights.sum().",
    ),
    without={
        "weights.sum()": "You add up the weighted values and don't divide by the sum of the weights. Weights 1 and 2 "
                         "make 3 of an average of ones.",
    },
    mistakes=(
        Mistake("You divide by the number of values. The denominator of the formula is the sum of the weights; the two "
                "agree only if the weights are 1 on average.",
                but("weights.sum()", "len(weights)")),
        Mistake("You take the plain mean: your result doesn't depend on the weights. Multiply each value by its "
                "weight before you add.",
                but("weights @ values / weights.sum()", "values.mean(0)")),
        Mistake("You divide by the sum of the values. The weights are what must add up to 1: divide by their sum.",
                but("weights.sum()", "values.sum(0)")),
    ),
)
