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


def cases() -> list[Case]:
    """Either side larger, far from 0, empty; then arrays of such pairs."""
    rng = np.random.default_rng(33)
    inf = np.inf
    small = {
        "UP: (0, 1) ⊕ (2, 1)": ((0.0, 1.0), (2.0, 1.0)),
        "DOWN: (2, 1) ⊕ (0, 1)": ((2.0, 1.0), (0.0, 1.0)),
        "CONST: (1, 2) ⊕ (1, 3); the maximum stays": ((1.0, 2.0), (1.0, 3.0)),
        "HIGH: (1000, 1) ⊕ (1001, 2)": ((1000.0, 1.0), (1001.0, 2.0)),
        "LOW: (−100000, 1) ⊕ (−100002, 3)": ((-100000.0, 1.0), (-100002.0, 3.0)),
        "LOW: (−1e300, 1) ⊕ (−∞, 0)": ((ALONE, 1.0), (-inf, 0.0)),
        "EMPTY: (3, 2) ⊕ (−∞, 0); nothing is the identity": ((3.0, 2.0), (-inf, 0.0)),
        "EMPTY: (−∞, 0) ⊕ (3, 2)": ((-inf, 0.0), (3.0, 2.0)),
        "EMPTY: (−∞, 0) ⊕ (−∞, 0); nothing and nothing is nothing": ((-inf, 0.0), (-inf, 0.0)),
    }
    found = [Case(label, tuple((np.array([m]), np.array([l])) for m, l in pairs)) for label, pairs in small.items()]

    def draw(*shape: int) -> Pair:
        return rng.normal(0, 3, shape), rng.uniform(1, 5, shape)

    m_a, m_b = np.array([-inf, 1, -inf, 2, 3]), np.array([1, -inf, -inf, 3, 2])
    with_gaps = [(m, np.where(m == -inf, 0, draw(5)[1])) for m in (m_a, m_b)]
    column, nothing = draw(3, 1), (np.full(4, -inf), np.zeros(4))
    far = [(np.array(m), np.array(l)) for m, l in (([0.0, 20.0], [1e5, 1.0]), ([20.0, 0.0], [1.0, 1e5]))]
    return [
        *found,
        Case("UP, DOWN: two entries, (0, 100000) ⊕ (20, 1) and (20, 1) ⊕ (0, 100000)", tuple(far)),
        Case("two entries, near 0 and near 1000", tuple(
            (np.array(m), np.ones(2)) for m in ([0.0, 1000.0], [1.0, 1001.0]))),
        Case("(0, 1) ⊕ (−30, 10¹²): the second is 0.094", tuple(
            (np.array([m]), np.array([l])) for m, l in ((0.0, 1.0), (-30.0, 1e12)))),
        Case("UP: single elements, l of whole numbers, (0, 1) ⊕ (2, 1)", tuple(
            (np.array([m]), np.array([1])) for m in (0.0, 2.0))),
        Case("five entries; entry 2 is empty on both sides, entries 0 and 1 on one", tuple(with_gaps)),
        Case("EMPTY: shapes (3, 1) and (4,), the second empty; they broadcast to (3, 4)", (column, nothing)),
        Case("EMPTY: shapes (4,) and (3, 1), the first empty; they broadcast to (3, 4)", (nothing, column)),
        Case("shapes (3, 1) and (4,): they broadcast to (3, 4)", (draw(3, 1), draw(4))),
        Case("random pairs of shape (5,)", (draw(5), draw(5))),
    ]


UNGUARDED = ("np.where(m == -np.inf, 0, m)", "m")
SUM, BARE = "l_a * np.exp(m_a - shift) + l_b * np.exp(m_b - shift)", "(l_a * np.exp(m_a) + l_b * np.exp(m_b))"


def both(*edits: str) -> tuple[Edit, Edit]:
    """An edit made with care for two empty parts, and without."""
    return but(*edits), but(*edits, *UNGUARDED)


EXERCISE = Exercise(
    lesson="03", stars=2, reference=oplus_arrays, cases=cases,
    hints=(
        "Two lines: the common maximum, and both sums brought to it (eq. 3.3). np.maximum compares elementwise.",
        "Each side has its own factor, e^(own maximum − common maximum); on the side with the larger, it's 1.",
        "If both sides are empty, the exponent would be −∞ − (−∞). An `if` can't decide that for each entry.",
        "shift = np.where(m == -np.inf, 0, m), and subtract shift instead of m. Return m, not shift.",
    ),
    mistakes=(
        Mistake(phrases.one_side("eq. 3.3"), *both(" * np.exp(m_a - shift)", ""), *both(" * np.exp(m_b - shift)", "")),
        Mistake(phrases.different_maxima("eq. 3.3"),
                but(SUM, "l_a + l_b"), *both("m_a - shift", "m_a - m_a", "m_b - shift", "m_b - m_b")),
        Mistake(phrases.upside_down("eq. 3.3", factor="e^(its own m − m')"),
                *both("m_a - shift", "shift - m_a", "m_b - shift", "shift - m_b")),
        Mistake("You undo the shift: e^m alone overflows beyond m = 709 (88 in float32) and vanishes far below 0. "
                "Exponentiate only differences from the larger maximum (eq. 3.3).",
                *both(SUM, f"{BARE} * np.exp(-shift)"), *both(SUM, f"{BARE} / np.exp(shift)"),
                *both(SUM, f"np.exp(np.log{BARE} - shift)")),
        Mistake(phrases.nothing_yet("eq. 3.5"), but(*UNGUARDED)),
        Mistake(phrases.guard_written("section 7", m="m"), but("return m,", "return shift,")),
        Mistake("You return m + log l and 1. That means the same sum (eq. 3.4), but the exercise asks for the pair "
                "whose m is the maximum: leave l as it is.",
                but("return m, l", "return m + np.log(l), np.ones_like(l)"),
                but("return m, l", "return m + np.log(l), np.where(l == 0, 0.0, 1.0)")),
        Mistake(phrases.returns_lse("eq. 3.3", which="second", asked="l"),
                but("return m, l", "return m, m + np.log(l)")),
    ),
)
