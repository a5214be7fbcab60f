"""Lesson 03, ★★: the operator ⊕ on pairs (m, l), for arrays."""

from typing import Any

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Edit, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE

import numpy as np

Pair = tuple[Any, Any]


def oplus_arrays(a: Pair, b: Pair) -> Pair:
    """a ⊕ b for a = (m, l) and b = (m, l), arrays of broadcastable shapes; returns (m, l) of the union."""
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    shift = np.where(m == -np.inf, 0, m)
    l = l_a * np.exp(m_a - shift) + l_b * np.exp(m_b - shift)  # eq. 3.3
    return m, l


def pairs(m_a: list[float], l_a: list[float], m_b: list[float], l_b: list[float]) -> tuple[Pair, Pair]:
    """Two pairs of arrays."""
    return (np.array(m_a, float), np.array(l_a, float)), (np.array(m_b, float), np.array(l_b, float))


def cases() -> list[Case]:
    """Either side larger, far from 0, empty; then arrays of such pairs."""
    rng, inf = np.random.default_rng(33), np.inf
    small = {
        "UP: (0, 1) ⊕ (2, 1)": ([0], [1], [2], [1]),
        "DOWN: (2, 1) ⊕ (0, 1)": ([2], [1], [0], [1]),
        "CONST: (1, 2) ⊕ (1, 3); the maximum stays": ([1], [2], [1], [3]),
        "HIGH: (1000, 1) ⊕ (1001, 2)": ([1000], [1], [1001], [2]),
        "LOW: (−100000, 1) ⊕ (−100002, 3)": ([-100000], [1], [-100002], [3]),
        "LOW: (−1e300, 1) ⊕ (−∞, 0)": ([ALONE], [1], [-inf], [0]),
        "EMPTY: (3, 2) ⊕ (−∞, 0); nothing is the identity": ([3], [2], [-inf], [0]),
        "EMPTY: (−∞, 0) ⊕ (3, 2)": ([-inf], [0], [3], [2]),
        "EMPTY: (−∞, 0) ⊕ (−∞, 0); nothing and nothing is nothing": ([-inf], [0], [-inf], [0]),
        "UP, DOWN: two entries, (0, 100000) ⊕ (20, 1) and (20, 1) ⊕ (0, 100000)":
            ([0, 20], [1e5, 1], [20, 0], [1, 1e5]),
        "two entries, near 0 and near 1000": ([0, 1000], [1, 1], [1, 1001], [1, 1]),
        "(0, 1) ⊕ (−30, 10¹²): the second is 0.094": ([0], [1], [-30], [1e12]),
        "five entries; entry 2 is empty on both sides, entries 0 and 1 on one":
            ([-inf, 1, -inf, 2, 3], [0, 2, 0, 1, 4], [1, -inf, -inf, 3, 2], [3, 0, 0, 1, 2]),
    }
    whole = (np.array([0.0]), np.array([1])), (np.array([2.0]), np.array([1]))
    nothing = np.full(4, -inf), np.zeros(4)
    column, row = ((rng.normal(0, 3, shape), rng.uniform(1, 5, shape)) for shape in ((3, 1), (4,)))
    return [
        *(Case(label, pairs(*numbers)) for label, numbers in small.items()),
        Case("UP: single elements, l of whole numbers, (0, 1) ⊕ (2, 1)", whole),
        Case("EMPTY: shapes (3, 1) and (4,), the second empty; they broadcast to (3, 4)", (column, nothing)),
        Case("EMPTY: shapes (4,) and (3, 1), the first empty; they broadcast to (3, 4)", (nothing, column)),
        Case("shapes (3, 1) and (4,): they broadcast to (3, 4)", (column, row)),
    ]


UNGUARDED = ("np.where(m == -np.inf, 0, m)", "m")
SUM, BARE = "l_a * np.exp(m_a - shift) + l_b * np.exp(m_b - shift)", "(l_a * np.exp(m_a) + l_b * np.exp(m_b))"


def both(*edits: str) -> tuple[Edit, Edit]:
    """An edit made with care for two empty parts, and without."""
    return but(*edits), but(*edits, *UNGUARDED)


EXERCISE = Exercise(
    lesson="03", stars=2, reference=oplus_arrays, cases=cases, where="eq. 3.3",
    hints=(
        "Two lines: the common maximum, and both sums brought to it (eq. 3.3). np.maximum compares elementwise.",
        "Each side has its own factor, e^(own maximum − common maximum); on the side with the larger, it's 1.",
        "If both sides are empty, the exponent would be −∞ − (−∞), and an `if` can't decide that for each entry: shift "
        "= np.where(m == -np.inf, 0, m), and subtract shift instead of m. Return m, not shift.",
    ),
    mistakes=(
        Mistake(phrases.different_maxima("eq. 3.3"),
                but(SUM, "l_a + l_b"), *both(" * np.exp(m_a - shift)", ""), *both(" * np.exp(m_b - shift)", "")),
        Mistake("You undo the shift: e^m alone overflows beyond m = 709 (88 in float32) and vanishes far below 0. "
                "Exponentiate only differences from the larger maximum (eq. 3.3).",
                *both(SUM, f"{BARE} * np.exp(-shift)"), *both(SUM, f"{BARE} / np.exp(shift)"),
                *both(SUM, f"np.exp(np.log{BARE} - shift)")),
        Mistake(phrases.nothing_yet("eq. 3.5"),
                but(*UNGUARDED), but(UNGUARDED[0], "np.where((m == -np.inf).all(), 0, m)")),
        Mistake(phrases.guard_written("section 6", m="m"), but("return m,", "return shift,")),
        Mistake("Your pair holds m + log l. That means the same sum (eq. 3.4), but we ask for m and l themselves: m is "
                "the maximum, and l the sum relative to it.",
                but("return m, l", "return m, m + np.log(l)"),
                *(but("return m, l", f"return m + np.log(l), {one}")
                  for one in ("np.ones_like(l)", "np.where(l == 0, 0.0, 1.0)"))),
    ),
)
