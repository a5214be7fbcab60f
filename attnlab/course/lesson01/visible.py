"""Lesson 01, ★: who sees whom."""

from itertools import product

from attnlab.check.exercise import Case, Exercise, Mistake, but

import numpy as np


def visible(n: int, m: int, causal: bool, window: tuple[int, int] | None) -> np.ndarray:
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
    empty = not visible(n, m, causal, window).any(1).all()
    code = "EMPTY: some query sees no key; " if empty else "RECT: " if n != m else ""
    return Case(f"{code}n = {n}, m = {m}, causal = {causal}, window = {window}", (n, m, causal, window))


EXERCISE = Exercise(
    lesson="01", stars=1, reference=visible, cases=cases,
    hints=(
        "np.arange(n)[:, None] is a column of query positions, np.arange(m) a row of key positions: compare them.",
        "The last query lines up with the last key: query i is at position i + (m − n).",
        "Each rule is one comparison; combine them with &.",
    ),
    mistakes=(
        Mistake("You align queries to the start: yours are at positions 0, 1, 2, … The queries are the last n of m "
                "positions, so query i is at i + (m − n), for causality and for the window (eq. 1.10).",
                but(" + m - n", ""), but("&= j <= i", "&= j <= i - m + n"),
                but("left, right = window", "(left, right), i = window, i - m + n")),
        Mistake("You shift the queries the wrong way, by n − m. The last query, i = n − 1, must stand at the last key, "
                "j = m − 1: its position is i + (m − n) (eq. 1.10).",
                but("+ m - n", "+ n - m"), but("&= j <= i", "&= j <= i + 2 * (n - m)"),
                but("left, right = window", "(left, right), i = window, i + 2 * (n - m)")),
        Mistake("Your matrix is the opposite: it says True where a key is hidden. True means attend (eq. 1.9).",
                but("return seen", "return ~seen")),
        Mistake("Your causal rule looks into the future: it shows the keys from the query's own position on. A query "
                "may see key j if j ≤ i + (m − n) (eq. 1.10).",
                but("&= j <= i", "&= j >= i")),
        Mistake("Your causal rule hides the query's own position. The comparison in eq. 1.10 is ≤: it sees itself.",
                but("&= j <= i", "&= j < i")),
        Mistake("An end of your window is missing. Both belong to it: a window (a, b) reaches from a positions before "
                "the query's own, i + (m − n) as in eq. 1.10, to b after it, a + b + 1 keys in all.",
                but("j >= i - left", "j > i - left", "j <= i + right", "j < i + right"),
                but("j <= i + right", "j < i + right"), but("j >= i - left", "j > i - left")),
        Mistake("You take the window (a, b) the wrong way round: a counts positions before the query's own, b those "
                "after it. The query's own is i + (m − n), as in eq. 1.8.",
                but("left, right = window", "right, left = window")),
        Mistake("Where there is a window you forget causality (eq. 1.10). Both rules hold together: combine them with "
                "&.",
                but("seen &= (j", "seen = (j")),
        Mistake("You show a key if one of the rules allows it. Rules hold together: a key must pass eq. 1.10 and the "
                "window (&, not |).",
                but("seen &= (j", "seen = seen & causal | (j")),
        Mistake("You take a 0 in the window for no limit. A window (0, 3) reaches no key before the query's own "
                "position, i + (m − n) as in eq. 1.10, and (0, 0) that position alone; only None says that there is no "
                "window.",
                but("- left", "- (left or 99)", "+ right", "+ (right or 99)"),
                but("if window is not None", "if window is not None and any(window)")),
    ),
)
