"""Lesson 03, ★★: the operator ⊕ on pairs (m, l), for arrays."""

from collections.abc import Callable
from typing import Any

from attnlab.check.exercise import Case, Exercise, Function, Mistake

import numpy as np

Pair = tuple[Any, Any]


def merge_stats(a: Pair, b: Pair) -> Pair:
    """a ⊕ b for a = (m, l) and b = (m, l), arrays of broadcastable shapes; returns (m, l) of the union."""
    return merged(a, b, lambda l_a, l_b, to_a, to_b: l_a * np.exp(to_a) + l_b * np.exp(to_b), guard=True)


def merged(a: Pair, b: Pair, total: Callable, guard: bool) -> Pair:
    """(m', l') with l' = total(l, l̃, m − m', m̃ − m'); ``guard`` shifts by 0 where m' is −∞."""
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    shift = np.where(m == -np.inf, 0, m) if guard else m
    return m, total(l_a, l_b, m_a - shift, m_b - shift)


def both(total: Callable) -> tuple[Function, ...]:
    """A wrong sum with and without the guard against −∞ − (−∞)."""
    return tuple(lambda a, b, guard=guard: merged(a, b, total, guard) for guard in (True, False))


def unshifted(a: Pair, b: Pair) -> Pair:
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    return m, (l_a * np.exp(m_a) + l_b * np.exp(m_b)) * np.exp(-m)


def unshifted_quotient(a: Pair, b: Pair) -> Pair:
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    return m, (l_a * np.exp(m_a) + l_b * np.exp(m_b)) / np.exp(m)


def unshifted_log(a: Pair, b: Pair) -> Pair:
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    return m, np.exp(np.log(l_a * np.exp(m_a) + l_b * np.exp(m_b)) - m)


def guarded(f: Function) -> Function:
    def wrong(a: Pair, b: Pair) -> Pair:
        m, l = f(a, b)
        return m, np.where(m == -np.inf, 0, l)

    return wrong


def zero_kept(a: Pair, b: Pair) -> Pair:
    m, l = merge_stats(a, b)
    return np.where(m == -np.inf, 0, m), l


def normalized(a: Pair, b: Pair) -> Pair:
    m, l = merge_stats(a, b)
    return m + np.log(l), np.ones_like(l)


def normalized_or_empty(a: Pair, b: Pair) -> Pair:
    m, l = merge_stats(a, b)
    return m + np.log(l), np.where(l == 0, 0.0, 1.0)


def logarithm(a: Pair, b: Pair) -> Pair:
    m, l = merge_stats(a, b)
    return m, m + np.log(l)


def cases() -> list[Case]:
    rng = np.random.default_rng(33)
    inf = np.inf
    small = {
        "UP: (0, 1) ⊕ (2, 1)": ((0.0, 1.0), (2.0, 1.0)),
        "DOWN: (2, 1) ⊕ (0, 1)": ((2.0, 1.0), (0.0, 1.0)),
        "CONST: (1, 2) ⊕ (1, 3); the maximum stays": ((1.0, 2.0), (1.0, 3.0)),
        "HIGH: (1000, 1) ⊕ (1001, 2)": ((1000.0, 1.0), (1001.0, 2.0)),
        "LOW: (−1000, 1) ⊕ (−1002, 3)": ((-1000.0, 1.0), (-1002.0, 3.0)),
        "EMPTY: (3, 2) ⊕ (−∞, 0); nothing is the identity": ((3.0, 2.0), (-inf, 0.0)),
        "EMPTY: (−∞, 0) ⊕ (3, 2)": ((-inf, 0.0), (3.0, 2.0)),
        "EMPTY: (−∞, 0) ⊕ (−∞, 0); nothing and nothing is nothing": ((-inf, 0.0), (-inf, 0.0)),
    }
    found = [Case(label, tuple((np.array([m]), np.array([l])) for m, l in pairs)) for label, pairs in small.items()]

    def draw(*shape: int) -> Pair:
        return rng.normal(0, 3, shape), rng.uniform(1, 5, shape)

    with_gaps = [draw(4), draw(4)]
    for (m, l), where in zip(with_gaps, ([0, 2], [1, 2])):
        m[where], l[where] = -inf, 0.0
    return [
        *found,
        Case("four entries; entry 2 is empty on both sides, entries 0 and 1 on one", tuple(with_gaps)),
        Case("shapes (3, 1) and (4,): they broadcast to (3, 4)", (draw(3, 1), draw(4))),
        Case("random pairs of shape (5,)", (draw(5), draw(5))),
    ]


EXERCISE = Exercise(
    lesson="03",
    stars=2,
    reference=merge_stats,
    cases=cases,
    hints=(
        "Two lines: the common maximum, and both sums brought to it (eq. 3.3). np.maximum compares entry by entry.",
        "Each side has a factor of its own, e^(own maximum − common maximum); where a side holds the larger, it is 1.",
        "Where both sides are empty the exponent would be −∞ − (−∞). An `if` cannot decide that for each entry.",
        "shift = np.where(m == -np.inf, 0, m), and subtract shift instead of m. Return m, not shift.",
    ),
    mistakes=(
        Mistake(
            "Only one side is rescaled. Either side may hold the smaller maximum, so both sums need a factor, and then "
            "a ⊕ b and b ⊕ a agree (eq. 3.3).",
            *both(lambda l_a, l_b, to_a, to_b: l_a * np.exp(to_a) + l_b),
            *both(lambda l_a, l_b, to_a, to_b: l_a + l_b * np.exp(to_b)),
        ),
        Mistake(
            "The sums are added as they are, though each is shifted by a maximum of its own. Bring both to the common "
            "maximum m' first: multiply each by e^(its m − m') (eq. 3.3).",
            *both(lambda l_a, l_b, to_a, to_b: l_a + l_b + 0 * (to_a + to_b)),
            lambda a, b: (np.maximum(a[0], b[0]), a[1] + b[1]),
        ),
        Mistake(
            "Your factors are upside down: each sum shrinks to the larger maximum, so each factor is "
            "e^(its own m − m'), at most 1 (eq. 3.3).",
            *both(lambda l_a, l_b, to_a, to_b: l_a * np.exp(-to_a) + l_b * np.exp(-to_b)),
        ),
        Mistake(
            "You undo the shift: e^m alone overflows beyond m = 709 (88 in float32) and vanishes far below 0. Only "
            "differences to the larger maximum may be exponentiated (eq. 3.3).",
            unshifted, unshifted_quotient, unshifted_log, *map(guarded, (unshifted, unshifted_quotient, unshifted_log)),
        ),
        Mistake(
            "Two empty parts give NaN, because −∞ − (−∞) is undefined. By eq. 3.5 nothing ⊕ nothing is nothing: shift "
            "by 0 in the entries where the maximum is −∞.",
            both(lambda l_a, l_b, to_a, to_b: l_a * np.exp(to_a) + l_b * np.exp(to_b))[1],
        ),
        Mistake(
            "The guard has found its way into the result: where both parts are empty you return m = 0, a score that "
            "nobody had and that later negative scores cannot undo. Shift by 0 there, and return −∞ (section 7).",
            zero_kept,
        ),
        Mistake(
            "You return m + log l and 1. It stands for the same sum (eq. 3.4), but the exercise asks for the pair "
            "whose m is the maximum: leave l as it is.",
            normalized, normalized_or_empty,
        ),
        Mistake(
            "Your second part is m + log l, the lse. The exercise asks for l itself (eq. 3.3).",
            logarithm,
        ),
    ),
)
