"""Lesson 13, ★★: the fold in powers of two, divided once."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import far_scores
from attnlab_course.checker.operations import done
from attnlab_course.checker.promises import growth, inverse

import numpy as np

Array = np.ndarray
INF = np.inf


def fold_exp2(s: Array, v: Array, block: int) -> tuple[Array, Array]:
    """(out, lse) of scores s (R, C), −∞ = hidden, and values v (C, Dv), block keys at a time; np.exp2, np.log2 only."""
    m, l, o = np.full(len(s), -np.inf), np.zeros(len(s)), np.zeros((len(s), v.shape[1]))
    for first in range(0, s.shape[1], block):
        t = np.log2(np.e) * s[:, first : first + block]
        m_new = np.maximum(m, t.max(1))
        shift = np.where(m_new == -np.inf, 0, m_new)
        a, p = np.exp2(m - shift), np.exp2(t - shift[:, None])  # eq. 12.3
        m, l, o = m_new, a * l + p.sum(1), a[:, None] * o + p @ v[first : first + block]
    total = np.where(l == 0, 1, l)
    return o / total[:, None], (m + np.log2(total)) * np.log(2)  # eq. 12.4


def cases() -> list[Case]:
    """One key, several blocks, large and small scores, hidden keys, an empty row; few shapes, for JAX."""
    rng = np.random.default_rng(2)
    ones, eye = np.ones((4, 1)), np.eye(4)
    rise = np.array([[1.0, 2.0, 3.0, 4.0]])
    hidden = np.array([[0.5, -INF, 1.0, 2.0], [-INF, -INF, -INF, -INF]])
    near = np.array([[0.0, 1.1, 2.0, 0.5], [3.0, 1.3, 0.0, 1.7]])
    return [
        Case("ONE: one key of score 3, value 5: lse is 3", (np.array([[3.0]]), np.array([[5.0]]), 1)),
        Case("CONST: four scores of 0: lse is ln 4", (np.zeros((1, 4)), ones, 2)),
        Case("EYE: scores 0 and 1 in one block; the output is P", (np.array([[0.0, 1.0]]), np.eye(2), 2)),
        Case("UP: scores 1, 2, 3, 4 in blocks of two", (rise, eye, 2)),
        *far_scores(lambda s: (s, eye, 2), near),
        Case("HIGH, DOWN: a score of 100000, then 1, 2, 0 in blocks of two", (np.array([[1e5, 1, 2, 0]]), eye, 2)),
        Case("EMPTY: query 1 sees nothing; query 0 not key 1", (hidden, eye, 2)),
        Case("EMPTY: the first block is hidden", (np.array([[-INF, -INF, 1.0, 0.0]]), eye, 2)),
        Case("EMPTY, LOW: the first block is hidden, then scores of −100000 and −99999",
             (np.array([[-INF, -INF, -1e5, -99999]]), eye, 2)),
        Case("3 queries, 7 keys, blocks of 3, random", (rng.normal(size=(3, 7)), rng.normal(size=(7, 2)), 3)),
    ]


R, C, DV = 64, 2048, 8  # the call that is measured


def call(block: int) -> tuple:
    """Scores of 64 queries and 2048 keys, values of size 8."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(R, C)), rng.normal(size=(C, DV)), block


def divisions(answer: Function, library: str) -> float | None:
    """Divisions for each row, in blocks of 256: by as many numbers as there are rows, or of as many as o has."""
    seen = done(answer, call(256), library)
    return None if seen is None else sum(max(min(x.by, R) / R, x.size / (R * DV)) for x in seen if x.kind == "division")


def naturals(answer: Function, library: str) -> float | None:
    """Natural exponentials and logarithms of computed numbers."""
    seen = done(answer, call(256), library)
    return None if seen is None else sum(x.kind == "natural" for x in seen)


COSTS = (
    Cost(divisions, 1.5, "it divides {found:.1f} times for each number of the output; 1 is enough."),
    Cost(naturals, 0, "it computes {found:.0f} times with np.exp, np.log or the like; np.exp2 and np.log2 are asked "
         "for."),
    Cost(inverse(growth(call, 16, 1024)), 0.85, "with blocks of 16 keys it held {found:.2f} times what it held with "
         "blocks of 1024: does it read `block` keys at a time?"),
)

LSE = "(m + np.log2(total)) * np.log(2)"

EXERCISE = Exercise(
    lesson="13", stars=2, reference=fold_exp2, where="eq. 12.3", cases=cases,
    hints=(
        "Multiply the scores by log₂ e once. From then on, m is the maximum of the scaled scores, and every "
        "exponential is np.exp2 of a difference: eq. 12.3.",
        "l is a sum of the same weights as before, so nothing changes in l and o (eq. 12.4). Divide o by l once, after "
        "the loop.",
        "lse is natural: (m + log₂ l) · ln 2.",
    ),
    without={"np.log(2)": phrases.lse_in_base_two("eq. 12.4")},
    mistakes=(
        Mistake(phrases.missing_log2e("eq. 12.3"),
                but("np.log2(np.e) * ", ""), but("np.log2(np.e) * ", "", LSE, "m + np.log2(total)"),
                but("np.log2(np.e) * ", "", LSE, "m + np.log(total)"),
                but("np.log2(np.e) * ", "", "* np.log(2)", "/ np.log(2)")),
        Mistake("You multiply by ln 2 where log₂ e = 1/ln 2 is needed: e^s = 2^(s · log₂ e), eq. 12.3.",
                but("np.log2(np.e)", "np.log(2)"), but("* np.log(2)", "/ np.log(2)", "np.log2(np.e)", "np.log(2)"),
                but(" * np.log(2)", "", "np.log2(np.e)", "np.log(2)")),
        Mistake("Your lse mixes units. Both m and log₂ l are in base two, and one multiplication converts both: (m + "
                "log₂ l) · ln 2, eq. 12.4.",
                but(LSE, "m + np.log(total)"), but(LSE, "m * np.log(2) + np.log2(total)"),
                but("np.log2(total)", "np.log(total)"), but("* np.log(2)", "/ np.log(2)"), but(LSE, "m * np.log(2)"),
                but(LSE, "np.log(total)"), but(LSE, "np.log2(total)")),
        Mistake("Weights and factor are in different bases: one uses np.exp2, the other np.exp, of the same "
                "differences. Use np.exp2 for both (eq. 12.3).",
                but("np.exp2(m", "np.exp(m"), but("np.exp2(t", "np.exp(t")),
        Mistake(phrases.empty_row("section 7 of lesson 08"),
                but("np.where(m_new == -np.inf, 0, m_new)", "m_new", "np.where(l == 0, 1, l)", "l")),
    ),
    costs=COSTS,
)
