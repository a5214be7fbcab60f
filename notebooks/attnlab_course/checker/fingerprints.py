"""Fingerprints of the shift: scores so far from 0 that a softmax with a wrong maximum fails. For every exercise.

LOW: a maximum that starts at 0 or at −10⁴, that is clipped, or a finite number in the place of −∞, is the largest
score, and every exponential is 0. HIGH: an exponential that is not shifted is ∞. ROWS: one maximum for all queries
leaves sums of 0. FUTURE: so does a maximum over keys that a query may not see.
"""

from collections.abc import Callable

from attnlab_course.checker.exercise import Case

import numpy as np

Array = np.ndarray
FAR = 100_000.0  # beyond −10⁴, which is in use for −∞, and beyond every exponential
ALONE = -1e300
"""As the only visible score of a row: a number that hides, and is larger, takes all the weight."""
DEEP = -1e12
"""As a score that takes all the weight of a row: below −10⁹ and −10¹⁰, which are in use as the first maximum."""


def levels(n: int) -> dict[str, Array]:
    """What to add to all scores of each of ``n`` queries, by the fingerprint's name."""
    found = {"LOW: scores near −100000": np.full(n, -FAR), "HIGH: scores near 100000": np.full(n, FAR)}
    if n > 1:
        found["ROWS: query 0 has scores near 0, the last query near 100000"] = np.linspace(0, FAR, n)
    return found


def lifted(q: Array, k: Array, level: Array | float) -> tuple[Array, Array]:
    """Queries (..., N, D) and keys (..., M, D), D > 1, whose scores q·k / √D lie near ``level``, () or (N,).

    The first coordinate sets the level, the others are as given.
    """
    q, k = q.copy(), k.copy()
    q[..., 0], k[..., 0] = level, k.shape[-1] ** 0.5
    return q, k


def large_key(q: Array, k: Array, key: int) -> tuple[Array, Array]:
    """Queries and keys as :func:`lifted` has them, level 0; all scores of one ``key`` lie near 100000."""
    q, k = lifted(q, k, 1.0)
    k[..., 0] = 0
    k[..., key, 0] = FAR * k.shape[-1] ** 0.5
    return q, k


def deepest(n: int, m: int, d: int) -> tuple[Array, Array]:
    """Queries (n, d) and keys (m, d) whose score with key j is (1 + j) · DEEP, also if they are rotated, for d > 2.

    The first key that is visible has all the weight; a number that stands for −∞ would take it.
    """
    q, k = np.zeros((n, d)), np.zeros((m, d))
    q[:, -1], k[:, -1] = DEEP, d**0.5 * np.arange(1, m + 1)
    return q, k


def far_scores(make: Callable[[Array], tuple], s: Array, about: str = "") -> list[Case]:
    """LOW, HIGH and ROWS: the arguments that ``make`` returns for scores, here s (R, C) and a level."""
    return [Case(label + about, make(s + level[:, None])) for label, level in levels(len(s)).items()]


def far_queries(make: Callable[[Array, Array], tuple], q: Array, k: Array, about: str = "") -> list[Case]:
    """LOW, HIGH and ROWS: the arguments that ``make`` returns for queries and keys, as :func:`lifted` has them."""
    return [Case(label + about, make(*lifted(q, k, level))) for label, level in levels(q.shape[-2]).items()]


def last_key(make: Callable[[Array, Array], tuple], q: Array, k: Array, about: str = "") -> Case:
    """HIGH for the last key alone: a maximum that the first keys set and no later one moves is far too small."""
    return Case(f"HIGH: the scores of the last key alone lie near 100000{about}", make(*large_key(q, k, -1)))
