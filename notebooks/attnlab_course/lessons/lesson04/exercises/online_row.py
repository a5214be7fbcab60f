"""Lesson 04, ★★: online attention for one query, over a stream of pairs, with its lse."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Edit, Exercise, Mistake, but
from attnlab_course.checker.promises import growth
from attnlab_course.checker.streams import Pairs, random_row, scored, stream

import numpy as np


def online_row(q: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, float]:
    """Online attention of q (D,) over a stream of pairs (key (D,), value (Dv,)) → (out (Dv,), lse); scale 1/√D."""
    m, l, o = -np.inf, 0.0, 0.0
    for k, v in pairs:
        s = k @ q / len(q) ** 0.5
        m_new = np.maximum(m, s)
        shift = m_new if m_new > -np.inf else 0.0  # −∞ − (−∞) is NaN
        factor, new = np.exp(m - shift), np.exp(s - shift)
        m, l, o = m_new, l * factor + new, o * factor + new * v  # eqs. 4.7 to 4.9
    return (o / l, m + np.log(l)) if l > 0 else (o, -np.inf)  # eq. 4.10


def cases() -> list[Case]:
    """The fingerprints of one row, then random rows."""
    rng = np.random.default_rng(42)
    q, keys, values = rng.normal(size=4), rng.normal(size=(7, 4)), rng.normal(size=(7, 3))
    odd, hidden, order = rng.normal(size=3), -np.inf, [3, 0, 6, 5, 1, 4, 2]
    return [
        Case("ONE: a single pair of score 2", scored([2.0], np.array([[3.0, -1.0]]))),
        Case("CONST: three scores 1, every value 1: the output is 1", scored([1.0] * 3, np.ones((3, 1)))),
        Case("UP: rising scores 0, 1, 2, values the identity", scored([0.0, 1.0, 2.0], np.eye(3))),
        Case("DOWN: falling scores 2, 1, 0, values the identity", scored([2.0, 1.0, 0.0], np.eye(3))),
        Case("HIGH: scores 1000 and 1001", scored([1000.0, 1001.0], np.eye(2))),
        Case("HIGH: score 0, then 100000, then 1", scored([0.0, 100000.0, 1.0], np.eye(3))),
        Case("LOW: scores −100000 and −100001", scored([-100000.0, -100001.0], np.eye(2))),
        Case("LOW: two scores of −10¹⁰", scored([-1e10, -1e10], np.eye(2))),
        Case("a score of 0, then 300 of −10: together they weigh 0.0135",
             scored([0.0] + [-10.0] * 300, np.eye(301)[:, :1])),
        Case("seven random pairs, D = 4: scale 1/2", (q, stream(keys, values))),
        Case("PERM: the same pairs in another order", (q, stream(keys[order], values[order]))),
        Case("the same values, keys of size D = 3", (odd, stream(keys[:, :3], values))),
        Case("EMPTY, at first: scores −∞, 0, 1, so the first key is hidden", scored([hidden, 0.0, 1.0], np.eye(3))),
        Case("EMPTY, at first, then LOW: scores −∞, −100000 and −99999", scored([hidden, -1e5, -99999.0], np.eye(3))),
        Case("EMPTY, between: scores 0, −∞, 1", scored([0.0, hidden, 1.0], np.eye(3))),
        Case("EMPTY: both scores are −∞: the output is 0 and the lse −∞", scored([hidden, hidden], np.eye(2))),
    ]


def keeps_all(q: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, float]:
    """Right, with all scores and values in arrays."""
    s, values = map(np.array, zip(*((k @ q / len(q) ** 0.5, v) for k, v in pairs)))
    m = s.max()
    if m == -np.inf:
        return 0 * values[0], m
    e = np.exp(s - m)
    return e @ values / e.sum(), m + np.log(e.sum())


UNGUARDED = ("m_new if m_new > -np.inf else 0.0", "m_new", " if l > 0 else (o, -np.inf)", "")


def both(*edits: str) -> tuple[Edit, Edit]:
    """An edit made with care for hidden keys, and without."""
    return but(*edits), but(*edits, *UNGUARDED)


EXERCISE = Exercise(
    lesson="04", stars=2, reference=online_row, cases=cases,
    costs=(
        Cost(growth(random_row, 200, 400), 1.1, "Its memory grew {found:.1f}× when the stream was twice as long; "
             "it should not grow."),
    ),
    hints=(
        "Start from (−∞, 0, 0), as in eq. 4.10. In the loop: score, new maximum, then l and o by eqs. 4.8 and 4.9.",
        "Keep the old maximum until the factor is computed: m_new = np.maximum(m, s), factor = np.exp(m - m_new).",
        "l and o take the same factor and the same new term np.exp(s - m_new), which o multiplies by v.",
        "While every score is −∞, m_new is −∞ and m - m_new is NaN: subtract 0 instead of m_new there. At the end, l = "
        "0 means that no key was visible.",
    ),
    mistakes=(
        Mistake(phrases.rescales_one("eq. 4.9", one="l", other="o"), *both("o * factor", "o")),
        Mistake(phrases.rescales_one("eq. 4.8", one="o", other="l"), *both("l * factor", "l")),
        Mistake(phrases.rescales_nothing("eqs. 4.8 and 4.9", sums="l and o are", factor="e^(m − m')"),
                *both("l * factor", "l", "o * factor", "o")),
        Mistake(phrases.printed_update("eq. 4.8"),
                *both("l * factor + new", "l + factor"),
                but("l * factor + new", "l + factor", "(o, -np.inf)", "(0 * o, -np.inf)")),
        Mistake(phrases.divides_early("eq. 4.10", o="o", l="l"),
                *both("o * factor + new * v", "(o * factor + new * v) / (l * factor + new)", "(o / l, m", "(o, m"),
                *both("o * factor + new * v", "(o * factor + new * v) / (l * factor + new)")),
        Mistake(phrases.apart("eq. 4.8", shift="m'"),
                *both("np.exp(s - shift)", "np.exp(s) * np.exp(-shift)"),
                *both("np.exp(s - shift)", "np.exp(s) * np.exp(-shift)",
                      "np.exp(m - shift)", "np.exp(m) * np.exp(-shift)")),
        Mistake(phrases.upside_down("eq. 4.8", factor="e^(m − m')"),
                *both("m - shift", "shift - m if m > -np.inf else m")),
        Mistake(phrases.unshifted("eqs. 4.7 to 4.9"),
                *both("np.exp(m - shift), np.exp(s - shift)", "1.0, np.exp(s)", "m + np.log(l)", "np.log(l)"),
                *both("np.exp(m - shift), np.exp(s - shift)", "1.0, np.exp(s)")),
        Mistake(phrases.lse_without_maximum("eq. 4.10"), *both("m + np.log(l)", "np.log(l)")),
        Mistake(phrases.never_divided("eq. 4.10", o="o", l="l"), *both("(o / l, m", "(o, m")),
        Mistake(phrases.starts_at_number("eq. 4.10"),
                *both("m, l, o = -np.inf", "m, l, o = 0.0"), *both("m, l, o = -np.inf", "m, l, o = -1e4"),
                *both("m, l, o = -np.inf", "m, l, o = -5e4")),
        Mistake(phrases.nothing_yet("section 9, eq. 4.10"), but(*UNGUARDED)),
        Mistake(phrases.guard_written("section 9, eq. 4.10", m="m"), but("m, l, o = m_new, ", "m, l, o = shift, ")),
        Mistake(phrases.unscaled("lesson 01, eq. 1.1"), *both(" / len(q) ** 0.5", "")),
        Mistake(phrases.keeps_all("eqs. 4.7 to 4.9", item="pair", sums="m, l and o"), keeps_all),
    ),
)
