"""Lesson 05, ★: the summary of one chunk of keys."""

from attnlab.check.exercise import Case, Exercise, Mistake

import numpy as np

Array = np.ndarray
Triple = tuple[Array, Array, Array]


def summarize(q: Array, k: Array, v: Array) -> Triple:
    """Summary (m, l, o) of keys k (C, D) and values v (C, Dv) for queries q (n, D); shapes (n,), (n,), (n, Dv)."""
    s = q @ k.T / np.sqrt(q.shape[1])
    m = s.max(1, initial=-np.inf)
    p = np.exp(s - m[:, None])
    return m, p.sum(1), p @ v


def scores(q: Array, k: Array) -> Array:
    """The scores of one chunk."""
    return q @ k.T / np.sqrt(q.shape[1])


def divided(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: the output is divided already."""
    m, l, o = summarize(q, k, v)
    return m, l, o / np.where(l == 0, 1, l)[:, None]


def divided_by_zero(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: as above, and 0/0 where no key is seen."""
    m, l, o = summarize(q, k, v)
    return m, l, o / l[:, None]


def unshifted(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: m is found and not used."""
    p = np.exp(scores(q, k))
    return scores(q, k).max(1, initial=-np.inf), p.sum(1), p @ v


def shared(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: one maximum for all queries."""
    s = scores(q, k)
    m = s.max(initial=-np.inf)
    p = np.exp(s - m)
    return np.full(len(q), m), p.sum(1), p @ v


def from_zero(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: the maximum begins at 0."""
    s = scores(q, k)
    m = s.max(1, initial=0)
    p = np.exp(s - m[:, None])
    return m, p.sum(1), p @ v


def no_guard(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: the maximum of no keys is asked for."""
    s = scores(q, k)
    m = s.max(1)
    p = np.exp(s - m[:, None])
    return m, p.sum(1), p @ v


def unscaled(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: scores without 1/√D."""
    return summarize(q * np.sqrt(q.shape[1]), k, v)


def columns(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: m and l keep an axis of size 1."""
    m, l, o = summarize(q, k, v)
    return m[:, None], l[:, None], o


def another_order(q: Array, k: Array, v: Array) -> Triple:
    """Wrong: (o, l, m) for (m, l, o)."""
    return summarize(q, k, v)[::-1]


def cases() -> list[Case]:
    """Small chunks first."""
    rng = np.random.default_rng(51)
    q, k, v = rng.normal(size=(2, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    one = np.array([[1.0]])
    rows = np.array([[0.0, 0.0], [1400.0, 0.0]])
    return [
        Case("ONE: one query, one key with score 2: its own maximum, so l = 1", (2 * one, one, 3 * one)),
        Case("two keys with scores 0 and 1: l = 1 + 1/e", (one, np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]))),
        Case("ONES: every value is 1, so o = l", (q, k, np.ones((3, 1)))),
        Case("EYE: the values are the identity, so the rows of o are e^(s − m)", (q, k, np.eye(3))),
        Case("LOW: all scores are −900", (np.array([[-30.0]]), np.array([[30.0], [30.0]]), np.ones((2, 1)))),
        Case("ROWS: scores near 0 for query 0, near 1000 for query 1", (rows, k[:, :2] ** 2, v)),
        Case("EMPTY: a chunk without keys; its summary is the identity of ⊕: m = −∞, l = 0, o = 0", (q, k[:0], v[:0])),
        Case("five queries, seven keys", (rng.normal(size=(5, 4)), rng.normal(size=(7, 4)), rng.normal(size=(7, 3)))),
    ]


EXERCISE = Exercise(
    lesson="05",
    stars=1,
    reference=summarize,
    cases=cases,
    hints=(
        "Four lines: the scores s, their maximum m in each row, p = e^(s − m), and the three results.",
        "m has one entry a query. To subtract it from the rows of s, give it a second axis: m[:, None].",
        "No division here: a summary holds sums, which can be added to those of other chunks later (eq. 5.2).",
        "For a chunk without keys, max needs to be told where to begin: s.max(1, initial=-np.inf).",
    ),
    mistakes=(
        Mistake(
            "You divide o by l inside the chunk. A summary holds plain sums, so that ⊕ can add them; once divided, the "
            "chunk has forgotten how much it weighs. Divide once, after all chunks are combined (eq. 5.4).",
            divided, divided_by_zero,
        ),
        Mistake(
            "Your exponentials are not shifted by the maximum that you return: o and l must hold e^(s − m), see "
            "eq. 5.2. Bare exponentials overflow from a score of 89 on in float32, 710 in float64.",
            unshifted,
        ),
        Mistake(
            "You take one maximum for all queries. Then a query whose scores are far smaller than another's underflows "
            "to l = 0. In eq. 5.2 each query, a row of the scores, has its own m.",
            shared,
        ),
        Mistake(
            "Your maximum begins at 0, which is a score that no key has: with all scores at −900 every e^(s − 0) is 0. "
            "Begin at −∞, the identity of max (eq. 5.2).",
            from_zero,
        ),
        Mistake(
            "The maximum over no keys is undefined unless you say where to begin. An empty chunk is the identity of ⊕, "
            "(m, l, o) = (−∞, 0, 0), see eq. 5.2: begin the maximum at −∞.",
            no_guard,
        ),
        Mistake("Your scores lack the factor 1/√D of eq. 5.2.", unscaled),
        Mistake("l and m have one number a query, shape (n,); yours keep an axis of size 1. See eq. 5.2.", columns),
        Mistake("The order asked for is (m, l, o), that of eq. 5.2; yours is (o, l, m).", another_order),
    ),
)
