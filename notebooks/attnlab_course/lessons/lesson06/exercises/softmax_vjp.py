"""Lesson 06, ★: the gradient of a softmax without its Jacobian."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.promises import growth

import numpy as np


def softmax_vjp(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """ds, given p = softmax(s) over the last axis and dp, both (..., M)."""
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def by_jacobian(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Right values, through the M × M Jacobian of every row."""
    jacobian = p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])
    return (dp[..., None, :] @ jacobian)[..., 0, :]


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random rows that add up to 1."""
    e = np.exp(rng.normal(size=shape))
    return e / e.sum(-1, keepdims=True)


def cases() -> list[Case]:
    """One key, equal dp, one row; several rows, an empty one among them; batches; a small weight."""
    rng = np.random.default_rng(6)
    half, empty = np.array([0.5, 0.25, 0.25]), weights(rng, 3, 4) * np.array([[1.0], [0.0], [1.0]])
    return [
        Case("ONE: a single key has weight 1 whatever its score, so ds is 0", (np.ones((1, 1)), np.full((1, 1), 3.0))),
        Case("CONST: dp is the same for every key, so ds is 0", (half, np.full(3, 2.0))),
        Case("EYE: dp asks for the weight of key 0 alone, so ds is row 0 of the Jacobian", (half, np.eye(3)[0])),
        Case("ROWS: two queries, three keys, dp of very different sizes",
             (weights(rng, 2, 3), rng.normal(size=(2, 3)) * np.array([[1.0], [1000.0]]))),
        Case("EMPTY: query 1 sees no key, its weights are 0 and so is its ds", (empty, rng.normal(size=(3, 4)))),
        Case("four axes: two sequences, two heads of 2 × 3", (weights(rng, 2, 2, 2, 3), rng.normal(size=(2, 2, 2, 3)))),
        Case("three heads of 2 × 5, views of arrays whose first two axes are exchanged",
             (weights(rng, 2, 3, 5).transpose(1, 0, 2), rng.normal(size=(2, 3, 5)).transpose(1, 0, 2))),
        Case("SMALL: a weight of 10⁻³⁰ and a dp of 10³⁰, so ds is 1", (np.array([1, 1e-30]), np.array([0, 1e30]))),
    ]


def long_row(n: int) -> tuple[np.ndarray, np.ndarray]:
    """One row of n keys."""
    rng = np.random.default_rng(n)
    return weights(rng, n), rng.normal(size=n)


EXERCISE = Exercise(
    lesson="06", stars=1, reference=softmax_vjp, where="eq. 6.2", cases=cases,
    costs=(
        Cost(growth(long_row, 1000, 2000), 2.2,
             "its memory grew {found:.1f}× when the row grew from 1000 to 2000 keys; {limit} is allowed"),
    ),
    hints=(
        "Equation 6.2 has one sum for each row: what is it the average of, and over which axis does it run?",
        "The average of dp in a row is weighted by that row's weights: Σ p dp.",
        "(p * dp).sum(-1, keepdims=True) has one number per row and broadcasts back over the keys.",
    ),
    without={
        "(p * dp).sum(-1, keepdims=True)": "ds is neither p dp nor p (1 − p) dp. Through l, a score moves the other "
                                           "weights, too: subtract the row's average of dp first, Σ p dp (eq. 6.2).",
        "p": "A factor p is missing. Without the one in front, a key of weight 0 gets a gradient; without the one in "
             "the sum, all keys count equally, where each should count by its weight: Σ p dp (eq. 6.2).",
    },
    mistakes=(
        Mistake(phrases.over_queries("eq. 6.2"),
                but("sum(-1", "sum(0"), but("sum(-1", "sum(0 if p.ndim == 1 else -2"),
                but("sum(-1, keepdims=True", "sum(")),
        Mistake("The values are right, but you form the Jacobian, M × M numbers for each row. Its product with dp "
                "needs one sum and two products (eq. 6.2).",
                by_jacobian),
    ),
)
