"""Lesson 08, ★★: one visit of a tile, O stored normalized."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import DEEP, far_scores

import numpy as np

Array = np.ndarray
State = tuple[Array, Array, Array]
INF = np.inf


def tile_step(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """State O (R, Dv), divided by l, l (R,), m (R,); scores s (R, C), −∞ = hidden; v (C, Dv) → the next (O, l, m)."""
    m_new = np.maximum(m, s.max(1))
    alpha, p = np.exp(m - zero_if_empty(m_new)), np.exp(s - zero_if_empty(m_new)[:, None])  # eq. 8.5
    l_new = alpha * l + p.sum(1)
    O_new = ((alpha * l)[:, None] * O + p @ v) / one_if_empty(l_new)[:, None]  # eq. 8.4
    return O_new.astype(O.dtype), l_new.astype(l.dtype), m_new.astype(m.dtype)


def zero_if_empty(m: Array) -> Array:
    """m, and 0 for −∞."""
    return np.where(m == -INF, 0, m)


def one_if_empty(l: Array) -> Array:
    """l, and 1 for 0."""
    return np.where(l == 0, 1, l)


def own(s: Array) -> Array:
    """Exponentials relative to the tile's own maximum."""
    return np.exp(s - zero_if_empty(s.max(1))[:, None])


def fresh(rows: int, dv: int) -> State:
    """The state before any key."""
    return np.zeros((rows, dv)), np.zeros(rows), np.full(rows, -INF)


def state(rows: int, dv: int, tops: Array, seed: int = 0) -> State:
    """A state in the middle of a row: three keys read, maxima ``tops``."""
    rng = np.random.default_rng(seed)
    s = np.minimum(rng.normal(size=(rows, 3)), 0.0) + np.asarray(tops, float)[:, None]
    s[:, 0] = tops
    p = np.exp(s - s.max(1)[:, None])
    return p @ rng.normal(size=(3, dv)) / p.sum(1)[:, None], p.sum(1), s.max(1)


def cases() -> list[Case]:
    """First and later tiles; the maximum moves, stays, comes from either side; empty rows; rows far apart."""
    one, pair, eye = np.ones((1, 1)), np.ones((2, 1)), np.eye(3)
    first, new, v = state(2, 3, np.array([0.0, 2.0])), fresh(2, 3), np.random.default_rng(8).normal(size=(3, 3))
    far = tuple(x.astype(np.float32) for x in state(2, 3, np.array([1.0, 130.0]), 2))
    hidden = np.array([[0.5, -INF, 1.0], [-INF, -INF, -INF]])
    unseen, huge = np.array([[0.5, -INF, 1.0], [2.0, -INF, -INF]]), np.array([[1.0, 0.0], [1e30, -1e30], [0.0, 1.0]])
    rows = np.array([[0.5, 2.0, 1.0], [130.5, 132.0, 129.0]], np.float32)
    known = [  # label, l, m and scores of a second tile, whose values are 1, as is O
        ("CONST: a second tile whose scores equal the maximum so far", 1.0, 2.0, [2.0, 2.0]),
        ("UP: a second tile with larger scores", 2.0, 0.0, [1.0, 3.0]),
        ("DOWN: a second tile with smaller scores", 2.0, 3.0, [1.0, 0.0]),
        ("UP: a million keys so far, of scores 20 below those of the tile", 1e6, 0.0, [20.0, 20.0]),
        ("DOWN: m is a bound above all scores, so l is 10⁻⁴", 1e-4, 0.0, [-10.0, -11.0]),
        ("LOW: scores −10¹², no key so far", 0.0, -INF, [DEEP, 2 * DEEP]),
        ("LOW: scores −1000 and −999 meet a maximum of −1002", 1.0, -1002.0, [-1000.0, -999.0]),
    ]
    return [
        Case("ONE: the first tile, one query, one key of score 2", (*fresh(1, 1), 2 * one, 3 * one)),
        *[Case(f"{label}; all values 1", (one, np.array([l]), np.array([m]), np.array([s]), pair))
          for label, l, m, s in known],
        Case("UP: a second tile with larger scores and values 1; all values so far were 0, and so is O",
             (0 * one, np.array([2.0]), np.zeros(1), np.array([[1.0, 3.0]]), pair)),
        Case("HIGH: scores 1000 and 1001 meet a maximum of 0; O is 10³⁰, the new values are 1",
             (1e30 * one, np.ones(1), np.zeros(1), np.array([[1000.0, 1001.0]]), pair)),
        Case("EMPTY: the first tile; query 1 sees nothing of it", (*new, hidden, eye)),
        Case("EMPTY: a later tile of which query 1 sees nothing", (*first, hidden, v)),
        Case("EMPTY: query 0 has seen keys, query 1 none so far; both see all of the tile",
             (*(np.stack([x[0], y[1]]) for x, y in zip(first, new)), rows - [[0.0], [130.0]], eye)),
        Case("HUGE: the first tile; the value of a key that nobody sees is 1e30", (*fresh(2, 2), unseen, huge)),
        *far_scores(lambda s: (*new, s, eye), np.array([[0.0, 1.0, 2.0], [1.0, 0.5, 0.0]]), "; first tile"),
        Case("ROWS: float32; query 0 has scores near 0, query 1 near 130", (*far, rows, eye.astype(np.float32))),
    ]


