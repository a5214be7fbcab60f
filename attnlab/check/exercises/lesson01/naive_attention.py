"""Lesson 01, ★★★: naive attention with grouped heads, holding no more than it must."""

from collections.abc import Callable

import numpy as np

from attnlab.check.engine import Case, Exercise
from attnlab.measure import extra_bytes
from attnlab.naive.numpy import naive_attention as package


def naive_attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, causal: bool) -> np.ndarray:
    """Attention of query (Hq, N, D) over key (Hk, M, D) and value (Hk, M, Dv); Hk divides Hq."""
    return package(query, key, value, causal=causal)


def arrays(hq: int, hk: int, n: int, m: int, d: int, dv: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(hq + 10 * n + 100 * m)
    return tuple(rng.normal(size=shape) for shape in ((hq, n, d), (hk, m, d), (hk, m, dv)))


def cases() -> list[Case]:
    q, k, _ = arrays(4, 2, 3, 5, 8, 8)
    return [
        Case("one head, two keys, values the identity", (*arrays(1, 1, 1, 2, 1, 2)[:2], np.eye(2)[None], False)),
        Case("one head, N = 2, M = 3", (*arrays(1, 1, 2, 3, 4, 2), False)),
        Case("causal, N = M = 3", (*arrays(1, 1, 3, 3, 4, 2), True)),
        Case("two heads with a key head each", (*arrays(2, 2, 3, 3, 4, 2), False)),
        Case("GQA: query heads 0, 1 read key head 0, heads 2, 3 key head 1", (*arrays(4, 2, 3, 3, 4, 2), False)),
        Case("causal, N = 3, M = 5: the queries are the last three positions", (*arrays(1, 1, 3, 5, 4, 2), True)),
        Case("ONES: N = 3, M = 5, every value is 1", (q, k, np.ones((2, 5, 1)), True)),
        Case("causal, GQA, N = 6, M = 9, values of another size", (*arrays(6, 3, 6, 9, 8, 5), True)),
    ]


def cost(answer: Callable) -> str | None:
    for sizes in ((4, 4, 192, 192, 16, 16), (8, 1, 4, 2048, 64, 64)):
        (hq, _, n, m, *_), (query, key, value) = sizes, arrays(*sizes)
        held = extra_bytes(lambda *a: answer(*a, False), query, key, value) / 8
        if held > 3.1 * hq * n * m + key.size + value.size:
            return (
                f"it holds too much: {held / (hq * n * m):.1f} numbers a score at {hq} heads, N = {n}, M = {m}; "
                "the limit is 3.1. Are key and value repeated for the query heads, or intermediate matrices kept?"
            )
    return None


EXERCISE = Exercise(
    "naive_attention", "01", 3, naive_attention, cases,
    hints=(
        "Give the query a group axis: (Hk, Hq // Hk, N, D). Splitting an axis copies nothing.",
        "key[:, None] has shape (Hk, 1, M, D): @ broadcasts the axis of size 1 over the group.",
        "Hide before normalizing: np.where(visible, scores, -np.inf).",
        "Flatten the two head axes again at the end: reshape(Hq, N, Dv).",
    ),
    cost=cost,
)
