"""Lesson 04, ★★★: online attention, a block of keys at a time."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import deepest, far_queries, large_key, last_key
from attnlab_course.checker.inputs import qkv
from attnlab_course.checker.operations import exponentials_at_once
from attnlab_course.checker.promises import growth, inverse

import numpy as np


def blockwise_attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
    """query (N, D), key (M, D), value (M, Dv) → (N, Dv); scale 1/√D. Reads ``block`` keys at a time; O(1) in M."""
    m, l, o = np.full((len(query), 1), -np.inf), 0.0, 0.0
    for start in range(0, len(key), block):
        k, v = key[start : start + block], value[start : start + block]
        s = query @ k.T / query.shape[1] ** 0.5
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        factor, p = np.exp(m - m_new), np.exp(s - m_new)
        m, l, o = m_new, l * factor + p.sum(axis=1, keepdims=True), o * factor + p @ v  # eq. 4.11
    return o / l


def cases() -> list[Case]:
    """The fingerprints of several rows, ragged lengths, other orders and other blocks."""
    one, up, eye = np.ones((1, 1)), np.arange(4.0)[:, None], np.eye(4)
    query, key, value = qkv(4, 8)
    two = "; two queries, two keys a block"
    return [
        Case("ONE: one query, one key", (one, 2 * one, 3 * one, 2)),
        Case("UP: rising scores 0, 1, 2, 3, two keys a block, values the identity", (one, up, eye, 2)),
        Case("DOWN: falling scores 3, 2, 1, 0, two keys a block, values the identity", (one, up[::-1].copy(), eye, 2)),
        Case("HIGH: four scores of 709.5, whose exponentials overflow only when added", (one, 0 * up + 709.5, eye, 2)),
        *far_queries(lambda q, k: (q, k, eye, 2), query[:2], key[:4], two),
        last_key(lambda q, k: (q, k, eye, 2), query[:2], key[:4], two),
        Case(f"HIGH, DOWN: the scores of key 0 alone lie near 100000{two}",
             (*large_key(query[:2], key[:4], 0), eye, 2)),
        Case(f"LOW: scores −10¹² to −4·10¹²{two}", (*deepest(2, 4, 4), eye, 2)),
        Case("RAGGED: N = 4, M = 8, D = 4, in blocks of 3: the last block has 2 keys", (query, key, value, 3)),
        Case("a score of 0, then 399 of −7, 40 keys a block: together they weigh 0.36",
             (one, np.array([[0.0], *[[-7.0]] * 399]), np.array([[1.0], *[[0.0]] * 399]), 40)),
    ]


MAX, SUM = "s.max(axis=1, keepdims=True)", "p.sum(axis=1, keepdims=True)"
BOTH = f"np.maximum(m, {MAX})", MAX

EXERCISE = Exercise(
    lesson="04", stars=3, reference=blockwise_attention, cases=cases, where="eq. 4.11",
    costs=(
        Cost(growth(lambda m: (*qkv(64, m, 16, 16), 24), 2048, 4096), 1.1,
             "Its memory grew {found:.1f}× when there were twice as many keys; it should not grow, neither by scores "
             "nor by a copy of the keys."),
        Cost(inverse(growth(lambda block: (*qkv(64, 2048, 4, 4), block), 16, 1024)), 0.5,
             "With blocks of 16 keys it held {found:.2f} times what it held with blocks of 1024: does it read `block` "
             "keys at a time?"),
        Cost(exponentials_at_once(lambda: (*qkv(1, 256, 4, 4), 16), 16), 1.5,
             "For one query and blocks of 16 keys it computed {found:.1f} × 16 exponentials at once: does it read "
             "`block` keys at a time?"),
    ),
    hints=(
        "The loop of section 5 over range(0, len(key), block). A slice may reach beyond the end of the keys.",
        "Keep m and l as columns (N, 1), with keepdims=True, so that they multiply the rows of o.",
        "m_new = np.maximum(m, s.max(axis=1, keepdims=True)); one factor np.exp(m - m_new) for l and for o; "
        "p = np.exp(s - m_new) is added to l as its row sums and to o as p @ v.",
    ),
    without={"query.shape[1] ** 0.5": phrases.unscaled("lesson 01, eq. 1.1")},
    mistakes=(
        Mistake(phrases.rescales_partly("eq. 4.11", sums="l or o", factor="e^(m − m')"),
                but("o * factor", "o"), but("l * factor", "l"), but("l * factor", "l", "o * factor", "o")),
        Mistake(phrases.different_maxima("eq. 4.11"),
                but("np.exp(s - m_new)", f"np.exp(s - {MAX})"), but(*BOTH, "l * factor", "l", "o * factor", "o")),
        Mistake(phrases.averages("eq. 4.11"),
                but(*BOTH, f"l * factor + {SUM}", "l + 1", "o * factor + p @ v", f"o + p @ v / {SUM}")),
        Mistake(phrases.last_one("eq. 4.1", what="The keys", block="block"),
                but("len(key)", "len(key) // block * block", "0.0, 0.0", "0.0, np.zeros((len(query), value.shape[1]))"),
                but("len(key)", "max(len(key) // block, 1) * block")),
        Mistake("You hold all N × M scores at once. Use those of one block and forget them (eq. 4.11).",
                but("m, l, o = np", "block = len(key); m, l, o = np"),
                but("m, l, o = np", "kept = []; m, l, o = np", "m_new = np", "kept.append(s); m_new = np")),
    ),
)
