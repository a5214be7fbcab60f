"""Lesson 03, ★★: a fold over chunks that is right for rising, positive scores only, and repaired."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE

import numpy as np
from numpy import ndarray as Array


def stats_in_chunks(x: Array, size: int) -> tuple[Array, Array]:
    """(m, l) of each row of x (R, n), read in chunks of ``size`` columns: two arrays (R,)."""
    def shift(m: Array) -> Array:
        return np.where(m == -np.inf, 0, m)

    m, l = np.full(len(x), -np.inf), np.zeros(len(x))
    for start in range(0, x.shape[1], size):
        chunk = x[:, start : start + size]
        c = chunk.max(1)
        e = np.exp(chunk - shift(c)[:, None]).sum(1)
        m_next = np.maximum(m, c)
        l = l * np.exp(m - shift(m_next)) + e * np.exp(c - shift(m_next))
        m = m_next
    return m, l


def cases() -> list[Case]:
    """Rising scores, then an input for each of the three lines; ragged chunks and several rows."""
    inf = np.inf
    rows = {
        "UP: 1, 2, 3, 4 in chunks of 2": ([[1, 2, 3, 4]], 2),
        "DOWN: 4, 3, 2, 1 in chunks of 2": ([[4, 3, 2, 1]], 2),
        "LOW: two scores of −100000, one at a time": ([[-100000, -100000]], 1),
        "EMPTY: a chunk of −∞ first, then −2 and −1": ([[-inf, -inf, -2, -1]], 2),
        "EMPTY: nothing but −∞ gives (−∞, 0)": ([[-inf, -inf, -inf]], 2),
        "EMPTY: a chunk of −∞ in one row, and in the other row later": ([[-inf, -inf, 1, 2], [4, 3, -inf, -inf]], 2),
        "LOW: a single score of −1e300": ([[ALONE]], 1),
        "HIGH, ROWS: one row near 0, one near 100000": ([[0, 2, 1, 1], [1e5, 1e5 + 1, 1e5 - 1, 1e5]], 2),
        "a chunk longer than the row: 1, 2, 3 in chunks of 8": ([[1, 2, 3]], 8),
        "0 and 0, then 1000 and 1000: the first two no longer count": ([[0, 0, 1000, 1000]], 2),
        "0, then 1,000 scores of −9 in chunks of 100: together they weigh 0.12": ([[0] + [-9] * 1000], 100),
    }
    random = np.random.default_rng(35).normal(0, 3, size=(4, 11))
    small = [Case(label, (np.array(x, float), size)) for label, (x, size) in rows.items()]
    return [*small, Case("RAGGED: four random rows of 11 in chunks of 4", (random, 4))]


START = "np.full(len(x), -np.inf)", "np.zeros(len(x))"
FACTOR = "e * np.exp(c - shift(m_next))", "e"
GUARD = "shift(c)", "c", "shift(m_next)", "m_next"
BARE = "e * np.exp(c - m_next)", "e"  # the second factor, where the guards are gone already
TRY = "falling scores, scores of −1000, and a chunk of −∞"

EXERCISE = Exercise(
    lesson="03", stars=2, reference=stats_in_chunks, cases=cases, where="eq. 3.3",
    hints=(
        "Compare `broken` with statistics(row) for [[2, 1]], [[-1000, -1000]] and [[-inf, 1]], one column at a time.",
        "Which pair is the sum of nothing? m = 0 claims that a score of 0 was read (section 1). And in (3.3) both sums "
        "get a factor: e was shifted by c, so it takes exp(c − m_next).",
        "Where a maximum is −∞, shift by 0 instead, and leave m as it is (section 3).",
    ),
    without={
        "np.exp(c - shift(m_next))": phrases.different_maxima("eq. 3.3"),
        "np.exp(m - shift(m_next))": phrases.rescales_nothing("eq. 3.3", sums="l is", factor="e^(m − m')"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("eq. 3.3", inputs=TRY), but(*START, *FACTOR, *GUARD)),
        Mistake(phrases.one_fixed("eq. 3.3", inputs=TRY),
                but(*START, *FACTOR), but(*START, *GUARD), but(*GUARD, *BARE)),
        Mistake(phrases.nothing_yet("section 3, eq. 3.5"),
                but(*GUARD), but("shift(c)", "c"), but("shift(m_next)", "m_next")),
        Mistake(phrases.guard_written("eq. 3.2", m="m"),
                but("m = m_next\n", "m = shift(m_next)\n"),
                but("m = m_next\n", "m = shift(m_next)\n", "return m,", "return np.where(l == 0, -np.inf, m),")),
        Mistake(phrases.last_one("eq. 3.3", what="The scores", block="chunk"),
                but("range(0, x.shape[1], size)", "range(0, x.shape[1] // size * size, size)")),
    ),
)
