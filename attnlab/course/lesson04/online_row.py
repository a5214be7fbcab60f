"""Lesson 04, ★★: online attention for one query, over a stream of pairs, with its lse."""

from collections.abc import Callable
from typing import Any

from attnlab.check.promises import growth
from attnlab.check.exercise import Case, Cost, Exercise, Mistake
from attnlab.course.lesson04.lazy_row import Pairs, long, scored, stream

import numpy as np


def online_row(q: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, float]:
    """Online attention of q (D,) over a stream of pairs (key (D,), value (Dv,)) → (out (Dv,), lse); scale 1/√D."""
    m, l, o = -np.inf, 0.0, 0.0
    for k, v in pairs:
        s = k @ q / len(q) ** 0.5
        m_new = np.maximum(m, s)
        shift = m_new if m_new > -np.inf else 0.0
        factor, new = np.exp(m - shift), np.exp(s - shift)
        m, l, o = m_new, l * factor + new, o * factor + new * v
    return (o / l, m + np.log(l)) if l > 0 else (o, -np.inf)


def cases() -> list[Case]:
    """The fingerprints of one row, then random rows."""
    rng = np.random.default_rng(42)
    q, keys, values = rng.normal(size=4), rng.normal(size=(7, 4)), rng.normal(size=(7, 3))
    hidden, order = -np.inf, [3, 0, 6, 5, 1, 4, 2]
    return [
        Case("ONE: a single pair of score 2", scored([2.0], np.array([[3.0, -1.0]]))),
        Case("CONST: three scores 1, every value 1: the output is 1", scored([1.0] * 3, np.ones((3, 1)))),
        Case("UP: rising scores 0, 1, 2, values the identity", scored([0.0, 1.0, 2.0], np.eye(3))),
        Case("DOWN: falling scores 2, 1, 0, values the identity", scored([2.0, 1.0, 0.0], np.eye(3))),
        Case("HIGH: scores 1000 and 1001", scored([1000.0, 1001.0], np.eye(2))),
        Case("LOW: scores −100000 and −100001", scored([-100000.0, -100001.0], np.eye(2))),
        Case("seven random pairs, D = 4: scale 1/2", (q, stream(keys, values))),
        Case("PERM: the same pairs in another order", (q, stream(keys[order], values[order]))),
        Case("EMPTY, at first: scores −∞, 0, 1, so the first key is hidden", scored([hidden, 0.0, 1.0], np.eye(3))),
        Case("EMPTY: both scores are −∞: the output is 0 and the lse −∞", scored([hidden, hidden], np.eye(2))),
    ]


def row(
    update: Callable, *, start: float = -np.inf, guard: bool = True, scale: bool = True,
    finish: Callable | None = None,
) -> Callable:
    """A wrong answer: ``update(l, o, v, s, m, m', shift)`` for each pair, with or without the guards for EMPTY."""

    def wrong(q: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, float]:
        m, l, o = np.float64(start), np.float64(0), 0.0
        for k, v in pairs:
            s = k @ q / (len(q) ** 0.5 if scale else 1)
            m_new = np.maximum(m, s)
            shift = m_new if m_new > -np.inf or not guard else 0.0
            l, o = update(l, o, v, s, m, m_new, shift)
            m = m_new
        if guard and not l > 0:
            return o * 0.0, -np.inf
        return finish(m, l, o) if finish else (o / l, m + np.log(l))

    return wrong


def both(update: Callable, **options: Any) -> tuple[Callable, Callable]:
    """The same mistake by those who guard the empty row and by those who do not."""
    return row(update, **options), row(update, guard=False, **options)


