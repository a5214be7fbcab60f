"""Whether an answer keeps anything from call to call: an input anew, other numbers in arrays of the same shapes."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from attnlab_course.checker.exercise import Case, Exercise

import numpy as np

KEPT = (
    "Your function is right on every input, but wrong when it's called again with different numbers in arrays of the "
    "same shapes. Is anything kept from one call to the next?"
)


def redrawn(exercise: Exercise, cases: list[Case]) -> Case | None:
    """The last of an exercise's inputs that draws numbers at random, with others; None if there is none."""
    with other_numbers():
        drawn = exercise.cases()
    found = next((b for a, b in zip(cases[::-1], drawn[::-1]) if _other_numbers_alone(a, b)), None)
    return found and replace(found, label=f"{found.label}; with other numbers than before")


@contextlib.contextmanager
def other_numbers() -> Iterator[None]:
    """np.random.default_rng draws others than it does, from the same seeds."""
    make = np.random.default_rng
    with patch.object(np.random, "default_rng", lambda seed=None: make(np.random.SeedSequence(seed, spawn_key=(1,)))):
        yield


def _other_numbers_alone(a: Case, b: Case) -> bool:
    """Whether two inputs have the same shapes and dtypes, and other numbers."""
    pairs = [(x, y) for x, y in zip(a.args, b.args) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    alike = all(x.shape == y.shape and x.dtype == y.dtype for x, y in pairs)
    return alike and any(not np.array_equal(*pair) for pair in pairs)
