"""Lesson 10, ★: the weights of a tile from its scores and the lse of its queries."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_scores

import numpy as np


def recompute_weights(s: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """Weights (R, C) of a tile: scores s (R, C), −∞ where hidden; lse (R,) of the whole rows, −∞ where empty."""
    shift = np.where(lse == -np.inf, 0.0, lse)
    return np.exp(s - shift[:, None])  # eq. 10.1


def cases() -> list[Case]:
    """One key, a whole row, parts of rows, extremes, hidden keys, empty rows."""
    hidden, row, long = -np.inf, np.array([[0.0, 1.0, 2.0]]), np.random.default_rng(10).normal(size=(3, 8))
    lse, lse_long = (np.log(np.exp(x).sum(-1)) for x in (row, long))
    return [
        Case("ONE: a row of one key, so its weight is 1", (np.array([[2.0]]), np.array([2.0]))),
        Case("EYE: a tile that is a whole row, scores 0, 1, 2: the weights add up to 1", (row, lse)),
        Case("BLOCK: the first two keys of that row: the weights add up to less than 1", (row[:, :2], lse)),
        Case("PARTIAL: key 1 of three is hidden", (np.array([[0.0, hidden, 0.0]]), np.array([np.log(2)]))),
        Case("this tile is hidden from the query, other tiles are not", (np.full((1, 2), hidden), np.array([0.5]))),
        Case("EMPTY: a query that sees no key at all, beside one that does",
             (np.array([[hidden, hidden], [0.0, 0.0]]), np.array([hidden, np.log(4)]))),
        Case("FAR: the weight of the row lies in other tiles; here it is near e⁻⁴⁰, and 0 where hidden",
             (np.array([[-40.0, -41.0, hidden]]), np.zeros(1))),
        *far_scores(lambda s: (s, s.max(1) + 1), np.array([[0.0, 1.0], [1.0, 0.5]])),
        Case("RECT: eight keys, three queries", (long, lse_long)),
        Case("LOW: a score of −2·10⁹, and a key that is hidden", (np.array([[-2e9, hidden]]), np.array([-2e9]))),
        Case("POISON: a score that is NaN, of a key that is seen, must show",
             (np.array([[np.nan, 0.0], [0.0, 0.0]]), np.log([3, 3]))),
        Case("POISON: a score that is NaN, and so is the lse of its row: all of its weights are",
             (np.array([[0.5, np.nan], [0.0, 0.0]]), np.array([np.nan, np.log(2)]))),
        Case("EMPTY: query 2 sees nothing; key 1 is hidden from query 0, and 0.999 of the weight of query 1 lies here",
             (np.array([[0.0, hidden, 1.0], row[0], [hidden] * 3]), np.array([2.0, lse[0] - np.log(0.999), hidden]))),
    ]


def own(s: np.ndarray) -> np.ndarray:
    """Exponentials relative to the tile's own maximum."""
    top = s.max(-1, keepdims=True)
    return np.exp(s - np.where(top == -np.inf, 0.0, top))


SHIFT, P = "np.where(lse == -np.inf, 0.0, lse)", "np.exp(s - shift[:, None])"

EXERCISE = Exercise(
    lesson="10", stars=1, reference=recompute_weights, where="eq. 10.1", cases=cases,
    hints=(
        "Eq. 10.1: lse already holds the maximum and the logarithm of the sum, of the whole row.",
        "lse has an entry for each query: make it a column, lse[:, None], before you subtract.",
        "An empty row has s = −∞ and lse = −∞, and −∞ − (−∞) is NaN: subtract 0 there; e^−∞ is the 0 you want.",
    ),
    without={
        "np.where(lse == -np.inf, 0.0, lse)": phrases.empty_lse("section 1"),
        "np.exp(s - shift[:, None])": "You return log p. The weight is its exponential (eq. 10.1).",
    },
    mistakes=(
        Mistake("You measure from the tile's own maximum, or divide by the tile's own sum. A tile has only a part of "
                "each row, whose weights add up to that part's share. lse knows the whole row (eq. 10.1).",
                but(P, "own(s)"), but(P, "own(s) / np.maximum(own(s).sum(-1, keepdims=True), 1)"),
                but(P, f"{P} / {P}.sum(-1, keepdims=True)")),
        Mistake("You divide by l once more. lse holds log l, and subtracting it has done that (eq. 10.1).",
                but(P, f"{P} / np.exp(shift)[:, None]"), but(SHIFT, "lse", P, f"{P} / np.exp(shift)[:, None]")),
        Mistake(phrases.apart("eq. 10.1", shift="lse"),
                but(SHIFT, "lse", P, "np.exp(s) / np.exp(shift)[:, None]"),
                but(P, "np.exp(s) / np.exp(shift)[:, None]"), but(P, "np.exp(s) * np.exp(-shift)[:, None]")),
        Mistake("You line up lse with the keys. It has one number for each query: lse[:, None] (eq. 10.1).",
                but(SHIFT, "lse", "[:, None]", ""), but("[:, None]", "")),
        Mistake(phrases.nan_hidden("section 1"), but(SHIFT, "lse", P, f"np.nan_to_num({P})")),
    ),
)
