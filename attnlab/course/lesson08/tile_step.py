"""Lesson 08, ★★: one visit of a tile, O stored normalized."""

from collections.abc import Callable

from attnlab.check.exercise import Case, Exercise, Mistake

import numpy as np

Array = np.ndarray
State = tuple[Array, Array, Array]
INF = np.inf


def tile_step(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """State O (R, Dv), divided by l, l (R,), m (R,); scores s (R, C), −∞ = hidden; v (C, Dv) → the next (O, l, m)."""
    m_new = np.maximum(m, s.max(1))
    shift = np.where(m_new == -INF, 0, m_new)
    alpha, p = np.exp(m - shift), np.exp(s - shift[:, None])
    l_new = alpha * l + p.sum(1)
    O_new = ((alpha * l)[:, None] * O + p @ v) / np.where(l_new == 0, 1, l_new)[:, None]
    return O_new.astype(O.dtype), l_new.astype(l.dtype), m_new.astype(m.dtype)


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
    rng = np.random.default_rng(8)
    one, pair, eye = np.ones((1, 1)), np.ones((2, 1)), np.eye(3)
    first, later = state(2, 3, np.array([0.0, 2.0])), state(2, 3, np.array([1.0, -1.0]), 1)
    far = tuple(x.astype(np.float32) for x in state(2, 3, np.array([1.0, 130.0]), 2))
    hidden = np.array([[0.5, -INF, 1.0], [-INF, -INF, -INF]])
    rows = np.array([[0.5, 2.0, 1.0], [130.5, 132.0, 129.0]], np.float32)
    known = [  # label, l, m and scores of a second tile, whose values are 1, as is O
        ("CONST: a second tile whose scores equal the maximum so far", 1.0, 2.0, [2.0, 2.0]),
        ("UP: a second tile with larger scores", 2.0, 0.0, [1.0, 3.0]),
        ("DOWN: a second tile with smaller scores", 2.0, 3.0, [1.0, 0.0]),
        ("HIGH: scores 1000 and 1001 meet a maximum of 0", 1.0, 0.0, [1000.0, 1001.0]),
        ("LOW: scores −1000 and −999 meet a maximum of −1002", 1.0, -1002.0, [-1000.0, -999.0]),
    ]
    return [
        Case("ONE: the first tile, one query, one key of score 2", (*fresh(1, 1), 2 * one, 3 * one)),
        *[Case(f"{label}; all values 1", (one, np.array([l]), np.array([m]), np.array([s]), pair))
          for label, l, m, s in known],
        Case("EYE: the first tile of two queries, three keys, values the identity",
             (*fresh(2, 3), rng.normal(size=(2, 3)), eye)),
        Case("EMPTY: the first tile; query 1 sees nothing of it", (*fresh(2, 3), hidden, eye)),
        Case("EMPTY: a later tile of which query 1 sees nothing", (*first, hidden, rng.normal(size=(3, 3)))),
        Case("two queries, three keys, random", (*later, rng.normal(size=(2, 3)), rng.normal(size=(3, 3)))),
        Case("ROWS: float32; query 0 has scores near 0, query 1 near 130", (*far, rows, eye.astype(np.float32))),
    ]


Parts = tuple[Array, Array, Array, Array, Array, Array]


def parts(m: Array, s: Array) -> Parts:
    """m', e^{m − m'}, e^{m̃ − m'}, P̃, l̃ and m̃, with the guards of the empty row."""
    m_tile = s.max(1)
    m_new = np.maximum(m, m_tile)
    shift, shift_tile = np.where(m_new == -INF, 0, m_new), np.where(m_tile == -INF, 0, m_tile)
    p = np.exp(s - shift_tile[:, None])
    return m_new, np.exp(m - shift), np.exp(m_tile - shift), p, p.sum(1), m_tile


def variant(rule: Callable[..., tuple[Array, Array]]) -> Callable[..., State]:
    """A wrong answer: ``rule(O, l, a, b, pv, l_tile)`` gives O' and l'."""

    def wrong(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
        m_new, a, b, p, l_tile, _ = parts(m, s)
        O_new, l_new = rule(O, l, a[:, None], b[:, None], p @ v, l_tile)
        return O_new, l_new, m_new

    return wrong


def total(l: Array, a: Array, b: Array, l_tile: Array) -> Array:
    """The right l'."""
    return a[:, 0] * l + b[:, 0] * l_tile


def over(o: Array, l: Array) -> Array:
    """o / l by rows, 0 where l is 0."""
    return o / np.where(l == 0, 1, l)[:, None]


def not_undone(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """O is not multiplied by l first."""
    l_new = total(l, a, b, l_tile)
    return over(a * O + b * pv, l_new), l_new


def own_maximum(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """P̃ V stays relative to the tile's own maximum."""
    l_new = total(l, a, b, l_tile)
    return over(l[:, None] * a * O + pv, l_new), l_new


def own_maximum_both(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """P̃ V and l̃ stay relative to the tile's own maximum."""
    l_new = a[:, 0] * l + l_tile
    return over(l[:, None] * a * O + pv, l_new), l_new


def own_maximum_sum(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """l̃ stays relative to the tile's own maximum."""
    l_new = a[:, 0] * l + l_tile
    return over(l[:, None] * a * O + b * pv, l_new), l_new


def inverse(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """The factor of O inverted."""
    l_new = total(l, a, b, l_tile)
    return over(l[:, None] / a * O + b * pv, l_new), l_new


def inverse_both(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """The factor of O and l inverted."""
    l_new = l / a[:, 0] + b[:, 0] * l_tile
    return over(l[:, None] / a * O + b * pv, l_new), l_new


def inverse_unnormalized(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """Eq. 8.12 to the letter: O un-normalized."""
    return O / a + b * pv, total(l, a, b, l_tile)


def no_factor(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """The old terms are not rescaled."""
    l_new = l + b[:, 0] * l_tile
    return over(l[:, None] * O + b * pv, l_new), l_new


def only_l(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """O is not rescaled."""
    l_new = total(l, a, b, l_tile)
    return over(l[:, None] * O + b * pv, l_new), l_new


def only_o(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """l is not rescaled."""
    l_new = l + b[:, 0] * l_tile
    return over(l[:, None] * a * O + b * pv, l_new), l_new


def undivided(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """Undone, added, and not divided again."""
    return l[:, None] * a * O + b * pv, total(l, a, b, l_tile)


def unnormalized(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """The other form, eq. 8.3."""
    return a * O + b * pv, total(l, a, b, l_tile)


def divided_by_old(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """Divided by the old l."""
    return over(l[:, None] * a * O + b * pv, l), total(l, a, b, l_tile)


def divided_by_tile(O: Array, l: Array, a: Array, b: Array, pv: Array, l_tile: Array) -> tuple[Array, Array]:
    """Divided by the tile's own sum."""
    return over(l[:, None] * a * O + b * pv, l_tile), total(l, a, b, l_tile)


def unguarded(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """−∞ − (−∞), with the tile's own maximum."""
    m_tile = s.max(1)
    m_new = np.maximum(m, m_tile)
    p = np.exp(s - m_tile[:, None])
    a, b = np.exp(m - m_new), np.exp(m_tile - m_new)
    l_new = a * l + b * p.sum(1)
    return ((l * a)[:, None] * O + b[:, None] * (p @ v)) / l_new[:, None], l_new, m_new


def unguarded_short(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """−∞ − (−∞), with the new maximum only."""
    m_new = np.maximum(m, s.max(1))
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    l_new = a * l + p.sum(1)
    return ((l * a)[:, None] * O + p @ v) / l_new[:, None], l_new, m_new


def half_guarded(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """The maximum is made finite, the division by 0 is left."""
    m_new, a, b, p, l_tile, _ = parts(m, s)
    l_new = total(l, a[:, None], b[:, None], l_tile)
    return ((l * a)[:, None] * O + b[:, None] * (p @ v)) / l_new[:, None], l_new, m_new


def shared(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """One maximum for all rows."""
    m_new = np.maximum(m, s.max())
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    l_new = a * l + p.sum(1)
    return over((l * a)[:, None] * O + p @ v, l_new), l_new, m_new


def shared_all(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """One maximum for all rows, of the state, too."""
    return shared(O, l, np.full_like(m, m.max()), s, v)


def forgets(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """Starts anew at each tile."""
    return tile_step(np.zeros_like(O), np.zeros_like(l), np.full_like(m, -INF), s, v)


def tile_maximum(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """m' is the tile's maximum, whatever came before."""
    m_new = s.max(1)
    shift = np.where(m_new == -INF, 0, m_new)
    a, p = np.exp(m - shift), np.exp(s - shift[:, None])
    l_new = a * l + p.sum(1)
    return over((l * a)[:, None] * O + p @ v, l_new), l_new, m_new


def columns(O: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """Returns lse in the place of m."""
    O_new, l_new, m_new = tile_step(O, l, m, s, v)
    return O_new, l_new, m_new + np.log(l_new)


EXERCISE = Exercise(
    lesson="08", stars=2, reference=tile_step, cases=cases,
    hints=(
        "First m' = max(m, row maxima of s); then one factor e^{m − m'} a row, and the weights e^{s − m'} (eq. 8.5).",
        "The state holds O divided by l. Multiply it by l and by the factor, add p @ v, divide by the new l: eq. 8.4.",
        "A row that has seen nothing has m' = −∞. Where that is so, subtract 0 instead; and divide by 1 where the new "
        "l is 0.",
        "O' = ((factor * l)[:, None] * O + p @ v) / l'[:, None]; factor, l and m are vectors, one entry a row.",
    ),
    mistakes=(
        Mistake(
            "O is stored divided by l, and you add to it as if it were not: multiply it by the old l first, eq. 8.4. "
            "With the values 1 the result falls below 1 from the second tile on.",
            variant(not_undone),
        ),
        Mistake(
            "P̃ was measured from the tile's own maximum. Before it is added it needs the factor e^{m̃ − m'}: "
            "eq. 8.2 and eq. 8.4. It is missing in P̃ V, in l̃, or in both.",
            variant(own_maximum), variant(own_maximum_both), variant(own_maximum_sum),
        ),
        Mistake(
            "Your factor is the inverse, e^{m' − m}, as eq. 8.12 prints it. Old terms shrink when the maximum grows: "
            "the factor is e^{m − m'} ≤ 1, eq. 8.2, and at the first tile it is 0, not 1/0.",
            variant(inverse), variant(inverse_both), variant(inverse_unnormalized),
        ),
        Mistake(
            "The old terms are not rescaled when the maximum moves. Multiply both l and O by e^{m − m'} (eqs. 8.2 and "
            "8.4), computed before m is overwritten.",
            variant(no_factor),
        ),
        Mistake(
            "You rescale l and not O. O · l is a sum of the same exponentials and takes the same factor: eq. 8.4.",
            variant(only_l),
        ),
        Mistake(
            "You rescale O and not l. The sum so far is relative to the old maximum as well: eq. 8.2.",
            variant(only_o),
        ),
        Mistake(
            "What you return is un-normalized. That is the other form, eq. 8.3; here the state holds O divided by l, "
            "so undo the division, add, and divide by l' (eq. 8.4).",
            variant(unnormalized), variant(undivided),
        ),
        Mistake(
            "You divide by the wrong sum. The new O belongs to all keys read so far, so it is divided by the new l': "
            "eq. 8.4.",
            variant(divided_by_old), variant(divided_by_tile),
        ),
        Mistake(
            "A row that sees nothing gives NaN: −∞ − (−∞) in the exponent, or 0/0 in the division. Subtract 0 where "
            "m' is −∞ and divide by 1 where l' is 0 (section 7); such a row keeps O = 0, l = 0, m = −∞.",
            unguarded, unguarded_short, half_guarded,
        ),
        Mistake(
            "You use one maximum for all queries. Each row of the tile has its own fold; take the maximum along the "
            "keys only: eq. 8.1.",
            shared, shared_all,
        ),
        Mistake(
            "You forget what came before this tile. O, l and m live across the outer loop: fold the tile into them, "
            "eq. 8.2 and eq. 8.4.",
            forgets,
        ),
        Mistake(
            "Your new maximum is that of the tile alone. It is max(m, m̃), eq. 8.2; otherwise a tile of small scores "
            "lets the old terms overflow.",
            tile_maximum,
        ),
        Mistake(
            "Your third result is lse = m + log l. Algorithm 1 stores the maximum m' itself (eq. 8.2).",
            columns,
        ),
    ),
)
