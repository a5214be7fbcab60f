"""Lesson 04, ★★: online attention for one query, over a stream of pairs, with its lse."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Edit, Exercise, Mistake, but
from attnlab_course.checker.inputs import Pairs, random_row, score_rows, scored, stream
from attnlab_course.checker.promises import growth

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
    return [
        *score_rows(lambda scores: scored(scores, np.eye(len(scores))), "ONE", "CONST", "UP", "DOWN", "HIGH",
                    about="; values the identity"),
        Case("HIGH: score 0, then 100000, then 1", scored([0.0, 100000.0, 1.0], np.eye(3))),
        Case("LOW: two scores of −10¹⁰", scored([-1e10, -1e10], np.eye(2))),
        Case("a score of 0, then 300 of −10: together they weigh 0.0135",
             scored([0.0] + [-10.0] * 300, np.eye(301)[:, :1])),
        Case("seven random pairs, D = 4: scale 1/2", (q, stream(keys, values))),
        Case("the same values, keys of size D = 3", (q[:3], stream(keys[:, :3], values))),
        *score_rows(lambda scores: scored(scores, np.eye(len(scores))), "EMPTY"),
        Case("EMPTY, at first, then LOW: scores −∞, −100000 and −99999", scored([-np.inf, -1e5, -99999.0], np.eye(3))),
    ]


UNGUARDED = ("m_new if m_new > -np.inf else 0.0", "m_new", " if l > 0 else (o, -np.inf)", "")


def both(*edits: str) -> tuple[Edit, Edit]:
    """An edit made with care for hidden keys, and without."""
    return but(*edits), but(*edits, *UNGUARDED)


EXERCISE = Exercise(
    lesson="04", stars=2, reference=online_row, cases=cases, where="eqs. 4.7 to 4.9",
    costs=(Cost(growth(random_row, 200, 400), 1.1, "Twice the pairs took {found:.1f}× memory: it should not grow."),),
    hints=(
        "Start from eq. 4.10. Keep the old maximum until the factor is computed: m_new = np.maximum(m, s).",
        "l and o take the same factor and the same new term np.exp(s - m_new), which o multiplies by v.",
        "While every score is −∞, m - m_new is NaN: subtract 0 instead of m_new. l = 0 means that no key was visible.",
    ),
    without={"len(q) ** 0.5": phrases.unscaled("lesson 01, eq. 1.1")},
    mistakes=(
        Mistake(phrases.rescales_partly("eqs. 4.8 and 4.9", sums="l or o", factor="e^(m − m')"),
                *both("o * factor", "o"), *both("l * factor", "l"), *both("l * factor", "l", "o * factor", "o")),
        Mistake(phrases.divides_early("eq. 4.10", o="o", l="l"),
                *both("o * factor + new * v", "(o * factor + new * v) / (l * factor + new)", "(o / l, m", "(o, m"),
                *both("o * factor + new * v", "(o * factor + new * v) / (l * factor + new)")),
        Mistake(phrases.nothing_yet("section 7, eq. 4.10"), but(*UNGUARDED)),
        Mistake(phrases.guard_written("section 7, eq. 4.10", m="m"), but("m, l, o = m_new, ", "m, l, o = shift, ")),
    ),
)
