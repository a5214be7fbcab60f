"""Inputs on which a bug of lesson 21 cannot be seen, and that its checkers have others.

A ring that looks the wrong way shows under a causal mask, on three ranks or more, with blocks that differ.
"""

import pytest

from attnlab.check.compare import agree
from attnlab.check.exercise import but
from attnlab.check.outcome import outcome
from attnlab.course.lesson21 import mended_ring, ring

WRONG_WAY = but("(rank.index - step)", "(rank.index + step)")


def same(exercise, case):
    """Whether the ring that looks the wrong way gives the same as the right one."""
    wrong = WRONG_WAY.apply(exercise.reference)
    return agree(outcome(exercise, wrong, case), outcome(exercise, exercise.reference, case), 1e-9)


@pytest.mark.parametrize("case", ring.cases(), ids=lambda case: case.label)
def test_direction_shows_on_three_causal_ranks(case):
    cluster, *_, causal = case.args
    assert same(ring.EXERCISE, case) == (not causal or cluster.devices < 3)


@pytest.mark.parametrize("case", mended_ring.cases(), ids=lambda case: case.label)
def test_direction_of_stripes_shows_on_three_ranks(case):
    assert same(mended_ring.EXERCISE, case) == (case.args[0].devices < 3)


def test_equal_blocks_are_blind():
    """Three ranks with the same keys and values: the wrong block is the right one, but for what is visible of it."""
    cluster, q, k, v = mended_ring.call(3, 2, 2, 3)
    case = mended_ring.Case("", (cluster, [0 * x for x in q], k, [v[0][:1].repeat(2, 0)] * 3))
    assert same(mended_ring.EXERCISE, case)
