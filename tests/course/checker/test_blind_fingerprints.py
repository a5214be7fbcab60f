"""Fingerprints that cannot see a mistake: that it passes them, and that the checker finds it all the same."""

import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Stream
from attnlab_course.checker.library import to_library

TWICE = {"linear_recurrent": "counts twice", "linear_chunked": "count twice", "fixed_parallel": "a contains it again"}


def ones(name):
    """A call of 12 tokens whose values are all 1: so must be every output."""
    fq, fk = np.random.default_rng(17).uniform(0.1, 2, size=(2, 12, 4))
    v = np.ones((12, 3))
    if name == "linear_recurrent":
        return Stream(lambda: zip(fq, fk, v)), np.zeros((4, 3)), np.zeros(4)
    return (fq, fk, v, 4) + ((0.5,) if name == "linear_chunked" else ())


@pytest.mark.parametrize("name", TWICE)
def test_ones_cannot_see_a_key_that_counts_twice(name):
    exercise = check.find(name)
    (mistake,) = (m for m in exercise.mistakes if TWICE[name] in m.say and "ONES" in m.say)
    for wrong in mistake.wrong:
        found = wrong(*to_library(ones(name), exercise.library))
        assert np.allclose(found[0] if isinstance(found, tuple) else found, 1)
        assert mistake.say in examine(exercise, wrong).diagnosis