def right(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """(4.8) and (4.9)."""
    factor, new = np.exp(m - shift), np.exp(s - shift)
    return l * factor + new, o * factor + new * v


def only_l(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """o is not rescaled."""
    return right(l, o, v, s, m, m_new, shift)[0], o + np.exp(s - shift) * v


def only_o(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """l is not rescaled."""
    return l + np.exp(s - shift), right(l, o, v, s, m, m_new, shift)[1]


def neither(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """Nothing is rescaled, or by e^0 because m was overwritten."""
    return l + np.exp(s - shift), o + np.exp(s - shift) * v


def as_printed(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """(4.12)."""
    return l + np.exp(m - shift), right(l, o, v, s, m, m_new, shift)[1]


def divided(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """o is divided after each pair and not multiplied back."""
    l, o = right(l, o, v, s, m, m_new, shift)
    return l, o / l


def split(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """e^s · e^−m'."""
    factor, new = np.exp(m - shift), np.exp(s) * np.exp(-shift)
    return l * factor + new, o * factor + new * v


def split_all(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """The factor in two parts as well."""
    factor, new = np.exp(m) * np.exp(-shift), np.exp(s) * np.exp(-shift)
    return l * factor + new, o * factor + new * v


def inverse(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """e^{m' − m}."""
    factor, new = np.exp(shift - m), np.exp(s - shift)
    return l * factor + new, o * factor + new * v


def unshifted(l: Any, o: Any, v: Any, s: Any, m: Any, m_new: Any, shift: Any) -> tuple:
    """Lazy."""
    return l + np.exp(s), o + np.exp(s) * v


def only_log(m: Any, l: Any, o: Any) -> tuple:
    """lse = log l."""
    return o / l, np.log(l)


def undivided(m: Any, l: Any, o: Any) -> tuple:
    """No division."""
    return o, m + np.log(l)


def already_divided(m: Any, l: Any, o: Any) -> tuple:
    """For updates that divide in the loop."""
    return o, m + np.log(l)


def keeps_scores(q: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, float]:
    """Right, in memory that grows."""
    scores, values = [], []
    for k, v in pairs:
        scores.append(k @ q / len(q) ** 0.5)
        values.append(v)
    s = np.array(scores)
    m = s.max()
    if m == -np.inf:
        return np.zeros_like(values[0]), -np.inf
    e = np.exp(s - m)
    return e @ np.array(values) / e.sum(), m + np.log(e.sum())


EXERCISE = Exercise(
    lesson="04", stars=2, reference=online_row, cases=cases,
    hints=(
        "Start from (−∞, 0, 0), as in eq. 4.10. In the loop: score, new maximum, then l and o by eqs. 4.8 and 4.9.",
        "Keep the old maximum until the factor is computed: m_new = np.maximum(m, s), factor = np.exp(m - m_new).",
        "l and o take the same factor and the same new term np.exp(s - m_new), which o multiplies by v.",
        "While every score was −∞, m_new is −∞ and m - m_new is NaN: subtract 0 instead of m_new there. At the end, "
        "l = 0 means that no key was visible.",
    ),
    mistakes=(
        Mistake(
            "You rescale l but not o. o is a sum of the same exponentials, relative to the same maximum, so it takes "
            "the same factor e^{m − m'}: eq. 4.9.",
            *both(only_l),
        ),
        Mistake(
            "You rescale o but not l. The terms in l were computed relative to the old maximum; multiply l by "
            "e^{m − m'} before you add the new term: eq. 4.8.",
            *both(only_o),
        ),
        Mistake(
            "Neither l nor o is rescaled when the maximum moves. Multiply both by e^{m − m'}: eqs. 4.8 and 4.9. If "
            "you do, look whether m is overwritten before the factor is computed; then the factor is e^0 = 1.",
            *both(neither),
        ),
        Mistake(
            "This is the update of l as the essay prints it, eq. 4.12: the factor is added where it should multiply, "
            "and the new term is missing. Compare eq. 4.8.",
            *both(as_printed),
        ),
        Mistake(
            "You divide o by l after each pair, and the next step adds undivided terms to it. Divide once, at the end "
            "(eq. 4.10), or multiply by the old l first.",
            *both(divided, finish=already_divided), *both(divided),
        ),
        Mistake(
            "You compute e^s · e^−m'. For a large score that is ∞ · 0 = NaN. Subtract inside the exponential, "
            "e^{s − m'}: eq. 4.8.",
            *both(split), *both(split_all),
        ),
        Mistake(
            "Your factor is the inverse of the right one. Measured from a larger maximum the old terms become smaller: "
            "e^{m − m'} ≤ 1, old minus new, eq. 4.8.",
            *both(inverse),
        ),
        Mistake(
            "Your sums are not shifted: this is lazy attention, which overflows (and underflows). Measure every "
            "exponential relative to the running maximum: eqs. 4.7 to 4.9.",
            *both(unshifted, finish=only_log), *both(unshifted),
        ),
        Mistake(
            "Your lse is log l. l is measured relative to m, so lse = m + log l: eq. 4.10.",
            *both(right, finish=only_log),
        ),
        Mistake(
            "The output is not divided by l at the end: eq. 4.10.",
            *both(right, finish=undivided),
        ),
        Mistake(
            "Your maximum starts at a number. That is a score that no key has, and if all true scores lie far below "
            "it, every exponential is 0. The maximum of nothing is −∞: eq. 4.10.",
            *both(right, start=0.0), *both(right, start=-1e4), *both(right, start=-5e4),
        ),
        Mistake(
            "As long as every key was hidden, m' is −∞ and both exponents are −∞ − (−∞) = NaN. Subtract 0 there, not "
            "m' (section 9); all exponentials are then e^−∞ = 0, as they should be.",
            row(right, guard=False),
        ),
        Mistake(
            "Your scores are not scaled. They are q·k / √D, as in lesson 01, with D = len(q).",
            *both(right, scale=False),
        ),
        Mistake(
            "You keep something of every pair in a list. Constant memory means forgetting: m, l and o are all that the "
            "next step needs, eqs. 4.7 to 4.9.",
            keeps_scores,
        ),
    ),
    costs=(
        Cost(growth(long, 200, 400), 1.1, "Its memory grew {found:.1f}× when the stream was twice as long; "
             "it should not grow."),
    ),
)
