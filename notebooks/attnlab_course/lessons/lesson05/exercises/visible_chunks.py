"""Lesson 05, ★★: chunked attention over the visible keys, three faults that random inputs do not show, repaired."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE, FAR

import numpy as np

Array = np.ndarray


def visible_chunks(query: Array, key: Array, value: Array, visible: Array, Ck: int) -> Array:
    """Attention of query (N, D) over the keys (M, D) that are visible (M,), at least one; value (M, Dv) → (N, Dv)."""
    summaries = []
    for c in range(0, len(key), Ck):
        s = query @ key[c : c + Ck].T / np.sqrt(query.shape[1])
        s = np.where(visible[c : c + Ck], s, -np.inf)
        m = s.max(1)
        p = np.exp(s - np.where(m == -np.inf, 0, m)[:, None])
        summaries.append((m, p.sum(1), p @ value[c : c + Ck]))
    m = np.max([m_c for m_c, _, _ in summaries], axis=0)
    l = sum(np.exp(m_c - m) * l_c for m_c, l_c, _ in summaries)
    o = sum(np.exp(m_c - m)[:, None] * o_c for m_c, _, o_c in summaries)
    return o / l[:, None]


def call(
    n: int, m: int, ck: int, hidden: list[int], eye: bool = False, low: float = 0, far: float = 0, high: float = 0
) -> tuple:
    """Random arrays; ``low`` is taken from all scores, ``far`` from those of query 1; ``eye``: values the identity.

    Where ``low`` is 1, the scores of hidden keys lie near ``high``, if that is given.
    """
    rng = np.random.default_rng(100 * m + ck)
    q, k, v = rng.normal(size=(n, 4)), rng.normal(size=(m, 4)), np.eye(m) if eye else rng.normal(size=(m, 3))
    q[:, 0], k[:, 0] = -2 * low, 1  # the scale is 1/2
    q[1:2, 0] -= 2 * far
    visible = np.ones(m, bool)
    visible[hidden] = False
    k[hidden, 0] = -high if high else 1
    return q, k, v, visible, ck


def cases() -> list[Case]:
    """Whole chunks first, which the broken program gets right; then each of its faults, and two together."""
    q, k, v, visible, ck = call(3, 64, 16, [5, 20, 40])
    return [
        Case("ONE: one query, one visible key", call(1, 1, 1, [], eye=True)),
        Case("EYE: four keys in chunks of two, key 1 hidden, values the identity", call(2, 4, 2, [1], eye=True)),
        Case("RAGGED: three keys in chunks of two", call(1, 3, 2, [], eye=True)),
        Case("EMPTY: four keys in chunks of two, the first two hidden", call(1, 4, 2, [0, 1], eye=True)),
        Case("EMPTY: four keys in chunks of two, the last two hidden", call(1, 4, 2, [2, 3], eye=True)),
        Case("RAGGED: eight keys in chunks of three, keys 0 and 7 hidden", call(1, 8, 3, [0, 7], eye=True)),
        Case("ROWS: the scores of query 1 lie 1000 below those of query 0", call(2, 4, 2, [], eye=True, far=1000)),
        Case("LOW: all scores near −100000, the first chunk hidden", call(2, 4, 2, [0, 1], eye=True, low=FAR)),
        Case("LOW: all scores near −100000, key 1 hidden", call(4, 4, 2, [1], eye=True, low=FAR)),
        Case("LOW: all scores −1e300, and key 1 alone is visible", call(1, 4, 2, [0, 2, 3], eye=True, low=-ALONE)),
        Case("HIGH: the scores of key 1, which is hidden, lie near 100000", call(2, 4, 2, [1], True, 1, high=FAR)),
        Case("8 keys in chunks of 4: of the second one only the middle is visible", call(1, 8, 4, [4, 7], eye=True)),
        Case("64 keys in chunks of 16, three hidden, D = 3", (*(x[:, :3] for x in (q, k, v)), visible, ck)),
        Case("50 keys in chunks of 16, the second chunk hidden", call(3, 50, 16, [*range(16, 32)], far=1000)),
    ]


ROUNDED = "range(0, len(key), Ck)", "range(0, len(key) // Ck * Ck, Ck)"
UNGUARDED = "np.where(m == -np.inf, 0, m)", "m"
COMMON = "axis=0", "axis=None"
TRY = "10 keys in chunks of 4, a chunk whose keys are all hidden, and two queries whose scores are 1000 apart"

EXERCISE = Exercise(
    lesson="05", stars=2, reference=visible_chunks, cases=cases, where="eqs. 5.1 to 5.4",
    hints=(
        "Compare `broken` with attnlab.naive_attention(query, key, value, mask=visible). Change one thing at a time: "
        "the number of keys, the keys that are hidden, the size of the scores.",
        "Three inputs each show a fault: 10 keys in chunks of 4; a chunk in which every key is hidden; two queries "
        "whose scores are 1000 apart.",
        "The three lines: the range of the chunks (eq. 5.1), the exponential of a chunk whose maximum is −∞, and the "
        "common maximum, which is one number per query (eq. 5.3).",
    ),
    without={UNGUARDED[0]: phrases.nothing_yet("lesson 02, section 6")},
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 5.1 and 5.3", inputs=TRY), but(*ROUNDED, *UNGUARDED, *COMMON)),
        Mistake(phrases.one_fixed("eqs. 5.1 and 5.3", inputs=TRY),
                but(*ROUNDED, *UNGUARDED), but(*ROUNDED, *COMMON), but(*UNGUARDED, *COMMON)),
        Mistake(phrases.last_one("eq. 5.1", what="The keys", block="chunk"), but(*ROUNDED)),
        Mistake(phrases.one_maximum("eq. 5.3"), but(*COMMON)),
        Mistake(phrases.nan_too_late("lesson 02, section 6", what="the maximum"),
                but(*UNGUARDED, "o / l[:, None]", "np.nan_to_num(o / l[:, None])")),
    ),
)
