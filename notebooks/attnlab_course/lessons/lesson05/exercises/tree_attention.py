"""Lesson 05, ★★★: summaries combined as a binary counter carries."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, last_key
from attnlab_course.checker.inputs import qkv
from attnlab_course.checker.operations import exponentials_at_once
from attnlab_course.checker.promises import growth, inverse, lost_in_rounding, peak

import numpy as np

Array = np.ndarray
Triple = tuple[Array, Array, Array]


def tree_attention(query: Array, key: Array, value: Array, Ck: int) -> Array:
    """Attention of query (N, D), key (M, D), value (M, Dv): chunks of Ck keys, combined in a tree that carries."""

    def oplus(a: Triple, b: Triple) -> Triple:
        (m_a, l_a, o_a), (m_b, l_b, o_b) = a, b
        m = np.maximum(m_a, m_b)
        alpha, beta = np.exp(m_a - m), np.exp(m_b - m)
        return m, alpha * l_a + beta * l_b, alpha[:, None] * o_a + beta[:, None] * o_b  # eq. 5.4

    live = []  # pairs (number of chunks, summary): the ones of a binary counter
    for c in range(0, len(key), Ck):
        s = query @ key[c : c + Ck].T / np.sqrt(query.shape[1])
        m = s.max(1)
        p = np.exp(s - m[:, None])
        size, new = 1, (m, p.sum(1), p @ value[c : c + Ck])
        while live and live[-1][0] == size:
            size, new = 2 * size, oplus(live.pop()[1], new)
        live.append((size, new))
    total = live.pop()[1]
    while live:
        total = oplus(live.pop()[1], total)
    _, l, o = total
    return o / l[:, None]


def cases() -> list[Case]:
    """One leaf, two, three, and more; ragged ends."""
    rng = np.random.default_rng(53)
    q, k, v = (2 * rng.normal(size=shape) for shape in ((3, 4), (14, 4), (14, 3)))
    return [
        Case("ONE: one chunk", (q[:1], k[:2], v[:2], 2)),
        Case("ONES: four chunks of one key, every value is 1", (q, k[:4], np.ones((4, 1)), 1)),
        Case("EYE: three chunks of one key: the third waits alone", (q[:1], k[:3], np.eye(3), 1)),
        Case("five chunks of one key: the fifth waits alone", (q[:2], k[:5], np.eye(5), 1)),
        Case("seven chunks of one key: three are alive at the end", (q[:2], k[:7], np.eye(7), 1)),
        Case("RAGGED: 14 keys in chunks of 4, the last has two", (q, k, v, 4)),
        Case("BLOCK: the same values in chunks of 3, D = 3", (q[:, :3], k[:, :3], v, 3)),
        Case("HIGH, LOW: scores of thousands, of either sign", (40 * q, 40 * k, v, 3)),
        *far_queries(lambda q, k: (q, k, v, 3), q, k, "; the same chunks"),
        last_key(lambda q, k: (q, k, v, 3), q, k, "; the same chunks"),
    ]


N, DV, CHUNKS = 8, 1024, 64
EVEN = "live = [(0, oplus(a, b)) for (_, a), (_, b) in zip(live[::2], live[1::2])]"
LEAVES_FIRST = (
    "while live and live[-1][0] == size:", "while False:",
    "total = live.pop()[1]\n    while live:", f"while len(live) > 1: {EVEN} + live[len(live) // 2 * 2 :]\n"
    "    total = live.pop()[1]\n    while live:",
)

EXERCISE = Exercise(
    lesson="05", stars=3, reference=tree_attention, cases=cases, where="eq. 5.10",
    costs=(
        Cost(peak(lambda chunks: (*qkv(N, 2 * chunks, 2, DV), 2), CHUNKS, N * (DV + 2)), 16,
             "with 64 chunks it held {found:.0f} times the size of a summary; log₂ 64 + 1 = 7 and some room to combine "
             "two make {limit}. Do two of equal size ever wait?"),
        Cost(peak(lambda ck: (*qkv(N, 32 * ck, 2, 2), ck), 256, N * 256), 8,
             "with 32 chunks of 256 keys and values of size 2 it held {found:.1f} times the scores of a chunk; {limit} "
             "is enough for one chunk at a time and some summaries."),
        Cost(inverse(growth(lambda ck: (*qkv(N, 2048, 2, 2), ck), 64, 1024)), 0.5,
             "with chunks of 64 keys it held {found:.2f} times what it held with chunks of 1024: does it read `Ck` "
             "keys at a time?"),
        Cost(exponentials_at_once(lambda: (*qkv(1, 1024, 2, 2), 64), 64), 1.5,
             "for one query and chunks of 64 keys it computed {found:.1f} × 64 exponentials at once: does it read `Ck` "
             "keys at a time?"),
        Cost(lambda *answer: abs(lost_in_rounding(*answer)), 0.04,  # below 0: rounding has made weights up
             "255 weights of 2⁻⁵³ stood beside a weight of 1, and the part {found:.2f} of them was lost in rounding, "
             "or made up by it: they, or sums of a few of them, were added one after another. In a tree small sums "
             "meet first, and the part is below {limit}."),
    ),
    hints=(
        "Write down what's alive after 1, 2, 3, 4 … chunks if you combine two summaries of the same number of chunks "
        "at once: 1; 2; 2 1; 4; 4 1; 4 2; 4 2 1; 8. These are the ones of a binary counter.",
        "Keep a list `live` of pairs (number of chunks, summary). A new chunk counts as 1: while live and live[-1][0] "
        "== size, take the last one off, combine, double the size. Then append.",
        "At the end, combine what's left in `live`, from the smallest to the largest, and divide once.",
    ),
    without={
        "live[-1][0] == size": "This is a fold: one summary is alive, and each step waits for the one before, M/Ck in "
                               "a row. In the tree, log₂(M/Ck) steps wait for one another (eq. 5.10).",
        "while live:": "After the last chunk, several summaries are alive, one for each binary 1 in M/Ck. You use only "
                       "the last of them: combine them all (eq. 5.10).",
    },
    mistakes=(
        Mistake("You make all M/Ck summaries first and combine them afterward, so all leaves are alive at once. "
                "Combine them as they come, as a binary counter carries: then log₂(M/Ck) + 1 are alive (eq. 5.10).",
                but(*LEAVES_FIRST)),
        Mistake("Only the first 1, 2, 4 … chunks reach your result: a summary without a partner gets lost (zip stops "
                "at the shorter list), or you use only the largest of those alive at the end. Combine them all (eq. "
                "5.10).",
                but(*LEAVES_FIRST, " + live[len(live) // 2 * 2 :]", ""),
                but("live.pop()[1]\n    while live:", "live[0][1]\n    while False:")),
        Mistake(phrases.different_maxima("eq. 5.4"),
                but("np.exp(m_a - m), np.exp(m_b - m)", "np.ones_like(m), np.ones_like(m)"),
                but("np.exp(m_b - m)", "np.ones_like(m)"),
                but("alpha[:, None] * o_a + beta[:, None] * o_b", "o_a + o_b")),
        Mistake(phrases.averages("eq. 5.5"),
                but("alpha * l_a + beta * l_b, alpha[:, None] * o_a + beta[:, None] * o_b",
                    "np.ones_like(m), (o_a / l_a[:, None] + o_b / l_b[:, None]) / 2")),
        Mistake(phrases.last_one("eq. 5.1", what="The keys", block="chunk"),
                but("range(0, len(key), Ck)", "range(0, max(len(key) // Ck, 1) * Ck, Ck)")),
    ),
)
