"""Lesson 01, ★: who sees whom."""

from itertools import product

import numpy as np

from attnlab.check.engine import Case, Exercise


def visible(n: int, m: int, causal: bool, window: tuple[int, int] | None) -> np.ndarray:
    """Boolean (n, m): True where query i sees key j; query i stands at key position i + m − n."""
    position, j = np.arange(n)[:, None] + m - n, np.arange(m)
    left, right = window or (m + n, m + n)
    return (j >= position - left) & (j <= position + (0 if causal else right)) & (j <= position + right)


def cases() -> list[Case]:
    sizes = [(1, 1), (2, 2), (1, 5), (3, 5), (5, 2), (4, 4), (0, 3), (6, 9)]
    rules = [(False, None), (True, None), (False, (1, 1)), (True, (2, 0)), (False, (0, 3)), (True, (1, 4))]
    return [
        Case(f"n = {n}, m = {m}, causal = {causal}, window = {window}", (n, m, causal, window))
        for (n, m), (causal, window) in product(sizes, rules)
    ]


EXERCISE = Exercise(
    "visible", "01", 1, visible, cases,
    hints=(
        "np.arange(n)[:, None] is a column of query positions, np.arange(m) a row of key positions: compare them.",
        "The last query stands at the last key: query i is at position i + (m − n).",
        "Each rule is one comparison; combine them with &.",
    ),
)
