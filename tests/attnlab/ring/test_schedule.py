"""Schedules of a ring, against positions compared one by one."""

import itertools

import pytest

from attnlab.ring import Schedule, positions
from attnlab.ring.schedule import LAYOUTS
from tests.support import refused

DEVICES = 1, 2, 3, 4, 5
LENGTHS = 0, 1, 2, 5, 8, 13, 20
SIDES = None, 0, 2, 5, 10**15


def seen(p, q, left, right):
    """Whether the token at position p sees the one at q."""
    return p != -1 != q and (left is None or q >= p - left) and (right is None or q <= p + right)


def needed(ring, held, rank, holder):
    """Whether the queries of a rank see any key of a holder."""
    return any(seen(p, q, ring.left, ring.right) for p in held[rank] for q in held[holder])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_token_has_one_slot(layout):
    for length, devices in itertools.product(LENGTHS, DEVICES):
        held = positions(length, devices, layout)
        size = 2 * -(-length // (2 * devices)) if layout == "zigzag" else -(-length // devices)
        assert [len(slots) for slots in held] == [size] * devices
        assert sorted(p for slots in held for p in slots if p != -1) == list(range(length))


@pytest.mark.parametrize(("layout", "expected"), [
    ("contiguous", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, -1, -1]]),
    ("striped", [[0, 3, 6, 9], [1, 4, 7, -1], [2, 5, 8, -1]]),
    ("zigzag", [[0, 1, -1, -1], [2, 3, 8, 9], [4, 5, 6, 7]]),
])  # fmt: skip
def test_who_has_what(layout, expected):
    assert positions(10, 3, layout) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_show_what_positions_say(layout):
    for length, devices, left, right in itertools.product((0, 1, 5, 13), DEVICES, SIDES, SIDES):
        ring, held = Schedule(length, devices, layout, left, right), positions(length, devices, layout)
        for rank, holder in itertools.product(range(devices), repeat=2):
            found = []
            for rows, cols, band in ring.parts(rank, holder):
                assert (band.n, band.m) == (rows.stop - rows.start, cols.stop - cols.start)
                pairs = [
                    (rows.start + i, cols.start + j)
                    for i, j in itertools.product(range(band.n), range(band.m))
                    if (band.left is None or j >= i + band.offset - band.left)
                    and (band.right is None or j <= i + band.offset + band.right)
                ]
                assert pairs, "a part in which nothing is visible"
                assert (band.left is None and band.right is None) or len(pairs) < band.n * band.m
                found += pairs
            slots = itertools.product(range(ring.size), repeat=2)
            assert sorted(found) == [(i, j) for i, j in slots if seen(held[rank][i], held[holder][j], left, right)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_block_travels_as_far_as_it_is_needed(layout):
    for length, devices, left, right in itertools.product((1, 5, 13), DEVICES, (None, 0, 3), (None, 0, 3)):
        ring, held = Schedule(length, devices, layout, left, right), positions(length, devices, layout)
        for rank, step in itertools.product(range(devices), repeat=2):
            holder = ring.holder(rank, step)
            assert (holder + step) % devices == rank
            later = [needed(ring, held, (holder + t) % devices, holder) for t in range(step + 1, devices)]
            assert ring.sends(rank, step) == any(later)
            if step + 1 < devices and ring.receives(rank, step):
                assert ring.sends((rank - 1) % devices, step)
            elif step + 1 < devices:  # what did not come is not needed either
                assert not needed(ring, held, rank, ring.holder(rank, step + 1))


@pytest.mark.parametrize("devices", DEVICES)
def test_sends_in_closed_form(devices):
    for layout, right in itertools.product(LAYOUTS, (None, 0)):
        ring = Schedule(6 * devices, devices, layout, None, right)
        full = [devices - 1] * devices
        causal = [*range(1, devices), 0]
        expected = causal if layout == "contiguous" and right == 0 else full
        assert [sum(ring.sends(rank, step) for step in range(devices - 1)) for rank in range(devices)] == expected


def test_long_sequences_are_arithmetic():
    ring = Schedule(2**50, 4, "zigzag", 2**20, 0)
    assert ring.size == 2**48
    assert [part.band.left for part in ring.parts(2, 2)] == [2**20] * 2


@pytest.mark.parametrize(("error", "arguments", "message"), [
    (ValueError, (10, 3, "ring"), "layout is 'ring'; it must be one of contiguous, striped, zigzag"),
    (ValueError, (-1, 3), "length is -1; it must be at least 0"),
    (ValueError, (10, 0), "devices is 0; it must be at least 1"),
    (TypeError, (10, 2.0), "devices is 2.0; it must be an integer"),
])  # fmt: skip
def test_errors(error, arguments, message):
    refused(error, message, positions, *arguments)
