"""Lesson 04, ★★: online attention with a mask, right for one query and falling scores only, and repaired."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE

import numpy as np
from numpy import ndarray as Array


def masked_online(query: Array, key: Array, value: Array, mask: Array) -> Array:
    """Online attention, key by key: query (N, D), key (M, D), value (M, Dv), mask (N, M) → (N, Dv); scale 1/√D."""
    n, d = query.shape
    m, l, o = np.full(n, -np.inf), np.zeros(n), np.zeros((n, value.shape[1]))
    for k, v, seen in zip(key, value, mask.T):
        s = np.where(seen, query @ k / d**0.5, -np.inf)
        m_new = np.maximum(m, s)
        shift = np.where(m_new == -np.inf, 0, m_new)
        factor, new = np.exp(m - shift), np.exp(s - shift)
        l = l * factor + new
        o = o * factor[:, None] + new[:, None] * v
        m = m_new
    return o / np.where(l == 0, 1, l)[:, None]


def scored(rows: list[list[float]], mask: list[list[int]] | None = None) -> tuple:
    """D = 1 and EYE values, with these scores: a row for each query, all in proportion to the first."""
    scores = np.array(rows, float)
    at = np.argmax(abs(scores[0]))
    query = scores[:, at : at + 1] / scores[0, at]
    seen = np.ones(scores.shape, bool) if mask is None else np.array(mask, bool)
    return query, scores[:1].T, np.eye(scores.shape[1]), seen


def cases() -> list[Case]:
    """What `broken` can do, then an input for each of its three lines."""
    rng = np.random.default_rng(44)
    query, key, value = rng.normal(size=(4, 6)), rng.normal(size=(9, 6)), rng.normal(size=(9, 3))
    return [
        Case("DOWN, EYE: one query, scores 2, 1", scored([[2, 1]])),
        Case("UP, EYE: one query, scores 1, 2", scored([[1, 2]])),
        Case("EYE: one query, scores 2, 1, 1, and key 0 is hidden", scored([[2, 1, 1]], [[0, 1, 1]])),
        Case("EYE: two queries, scores 2, 1, and key 0 is hidden from query 0", scored([[2, 1]] * 2, [[0, 1], [1, 1]])),
        Case("LOW, EYE: one query, key 0 is hidden, then twice -100000", scored([[1, -1e5, -1e5]], [[0, 1, 1]])),
        Case("LOW, EYE: one query, score -1e300, and keys 0 and 2 are hidden", scored([[-1, ALONE, 1]], [[0, 1, 0]])),
        Case("HIGH, EYE: one query, scores 0, 0, then 100000", scored([[0, 0, 1e5]])),
        Case("ROWS, DOWN, EYE: two queries, scores 2, 1 and 2000, 1000", scored([[2, 1], [2000, 1000]])),
        Case("EMPTY, EYE: two queries, and query 1 sees no key", scored([[2, 1], [2, 1]], [[1, 1], [0, 0]])),
        Case("UP, EYE: one query, two hundred scores, 0.009 from each to the next, none hidden",
             scored([[0.009 * n for n in range(1, 201)]])),
        Case("random, a random mask", (query, key, value, rng.random((4, 9)) < 0.5)),
    ]


MAXIMUM = "np.maximum(m, s)", "np.maximum(m, s.max())"
RESCALE = "o * factor[:, None]", "o"
GUARD = "np.where(m_new == -np.inf, 0, m_new)", "m_new"
TRY = "rising scores, a hidden first key, and two queries of very different scores"

EXERCISE = Exercise(
    lesson="04", stars=2, reference=masked_online, cases=cases, where="eqs. 4.7 to 4.9",
    hints=(
        "Call `broken` with one query and np.eye as values: it returns the weights. Compare attnlab.safe_attention's.",
        "Ask of each line how many numbers it holds for each query, and what it does when a score is −∞.",
        "Each query has its own maximum (section 5), the shift needs a guard (section 7), and o takes l's factor.",
    ),
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 4.7 to 4.9", inputs=TRY), but(*MAXIMUM, *RESCALE, *GUARD)),
        Mistake(phrases.one_fixed("eqs. 4.7 to 4.9", inputs=TRY),
                but(*MAXIMUM, *RESCALE), but(*MAXIMUM, *GUARD), but(*RESCALE, *GUARD)),
        Mistake(phrases.one_maximum("eq. 4.7"), but(*MAXIMUM)),
        Mistake(phrases.nothing_yet("section 7, eq. 4.10"),
                but(*GUARD), but(GUARD[0], "np.where((m_new == -np.inf).all(), 0, m_new)")),
        Mistake(phrases.rescales_partly("eqs. 4.8 and 4.9", sums="l or o", factor="e^(m − m')"),
                but(*RESCALE), but("l * factor", "l"), but("l * factor", "l", *RESCALE)),
    ),
)