EXERCISE = Exercise(
    lesson="08", stars=2, reference=tile_step, where="eq. 8.2", cases=cases,
    hints=(
        "First m' = max(m, row maxima of s); then one factor e^{m − m'} per row, and the weights e^{s − m'} (eq. 8.5).",
        "The state holds O divided by l. Multiply it by l and by the factor, add p @ v, divide by the new l: eq. 8.4.",
        "A row that has seen nothing has m' = −∞. Subtract 0 there instead, and divide by 1 where the new l is 0.",
    ),
    without={"alpha": phrases.rescales_partly("eqs. 8.2 and 8.4", sums="l or O", factor="e^(m − m')")},
    mistakes=(
        Mistake(phrases.new_unscaled("eqs. 8.2 and 8.4"),
                but("p @ v", "own(s) @ v"), but("p @ v", "own(s) @ v", "p.sum(1)", "own(s).sum(1)"),
                but("p.sum(1)", "own(s).sum(1)")),
        Mistake(phrases.upside_down("eq. 8.2, and not as eq. 8.12 prints it", factor="e^(m − m')"),
                but("(alpha * l)[:, None]", "(l / alpha)[:, None]"), but("alpha * l", "l / alpha"),
                but("((alpha * l)[:, None] * O + p @ v) / one_if_empty(l_new)[:, None]", "O / alpha[:, None] + p @ v")),
        Mistake("O was stored divided by the old l, so that l undoes it; the new O belongs to all keys read so far, so "
                "divide it by the new l', and return it divided (eq. 8.4).",
                but("(alpha * l)[:, None] * O", "alpha[:, None] * O", " / one_if_empty(l_new)[:, None]", ""),
                but(" / one_if_empty(l_new)[:, None]", ""),
                but("(alpha * l)[:, None]", "alpha[:, None]"),
                but("(alpha * l)[:, None]", "(alpha * l_new)[:, None]"), but("(alpha * l)[:, None]", "l_new[:, None]"),
                but("one_if_empty(l_new)", "one_if_empty(l)"),
                but("one_if_empty(l_new)", "one_if_empty(own(s).sum(1))")),
        Mistake(phrases.epsilon("section 7", instead="where the sum is 0, divide by 1"),
                but("one_if_empty(l_new)", "(l_new + 1e-6)"), but("one_if_empty(l_new)", "np.maximum(l_new, 1e-3)")),
        Mistake(phrases.empty_row("section 7"),
                but("zero_if_empty(m_new)", "m_new", "one_if_empty(l_new)", "l_new"),
                but("one_if_empty(l_new)", "l_new")),
    ),
)
