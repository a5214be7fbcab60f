"""Slots of a rolling cache, and the ranges of keys that a chunk meets, against lists that are filled token by token."""

import itertools

import numpy as np
import pytest

from attnlab.cache.slots import position_in_slot, ranges_after_write, ranges_before_write, slot, slots_written

RINGS = [(window, sinks) for window in (1, 2, 4) for sinks in (0, 1, 3)]


def filled(length, window, sinks):
    """The position in every slot, by writing one token after the other with a pointer that goes around."""
    ring, pointer = [-1] * (sinks + window), 0
    for position in range(length):
        ring[pointer] = position
        pointer = pointer + 1 if pointer + 1 < sinks + window else sinks
    return ring


@pytest.mark.parametrize(("window", "sinks"), RINGS)
def test_slots_hold_what_writing_leaves(window, sinks):
    for length in range(3 * window + sinks + 2):
        expected = filled(length, window, sinks)
        assert [position_in_slot(s, length, window, sinks) for s in range(window + sinks)] == expected
        np.testing.assert_array_equal(position_in_slot(np.arange(window + sinks), length, window, sinks), expected)
        for position in set(expected) - {-1}:
            assert expected[slot(position, window, sinks)] == position


@pytest.mark.parametrize(("window", "sinks"), RINGS)
def test_written_brings_one_state_to_the_next(window, sinks):
    for length, count in itertools.product(range(2 * window + sinks + 2), range(1, 2 * window + sinks + 2)):
        kept, slots = slots_written(length, count, window, sinks)
        ring = filled(length, window, sinks)
        for i, s in zip(kept, slots, strict=True):
            ring[s] = length + i
        assert ring == filled(length + count, window, sinks)
        assert len(set(slots)) == len(slots)


def seen(part, ring, length, count):
    """(query, position) of every pair that a part shows, by the definition of a band."""
    positions = ring[part.rows] if part.cached else range(length, length + count)[part.rows]
    band = part.band(count)
    for i, j in itertools.product(range(count), range(len(positions))):
        if (band.low is None or j >= i + band.low) and (band.high is None or j <= i + band.high):
            yield length + i, positions[j]


@pytest.mark.parametrize(("window", "sinks"), RINGS)
def test_ranges_are_disjoint_and_all_that_is_visible(window, sinks):
    for length, count in itertools.product(range(2 * window + sinks + 2), range(1, 2 * window + sinks + 2)):
        met = list(ranges_before_write(length, count, window, sinks))
        assert len(met) <= 4
        pairs = [pair for part in met for pair in seen(part, filled(length, window, sinks), length, count)]
        queries = range(length, length + count)
        assert sorted(pairs) == [(i, j) for i in queries for j in range(i + 1) if i - j < window or j < sinks]
        for part in met:
            assert {j < sinks for _, j in seen(part, filled(length, window, sinks), length, count)} <= {part.sinks}


@pytest.mark.parametrize(("window", "sinks"), RINGS)
@pytest.mark.parametrize("apart", [True, False])
def test_one_token_meets_every_filled_slot(window, sinks, apart):
    for length in range(2 * window + sinks + 2):
        ring, met = filled(length + 1, window, sinks), list(ranges_after_write(length, window, sinks, apart))
        assert sorted(j for part in met for j in ring[part.rows]) == sorted(set(ring) - {-1})
        assert all(part.band(1).full(slice(0, 1), slice(0, part.rows.stop - part.rows.start)) for part in met)
        assert not apart or all({j < sinks for j in ring[part.rows]} == {part.sinks} for part in met)
