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
    """One key, equal dp, one row; several rows, square and not, an empty one among them; batches; a small weight."""
    rng = np.random.default_rng(6)
    half, row = np.array([0.5, 0.25, 0.25]), weights(rng, 5)
    empty = weights(rng, 3, 4) * np.array([[1.0], [0.0], [1.0]])
    return [
        Case("ONE: a single key has weight 1 whatever its score, so ds is 0", (np.ones((1, 1)), np.full((1, 1), 3.0))),
        Case("CONST: dp is the same for every key, so ds is 0", (half, np.full(3, 2.0))),
        Case("EYE: dp asks for the weight of key 0 alone, so ds is row 0 of the Jacobian", (half, np.eye(3)[0])),
        Case("one row of 5 keys", (row, rng.normal(size=5))),
        Case("ROWS: two queries, three keys, dp of very different sizes",
             (weights(rng, 2, 3), rng.normal(size=(2, 3)) * np.array([[1.0], [1000.0]]))),
        Case("ROWS: as many queries as keys", (weights(rng, 3, 3), rng.normal(size=(3, 3)))),
        Case("EMPTY: query 1 sees no key, its weights are 0 and so is its ds", (empty, rng.normal(size=(3, 4)))),
        Case("two heads of 3 × 4", (weights(rng, 2, 3, 4), rng.normal(size=(2, 3, 4)))),
        Case("four axes: two sequences, two heads of 2 × 3", (weights(rng, 2, 2, 2, 3), rng.normal(size=(2, 2, 2, 3)))),
        Case("three heads of 2 × 5, views of arrays whose first two axes are exchanged",
             (weights(rng, 2, 3, 5).transpose(1, 0, 2), rng.normal(size=(2, 3, 5)).transpose(1, 0, 2))),
        Case("SMALL: a weight of 10⁻³⁰ and a dp of 10³⁰, so ds is 1", (np.array([1, 1e-30]), np.array([0, 1e30]))),
    ]


def long_row(n: int) -> tuple[np.ndarray, np.ndarray]:
    """One row of n keys."""
    rng = np.random.default_rng(n)
    return weights(rng, n), rng.normal(size=n)


AVERAGE = "(p * dp).sum(-1, keepdims=True)"

EXERCISE = Exercise(
    lesson="06", stars=1, reference=softmax_vjp, cases=cases,
    costs=(
        Cost(
            growth(long_row, 1000, 2000),
            2.2,
            "its memory grew {found:.1f}× when the row grew from 1000 to 2000 keys; {limit} is allowed",
        ),
    ),
    hints=(
        "Equation 6.2 has one sum for each row: what is it the average of, and over which axis does it run?",
        "The average of dp in a row is weighted by that row's weights: Σ p dp.",
        "(p * dp).sum(-1, keepdims=True) has one number per row and broadcasts back over the keys.",
    ),
    mistakes=(
        Mistake(phrases.stops_at_p("eq. 6.2"), but(f"(dp - {AVERAGE})", "dp")),
        Mistake(phrases.over_queries("eq. 6.2"), but("sum(-1", "sum(0"), but("sum(-1", "sum(0 if p.ndim == 1 else -2")),
        Mistake(phrases.over_everything("eq. 6.2"), but(AVERAGE, "(p * dp).sum()")),
        Mistake("You subtract the plain sum of dp. Eq. 6.2 subtracts its average with the weights of the row, Σ p dp.",
                but("(p * dp).sum", "dp.sum")),
        Mistake("You subtract the plain mean of dp, in which all keys count equally. In eq. 6.2, each key counts by "
                "its weight: Σ p dp.",
                but("(p * dp).sum", "dp.mean")),
        Mistake("You forgot the factor p in front: a key of weight 0 gets no gradient (eq. 6.2).",
                but("p * (dp -", "(dp -")),
        Mistake("You return the derivative of each weight with respect to its own score, p (1 − p) dp. A score moves "
                "the other keys' weights, too, through l: the Jacobian (eq. 6.1) has off-diagonal entries.",
                but(f"(dp - {AVERAGE})", "(1 - p) * dp")),
        Mistake("The sign is flipped: a key whose dp is above the average gets a positive ds (eq. 6.2).",
                but(f"dp - {AVERAGE}", f"{AVERAGE} - dp")),
        Mistake("The values are right, but you form the Jacobian, M × M numbers for each row. Its product with dp "
                "needs one sum and two products (eq. 6.2).",
                by_jacobian),
    ),
)
