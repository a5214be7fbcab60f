"""A stream of pairs (key, value) as an argument: each pair flows by once."""

from collections.abc import Iterable

from attnlab_course.checker.exercise import Stream

import numpy as np

Pairs = Iterable[tuple[np.ndarray, np.ndarray]]


def stream(keys: np.ndarray, values: np.ndarray) -> Stream:
    """The pairs of two arrays, to be read once."""
    return Stream(lambda: zip(keys, values))


def scored(scores: list[float], values: np.ndarray) -> tuple[np.ndarray, Stream]:
    """A query of size 1 whose scores are the numbers given: scale 1, keys = scores."""
    return np.ones(1), stream(np.array(scores)[:, None], values)


def random_row(m: int) -> tuple[np.ndarray, Stream]:
    """A random query of size 8 and a stream of ``m`` random pairs."""
    rng = np.random.default_rng(m)
    return rng.normal(size=8), stream(*rng.normal(size=(2, m, 8)))
