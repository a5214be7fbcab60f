"""Lesson 24, ★★: the most that any key of a page can score."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def page_bound(q: Array, pages: Array, counts: Array) -> Array:
    """(P,): for each page the most that a key inside its box could score against q (D,), unscaled: (24.7).

    ``pages`` (P, S, D); the first ``counts[p]`` slots of page p hold keys, others may hold anything, NaN as well. The
    box is what a server keeps of a page: two vectors, the smallest and the largest number of its keys per channel.
    −∞ for a page without keys.
    """
    bound = np.full(len(pages), -np.inf)
    for p, count in enumerate(counts):
        if count:
            low, high = pages[p, :count].min(0), pages[p, :count].max(0)
            bound[p] = np.maximum(q * low, q * high).sum()
    return bound


def call(counts: list[int], size: int, d: int, filler: float = np.nan) -> tuple[Array, Array, Array]:
    """Random keys."""
    rng = np.random.default_rng(d)
    q, pages = rng.normal(size=d), rng.normal(size=(len(counts), size, d))
    for page, count in zip(pages, counts):
        page[count:] = filler
    return q, pages, np.array(counts)


def cases() -> list[Case]:
    """One key, one channel, both signs; empty slots with NaN, zeros, and something large."""
    calls = [
        ("ONE: a page of one key: the bound is its score", call([1], 1, 2)),
        ("one channel, a negative query", (np.array([-1.0]), np.array([[[2.0], [5.0]]]), np.array([2]))),
        ("three pages of four keys", call([4, 4, 4], 4, 3)),
        ("EMPTY: the last page is partly filled, NaN in its empty slots", call([4, 4, 1], 4, 3)),
        ("EMPTY: the same, 9 in the empty slots, from another text", call([4, 4, 1], 4, 3, 9.0)),
        ("EMPTY: a page without keys", call([4, 0, 2], 4, 3)),
        ("pages of 16 keys of size 32", call([16] * 5 + [7], 16, 32)),
    ]
    return [Case(label, args) for label, args in calls]


BEST = "np.maximum(q * low, q * high).sum()"

EXERCISE = Exercise(
    lesson="24", stars=2, reference=page_bound, where="eq. 24.7", cases=cases,
    hints=(
        "First the box: the smallest and the largest number of the page's keys per channel, of filled slots only.",
        "Where q_c is positive, the best corner takes the largest number; where it's negative, the smallest: eq. 24.7.",
    ),
    without={
        "q * low": "You take the largest number in every channel. Where the query is negative, the smallest gives "
                   "more (eq. 24.7).",
        "q * high": "You take the smallest number in every channel. Where the query is positive, the largest gives "
                    "more (eq. 24.7).",
    },
    mistakes=(
        Mistake("That's the largest score itself. It takes all keys of the page to know it, and a box has two vectors: "
                "eq. 24.7.",
                but(BEST, "(pages[p, :count] @ q).max()")),
        Mistake("Empty slots enter your box. Only the first `counts[p]` slots of a page hold keys: section 4.",
                but("pages[p, :count].min(0), pages[p, :count].max(0)", "pages[p].min(0), pages[p].max(0)")),
        Mistake("You compare sums over the channels. Each channel chooses its own side of the box, and then you sum: "
                "eq. 24.7.",
                but(BEST, "max((q * low).sum(), (q * high).sum())")),
        Mistake("You bound the sizes, without signs: |q| times the largest |k|. That's a bound, too, and looser than "
                "the box's: eq. 24.7.",
                but(BEST, "(abs(q) * np.maximum(abs(low), abs(high))).sum()")),
    ),
)
