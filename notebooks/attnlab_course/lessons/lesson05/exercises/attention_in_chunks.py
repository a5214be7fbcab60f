"""Lesson 05, ★★: attention in chunks of queries and of keys, with ragged ends, in little memory."""

from functools import partial

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, last_key
from attnlab_course.checker.inputs import qkv
from attnlab_course.checker.operations import exponentials_at_once
from attnlab_course.checker.promises import peak

import numpy as np

Array = np.ndarray


def attention_in_chunks(query: Array, key: Array, value: Array, Cq: int, Ck: int) -> Array:
    """Attention of query (N, D), key (M, D), value (M, Dv) in chunks of Cq queries and Ck keys."""
    out = np.empty((len(query), value.shape[1]))
    for a in range(0, len(query), Cq):
        q, chunks = query[a : a + Cq] / np.sqrt(query.shape[1]), []
        for c in range(0, len(key), Ck):
            s = q @ key[c : c + Ck].T
            m = s.max(1)
            s -= m[:, None]
            np.exp(s, out=s)  # in place: one array of scores
            chunks.append((m, s.sum(1), s @ value[c : c + Ck]))
        top = np.max([m for m, _, _ in chunks], axis=0)
        o = sum(np.exp(m - top)[:, None] * o for m, _, o in chunks)  # eq. 5.4
        l = sum(np.exp(m - top) * l for m, l, _ in chunks)
        out[a : a + Cq] = o / l[:, None]
    return out


def cases() -> list[Case]:
    """One chunk, whole chunks, ragged chunks; the same data where only the chunks differ."""
    rng = np.random.default_rng(52)
    q, k, v = (2 * rng.normal(size=shape) for shape in ((5, 4), (10, 4), (10, 3)))
    one = np.ones((1, 1))
    return [
        Case("ONE: one query, one key: the output is its value", (one, one, 3 * one, 1, 1)),
        Case("two chunks of one key each, scores 0 and 2", (one, one * [[0], [2]], one * [[0], [1]], 1, 1)),
        Case("EYE: values are the identity, so the result is P; two chunks of two", (q[:2], k[:4], np.eye(4), 2, 2)),
        Case("RAGGED keys: 3 in chunks of 2, values the identity", (q[:1], k[:3], np.eye(3), 1, 2)),
        Case("RAGGED queries: 3 in chunks of 2", (q[:3], k[:4], v[:4], 2, 2)),
        Case("RAGGED: 10 keys in chunks of 4, 5 queries in chunks of 2", (q, k, v, 2, 4)),
        Case("BLOCK: the same in chunks of 3 queries and 7 keys", (q, k, v, 3, 7)),
        Case("chunks longer than the sequences: 10 keys, Ck = 16; 5 queries, Cq = 8", (q, k, v, 8, 16)),
        Case("a score of 0, then 400 of −7.5: together they weigh 0.22",
             (one, np.array([[0.0], *[[-7.5]] * 400]), np.array([[1.0], *[[0.0]] * 400]), 1, 40)),
        *far_queries(lambda q, k: (q, k, v, 2, 4), q, k, "; chunks of 2 queries and 4 keys"),
        last_key(lambda q, k: (q, k, v, 2, 4), q, k, "; the same chunks"),
    ]


N, M, D, CQ, CK = 256, 4096, 32, 32, 128
BEST = 373  # √(M (D + 2))


def many(n: int, ck: int = CK) -> tuple:
    """Arguments of a call with n queries."""
    return *qkv(n, M, D, D), CQ, ck


def held(n: int, ck: int = CK) -> Function:
    """What a call with n queries holds, as a multiple of eq. 5.7 for one chunk of queries."""
    return peak(partial(many, ck=ck), n, CQ * (ck + -(-M // ck) * (D + 2)))


KEYS = "range(0, len(key), Ck)"

EXERCISE = Exercise(
    lesson="05", stars=2, reference=attention_in_chunks, cases=cases, where="eq. 5.4",
    costs=(
        Cost(held(CQ), 1.7,
             "With a single chunk of 32 queries and 32 chunks of 128 keys, Dv = 32, it held {found:.1f} times what eq. "
             "5.7 gives; the limit is {limit} times. Most of it is summaries: don't copy them (np.stack does)."),
        Cost(held(CQ, BEST), 2.1,
             "With a single chunk of 32 queries and chunks of 373 keys, the best size by eq. 5.8, it held {found:.1f} "
             "times what eq. 5.7 gives; the limit is {limit} times. More than three arrays as large as a tile are "
             "alive: a loop keeps those of the last round until it overwrites them."),
        Cost(held(N), 2.5,
             "With 8 chunks of 32 queries and 32 chunks of 128 keys, Dv = 32, it held {found:.1f} times what eq. 5.7 "
             "gives for one chunk of queries; the limit is {limit} times. Drop the summaries of one chunk of queries "
             "before you make those of the next."),
        Cost(exponentials_at_once(lambda: (*qkv(2, 1024, D, D), 1, 64), 64), 1.5,
             "With chunks of one query and of 64 keys it computed {found:.1f} × 64 exponentials at once: does it read "
             "Cq queries and Ck keys at a time?"),
    ),
    hints=(
        "Two loops. Outer: a slice of Cq queries. Inner: a list with the summary of each slice of Ck keys. range(0, M, "
        "Ck) gives the starts, and slices end by themselves: key[c : c + Ck] is shorter at the end.",
        "The common maximum is np.max([m for …], axis=0). Multiply each o and l by e^(m_c − m) (eq. 5.4).",
        "Add o_c to a running sum in a loop: np.stack(list_of_o) is a copy of all summaries, on top of the list.",
    ),
    mistakes=(
        Mistake(phrases.last_one("eq. 5.1", what="The keys", block="chunk"),
                but(KEYS, "range(0, len(key) // Ck * Ck, Ck)"), but(KEYS, "range(0, max(len(key) // Ck, 1) * Ck, Ck)")),
        Mistake(phrases.different_maxima("eq. 5.4"),
                but("np.exp(m - top) * l", "l"), but("np.exp(m - top)[:, None] * o", "o"),
                but("np.exp(m - top) * l", "l", "np.exp(m - top)[:, None] * o", "o")),
        Mistake(phrases.averages("eq. 5.5"),
                but("o / l[:, None]", "np.mean([o / l[:, None] for _, l, o in chunks], axis=0)")),
        Mistake("You chunk only one of the two. Without chunks of keys, Cq rows of all M scores are alive; without "
                "chunks of queries, the summaries of all N. Two loops, and each result is written to its place before "
                "the next chunk of queries begins (eq. 5.7).",
                but("out = np", "Ck = len(key); out = np"), but("out = np", "Cq = len(query); out = np")),
    ),
)
