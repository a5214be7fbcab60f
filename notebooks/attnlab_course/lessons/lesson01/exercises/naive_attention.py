"""Lesson 01, ★★★: naive attention with grouped heads, holding no more than it must."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.promises import peak

import numpy as np


def naive_attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, causal: bool) -> np.ndarray:
    """Attention of query (Hq, N, D) over key (Hk, M, D) and value (Hk, M, Dv); Hk divides Hq."""
    (hq, n, d), (hk, m, dv) = query.shape, value.shape
    q = query.reshape(hk, hq // hk, n, d)  # eq. 1.8
    s = q @ key[:, None].swapaxes(-1, -2) / np.sqrt(d)
    visible = np.arange(m) <= np.arange(n)[:, None] + m - n if causal else True  # eq. 1.10
    p = np.exp(np.where(visible, s, -np.inf))
    p /= p.sum(-1, keepdims=True)
    return (p @ value[:, None]).reshape(hq, n, dv)


def arrays(hq: int, hk: int, n: int, m: int, d: int, dv: int) -> tuple[np.ndarray, ...]:
    """Random query, key and value."""
    rng = np.random.default_rng(hq + 10 * n + 100 * m)
    return tuple(rng.normal(size=shape) for shape in ((hq, n, d), (hk, m, d), (hk, m, dv)))


def cases() -> list[Case]:
    """One head, several, grouped; square and not; fingerprints among them."""
    far = 2**0.5 * np.array([[[-400.0, 800.0], [400.0, 0.0]]]), np.eye(2)[None], np.eye(2)[None]
    return [
        Case("EYE: one head, two keys, values the identity", (*arrays(1, 1, 1, 2, 1, 2)[:2], np.eye(2)[None], False)),
        Case("one head, N = 2, M = 3", (*arrays(1, 1, 2, 3, 4, 2), False)),
        Case("causal, N = M = 3", (*arrays(1, 1, 3, 3, 4, 2), True)),
        Case("GQA: query heads 0, 1 read key head 0, heads 2, 3 key head 1", (*arrays(4, 2, 3, 3, 4, 2), False)),
        Case("RECT: causal, N = 3, M = 5: the queries are the last three positions", (*arrays(1, 1, 3, 5, 4, 2), True)),
        Case("causal, GQA, N = 6, M = 9, values of another size", (*arrays(6, 3, 6, 9, 8, 5), True)),
        Case("ROWS: causal, two queries with scores −400 and 400; the hidden score is 800", (*far, True)),
    ]


def square(n: int, causal: bool = False) -> tuple:
    """Arguments with as many queries as keys, one key head for each query head."""
    return *arrays(4, 4, n, n, 16, 16), causal


def cached(m: int) -> tuple:
    """Arguments as in decoding: few queries in many heads, two long key heads."""
    return *arrays(8, 2, 4, m, 64, 64), False


HOLDS = (
    "it holds {found:.1f} numbers a score at %s; the limit is {limit}. Are keys and values repeated for the query "
    "heads, or intermediate matrices kept?"
)

EXERCISE = Exercise(
    lesson="01", stars=3, reference=naive_attention, cases=cases,
    costs=(
        Cost(peak(square, 192, 4 * 192 * 192), 3.3, HOLDS % "4 heads, N = M = 192"),
        Cost(peak(lambda n: square(n, causal=True), 192, 4 * 192 * 192), 3.3, HOLDS % "4 heads, causal, N = M = 192"),
        Cost(peak(cached, 2048, 8 * 4 * 2048), 7.1, HOLDS % "8 query heads, 2 key heads, N = 4, M = 2048"),
    ),
    hints=(
        "Give the query a group axis: (Hk, Hq // Hk, N, D). Splitting an axis copies nothing.",
        "key[:, None] has shape (Hk, 1, M, D): @ broadcasts the axis of size 1 over the group.",
        "Hide before normalizing: np.where(visible, scores, -np.inf). At the end, flatten the two head axes again: "
        "reshape(Hq, N, Dv).",
    ),
    without={
        "np.sqrt(d)": phrases.other_scale("eq. 1.5, and eq. 1.4 for why"),
        "p /= p.sum(-1, keepdims=True)": phrases.undivided("eq. 1.5"),
        "np.arange(m) <= np.arange(n)[:, None] + m - n": phrases.sees_future("eq. 1.10"),
    },
    mistakes=(
        Mistake("You hide after normalizing, so what's left of a row adds up to less than 1. Hide before you take the "
                "sum (eq. 1.9).",
                but("np.where(visible, s, -np.inf)", "s", "p @ value", "p * visible @ value")),
        Mistake(phrases.hidden_zero("eq. 1.9", what="Hidden keys"), but("-np.inf", "0")),
        Mistake(phrases.top_left("eq. 1.10", rule="j ≤ i + (M − N), as in np.tri(N, M, M − N)"), but(" + m - n", "")),
        Mistake(phrases.shared_modulo("eq. 1.8"),
                but("hk, hq // hk, n, d", "hq // hk, hk, n, d", "key[:, None]", "key", "value[:, None]", "value")),
        Mistake("You repeat keys and values for every query head, which undoes all that grouping has saved. Compute "
                "with the shared ones in place (eq. 1.8).",
                but("q = query.reshape(hk, hq // hk, n, d)",
                    "q, key, value = query[:, None], np.repeat(key, hq // hk, 0), np.repeat(value, hq // hk, 0)"),
                but("key[:, None]", "np.repeat(key[:, None], hq // hk, 1)",
                    "value[:, None]", "np.repeat(value[:, None], hq // hk, 1)")),
    ),
)
