"""Inputs on which a bug of lessons 21 and 22 cannot be seen, and that their checkers have others.

A ring that looks the wrong way shows under a causal mask, on three ranks or more, with blocks that differ. A
reduction over devices is right for a batch of one, or for small scores, by mistake.
"""

import pytest
from attnlab_course.checker.compare import agree
from attnlab_course.checker.exercise import but
from attnlab_course.checker.outcome import outcome
from attnlab_course.lessons.lesson21.exercises import fixed_ring, ring_outputs
from attnlab_course.lessons.lesson22.exercises import fixed_decode, tree_decode

WRONG_WAY = but("(rank.index - step)", "(rank.index + step)")


def same(exercise, case, edit=WRONG_WAY):
    """Whether the ring that looks the wrong way, or another wrong answer, gives the same as the right one."""
    wrong = edit.apply(exercise.reference)
    return agree(outcome(exercise, wrong, case), outcome(exercise, exercise.reference, case), 1e-9)


@pytest.mark.parametrize("case", ring_outputs.cases(), ids=lambda case: case.label)
def test_direction_shows_on_three_causal_ranks(case):
    cluster, *_, causal = case.args
    assert same(ring_outputs.EXERCISE, case) == (not causal or cluster.devices < 3)


@pytest.mark.parametrize("case", fixed_ring.cases(), ids=lambda case: case.label)
def test_direction_of_stripes_shows_on_three_ranks(case):
    assert same(fixed_ring.EXERCISE, case) == (case.args[0].devices < 3)


def test_equal_blocks_are_blind():
    """Three ranks with the same keys and values: the wrong block is the right one, but for what is visible of it."""
    cluster, q, k, v = fixed_ring.call(3, 2, 2, 3)
    case = fixed_ring.Case("", (cluster, [0 * x for x in q], k, [v[0][:1].repeat(2, 0)] * 3))
    assert same(fixed_ring.EXERCISE, case)


BATCH = but("np.exp(lse - m).swapaxes(1, 2)[..., None]", "np.exp(lse - m)")
NO_MAXIMUM = but("lse - np.where(np.isfinite(m), m, 0)", "lse")


@pytest.mark.parametrize("case", fixed_decode.cases(), ids=lambda case: case.label)
def test_a_weight_that_is_broadcast_shows_in_a_batch_of_two(case):
    """Lesson 22: (B, H, 1) times (B, 1, H, Dv) is right for B = 1."""
    assert same(fixed_decode.EXERCISE, case, BATCH) == (len(case.args[1][0]) == 1)


@pytest.mark.parametrize("case", tree_decode.cases(), ids=lambda case: case.label)
def test_sums_without_a_maximum_show_for_large_scores(case):
    assert same(tree_decode.EXERCISE, case, NO_MAXIMUM) == (case.label.split(":")[0] not in ("GROW", "LOW", "HIGH"))
