"""Inputs that many exercises share: tables of numbers, rows of scores, (q, k, v), streams of pairs and masks of tiles.

Scores far from 0 are in :mod:`attnlab_course.checker.fingerprints`, counting machines with tiles in
:mod:`attnlab_course.checker.machines`.
"""

from collections.abc import Callable, Iterable

from attnlab_course.checker.exercise import Case, Stream
from attnlab_course.checker.fingerprints import ALONE

import numpy as np

Array = np.ndarray
Pairs = Iterable[tuple[np.ndarray, np.ndarray]]

SCORES = {
    "ONE: a single score, 5": [5.0],
    "CONST: the scores 1, 1, 1": [1.0, 1.0, 1.0],
    "UP: the scores 0, 1, 2": [0.0, 1.0, 2.0],
    "DOWN: the scores 2, 1, 0": [2.0, 1.0, 0.0],
    "HIGH: the scores 1000, 1002, 1001": [1000.0, 1002.0, 1001.0],
    "LOW: the scores −100000, −100001, −99999": [-100000.0, -100001.0, -99999.0],
    "LOW: a single score, −1e300": [ALONE],
    "EMPTY, at first: the scores −∞, 0, 1": [-np.inf, 0.0, 1.0],
    "EMPTY, between: the scores 0, −∞, 1": [0.0, -np.inf, 1.0],
    "EMPTY: the scores −∞, −∞": [-np.inf, -np.inf],
}
"""Short rows of scores: on each of them another wrong fold or softmax fails."""


def table(*rows: tuple) -> Callable[[], list[Case]]:
    """What an exercise has as ``cases`` if all its arguments are numbers: each row is a label and the arguments."""
    return lambda: [Case(label, tuple(args)) for label, *args in rows]


def score_rows(make: Callable[[list[float]], tuple], *kinds: str, about: str = "") -> list[Case]:
    """The arguments that ``make`` returns for each of SCORES whose label begins with one of ``kinds``, smallest first.

        score_rows(lambda scores: scored(scores, np.eye(len(scores))), "ONE", "UP", "DOWN", about="; values EYE")
    """
    return [Case(label + about, make(scores)) for label, scores in SCORES.items() if label.startswith(kinds)]


def qkv(n: int, m: int, d: int = 4, dv: int = 3, heads: tuple[int, ...] = ()) -> tuple[Array, Array, Array]:
    """Random queries (*heads, n, d), keys (*heads, m, d) and values (*heads, m, dv); if dv is 0, EYE: the identity."""
    rng = np.random.default_rng(10 * n + m)
    q, k = rng.normal(size=(*heads, n, d)), rng.normal(size=(*heads, m, d))
    return q, k, rng.normal(size=(*heads, m, dv)) if dv else np.broadcast_to(np.eye(m), (*heads, m, m)).copy()


def stream(keys: Array, values: Array) -> Stream:
    """The pairs (key, value) of two arrays; each flows by once."""
    return Stream(lambda: zip(keys, values))


def scored(scores: list[float], values: Array) -> tuple[Array, Stream]:
    """A query of size 1 whose scores are the numbers given: scale 1, keys = scores."""
    return np.ones(1), stream(np.array(scores)[:, None], values)


def random_row(m: int) -> tuple[Array, Stream]:
    """A random query of size 8 and a stream of ``m`` random pairs."""
    rng = np.random.default_rng(m)
    return rng.normal(size=8), stream(*rng.normal(size=(2, m, 8)))


def tiles(rows: str) -> Array:
    """The mask of tiles, or of scores, that is written as "110 011": a word for each row, 1 where it is visible."""
    return np.array([[x == "1" for x in row] for row in rows.split()])
