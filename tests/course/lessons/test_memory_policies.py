"""The simulator of policies: a buddy allocator that keeps its slots, steps worked by hand, shares that add up, and what
was published."""

import random
import statistics

import pytest
from attnlab_course.lessons.lesson19.buddy_allocator import Buddy
from attnlab_course.lessons.lesson19.memory_policies import Lengths, PagedMemory, Reserved, draw, policies, simulate
from attnlab_course.published import compare

SLOTS = 12 * 2**30 // 819_200  # of OPT-13B beside its weights on 40 GB, as published


def test_drawn_lengths_have_the_means_and_deviations_asked_for():
    requests = draw(9000, 19.31, 58.45, seed=0)
    for lengths, mean in zip(zip(*requests), (19.31, 58.45)):
        assert statistics.mean(lengths) == pytest.approx(mean, rel=0.05)
        assert statistics.stdev(lengths) == pytest.approx(mean, rel=0.1)
    assert requests == draw(9000, 19.31, 58.45, seed=0) != draw(9000, 19.31, 58.45, seed=1)
    requests = draw(2000, 161.31, 337.99, seed=0, longest=300)
    assert (max(map(sum, requests)), min(map(min, requests)) >= 1) == (300, True)


@pytest.mark.parametrize("slots", [1, 16, 100, 15_728])
def test_buddy_gives_aligned_pieces_that_do_not_overlap_and_takes_them_back(slots):
    generator, buddy, pieces = random.Random(slots), Buddy(slots), []
    whole = [set(free) for free in buddy.free]
    assert sum(len(free) << k for k, free in enumerate(whole)) == slots
    for _ in range(300):
        size = generator.randint(1, max(1, slots // 4))
        if generator.random() < 0.6 and (piece := buddy.take(size)):
            first, k = piece
            assert 1 << k >= size > (1 << k) // 2
            assert first % (1 << k) == 0
            assert first + (1 << k) <= slots
            assert all(first + (1 << k) <= other or other + (1 << j) <= first for other, j in pieces)
            pieces.append(piece)
        elif pieces:
            buddy.give(*pieces.pop(generator.randrange(len(pieces))))
        assert sum(len(free) << k for k, free in enumerate(buddy.free)) + sum(1 << k for _, k in pieces) == slots
    for piece in pieces:
        buddy.give(*piece)
    assert buddy.free == whole


def test_buddy_splits_the_smallest_piece_that_is_large_enough():
    buddy = Buddy(12)  # 8 and 4
    assert buddy.take(3) == (8, 2)
    assert buddy.take(3) == (0, 2)
    assert buddy.take(5) is None
    assert buddy.take(4) == (4, 2)
    assert buddy.take(1) is None


def test_steps_worked_by_hand():
    """8 slots; two requests of 1 + 3 and 2 + 2 tokens run, the third waits for a place and ends the simulation."""
    requests = [Lengths(1, 3), Lengths(2, 2), Lengths(1, 1)]
    shares = simulate(Reserved(8, lambda request: 4), requests)
    assert shares == pytest.approx(((2 + 3 + 3 + 4) / 16, (2 + 1 + 1 + 0) / 16, 0, 0, 2))
    shares = simulate(PagedMemory(8, 4), requests)
    assert shares == pytest.approx((12 / 16, 4 / 16, 0, 0, 2))
    shares = simulate(Reserved(8, lambda request: 8), [Lengths(1, 3), Lengths(2, 2)])
    assert shares == pytest.approx(((2 + 3 + 4) / 24, (2 + 1 + 0) / 24, 12 / 24, 0, 1))
    shares = simulate(Reserved(9, lambda request: 5), [Lengths(1, 2), Lengths(1, 1)])  # 5 is rounded to 8
    assert shares == pytest.approx(((2 + 3) / 18, (1 + 0) / 18, 4 / 18, 8 / 18, 1))


def test_a_request_that_is_sent_back_keeps_what_it_has_written():
    """3 blocks of 2. The second request leaves with 2 tokens when both need a block, and comes back when the first is
    done; the third needs all blocks."""
    memory = PagedMemory(6, 2)
    shares = simulate(memory, [Lengths(1, 5), Lengths(1, 4), Lengths(4, 1)])
    steps = [(2, 2), (3, 0), (4, 0), (5, 0), (6, 0), (0, 3), (0, 4), (0, 5)]
    assert shares.tokens == pytest.approx(sum(map(sum, steps)) / (6 * len(steps)))
    assert shares.running == pytest.approx(9 / 8)
    assert [name in memory.manager for name in range(3)] == [False, False, True]
    assert memory.manager.free_blocks == 3 - 2


@pytest.mark.parametrize("memory", [Reserved(16, sum), PagedMemory(16, 4)], ids=["piece", "pages"])
def test_a_request_that_never_fits_is_an_error(memory):
    with pytest.raises(ValueError, match=r"prompt=10, output=7.* empty memory of 16 slots"):
        simulate(memory, [Lengths(2, 3), Lengths(10, 7), Lengths(12, 1)])
    with pytest.raises(ValueError, match="all 2 requests fit into 16 slots at once"):
        simulate(memory, [Lengths(1, 3), Lengths(2, 2)])


@pytest.mark.parametrize("name", policies(64))
def test_shares_are_shares(name):
    memory = policies(2048, block_size=8, longest=512)[name]
    *parts, running = simulate(memory, draw(100, 30, 60, seed=2, longest=512))
    assert sum(parts) == pytest.approx(1)
    assert min(parts) >= 0
    assert running >= 1
    assert (parts[2] == 0) == (name == "oracle")


def test_figures_2_and_13_of_vllm():
    found = [simulate(memory, draw(400, 161.31, 337.99, seed=1)) for memory in policies(SLOTS).values()]
    assert SLOTS == 15_728
    assert compare([0.204, 0.268, 0.382, 0.963], [shares.tokens for shares in found]).verdict == "reproduced"
    assert compare([7.00, 9.81, 13.62, 30.42], [shares.running for shares in found]).verdict == "reproduced"
    assert found[0].outside == pytest.approx(1 - 7 * 2048 / SLOTS)
