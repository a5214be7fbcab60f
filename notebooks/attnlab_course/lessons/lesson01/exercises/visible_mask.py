"""Lesson 01, ★: who sees whom."""

from itertools import product

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np


def visible_mask(n: int, m: int, causal: bool, window: tuple[int, int] | None) -> np.ndarray:
    """Boolean (n, m): True where query i sees key j; query i stands at key position i + m − n."""
    i, j = np.arange(n)[:, None] + m - n, np.arange(m)
    seen = np.ones((n, m), dtype=bool)
    if causal:
        seen &= j <= i
    if window is not None:
        left, right = window
        seen &= (j >= i - left) & (j <= i + right)
    return seen


def cases() -> list[Case]:
    """Every rule on every size, small ones first."""
    sizes = [(1, 1), (2, 2), (1, 5), (3, 5), (5, 2), (4, 4), (0, 3), (6, 9)]
    windows = [(False, (1, 1)), (True, (2, 0)), (False, (0, 3)), (False, (0, 0)), (True, (1, 4))]
    rules = [(False, None), (True, None), *windows]
    return [case(*size, *rule) for size, rule in product(sizes, rules)] + [case(3, 300, True, (140, 0))]


def case(n: int, m: int, causal: bool, window: tuple[int, int] | None) -> Case:
    """One input, named after its fingerprint."""
    empty = not visible_mask(n, m, causal, window).any(1).all()
    code = "EMPTY: some query sees no key; " if empty else "RECT: " if n != m else ""
    return Case(f"{code}n = {n}, m = {m}, causal = {causal}, window = {window}", (n, m, causal, window))


EXERCISE = Exercise(
    lesson="01", stars=1, reference=visible_mask, cases=cases, where="eq. 1.10",
    hints=(
        "np.arange(n)[:, None] is a column of query positions, np.arange(m) a row of key positions: compare them.",
        "The last query lines up with the last key: query i is at position i + (m − n).",
        "Each rule is one comparison; combine them with &.",
    ),
    mistakes=(
        Mistake("You align the first query with the first key, or shift the queries the wrong way. The last query "
                "lines up with the last key: query i is at i + (m − n), for causality and for the window (eq. 1.10).",
                but(" + m - n", ""), but("&= j <= i", "&= j <= i - m + n"), but("+ m - n", "+ n - m"),
                but("left, right = window", "(left, right), i = window, i - m + n")),
        Mistake("Your mask is inverted: True means attend (eq. 1.9).", but("return seen", "return ~seen")),
        Mistake("You don't combine the two rules. Both apply: a key has to pass eq. 1.10 and the window (&, not |).",
                but("seen &= (j", "seen = (j"), but("seen &= (j", "seen = seen & causal | (j")),
        Mistake("You read the window backward. Its first number counts the keys before the query, its second those "
                "after it (section 8).", but("left, right = window", "right, left = window")),
        Mistake("You treat a 0 in the window as no limit. It hides all keys beyond the query's own position; only "
                "None hides nothing: test for `is None` (eq. 1.10).",
                but("- left", "- (left or 99)", "+ right", "+ (right or 99)"),
                but("if window is not None", "if window is not None and any(window)")),
    ),
)
