"""Lesson 05, ★: the summary of one chunk of keys."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries

import numpy as np

Array = np.ndarray


def summarize(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Summary (m, l, o) of keys k (Ck, D) and values v (Ck, Dv) for queries q (n, D); shapes (n,), (n,), (n, Dv)."""
    s = q @ k.T / np.sqrt(q.shape[1])
    m = s.max(1, initial=-np.inf)
    p = np.exp(s - m[:, None])
    return m, p.sum(1), p @ v


def cases() -> list[Case]:
    """Small chunks first."""
    rng = np.random.default_rng(51)
    q, k, v = rng.normal(size=(2, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    one = np.array([[1.0]])
    far, values = np.array([[0.0], [1000.0]]), np.array([[1e30], [1.0]])
    different = np.array([[1.0], [2.0], [4.0]])
    return [
        Case("ONE: one query, one key with score 2: its own maximum, so l = 1", (2 * one, one, 3 * one)),
        Case("two keys with scores 0 and 1: l = 1 + 1/e", (one, np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]))),
        Case("CONST: three keys with equal scores: each counts, l = 3", (one, np.ones((3, 1)), different)),
        Case("two keys with scores 0 and 1000, values 10³⁰ and 1: only the second has a weight", (one, far, values)),
        Case("EYE: the values are the identity, so the rows of o are e^(s − m)", (q, k, np.eye(3))),
        *far_queries(lambda q, k: (q, k, v), q, k),
        Case("EMPTY: a chunk without keys; its summary is the identity of ⊕: m = −∞, l = 0, o = 0", (q, k[:0], v[:0])),
        Case("two keys of zeros: the scores are 0", (one, np.zeros((2, 1)), different[:2])),
        Case("a score of 0, then 1,000 of −8: together they weigh 0.34",
             (one, np.array([[0.0], *[[-8.0]] * 1000]), np.arange(1001.0)[:, None])),
        Case("five queries, seven keys", (rng.normal(size=(5, 4)), rng.normal(size=(7, 4)), rng.normal(size=(7, 3)))),
    ]


EXERCISE = Exercise(
    lesson="05", stars=1, reference=summarize, cases=cases, where="eq. 5.2",
    hints=(
        "Four lines: the scores s, their maximum m in each row, p = e^(s − m), and the three results. No division: a "
        "summary holds sums, which can be added to those of other chunks later (eq. 5.2).",
        "m has one entry per query. To subtract it from the rows of s, give it a second axis: m[:, None].",
        "For a chunk without keys, tell max where to start: s.max(1, initial=-np.inf).",
    ),
    without={
        "initial=-np.inf": "The maximum over no keys is undefined unless you say where to start. An empty chunk is the "
                           "identity of ⊕, (m, l, o) = (−∞, 0, 0), see eq. 5.2: start the maximum at −∞.",
        "np.sqrt(q.shape[1])": phrases.other_scale("eq. 5.2"),
    },
    mistakes=(
        Mistake("You divide o by l inside the chunk. A summary holds plain sums, so that ⊕ can add them; once divided, "
                "the chunk has forgotten how much it weighs. Divide once, after all chunks are combined (eq. 5.4).",
                but("p @ v", "p @ v / np.where(p.sum(1) == 0, 1, p.sum(1))[:, None]"),
                but("p @ v", "p @ v / p.sum(1)[:, None]")),
        Mistake(phrases.unshifted("eq. 5.2"),
                but("s - m[:, None]", "s"), but("s - m[:, None]", "s", "return m", "return np.zeros(len(q))")),
        Mistake(phrases.one_maximum("eq. 5.2"),
                but("s.max(1, initial=-np.inf)", "np.full(len(q), s.max(initial=-np.inf))")),
        Mistake(phrases.apart("eq. 5.2", shift="m"), but("np.exp(s - m[:, None])", "np.exp(s) * np.exp(-m)[:, None]")),
    ),
)
