"""Blocks that have left a window are given back; attention with the window can't tell."""

import numpy as np
import pytest

import attnlab
from attnlab.paged import BlockManager, GroupedManager, OutOfBlocks, paged_attention
from attnlab.paged import numpy as paged_numpy
from attnlab.paged.call import TILE
from tests.attnlab.paged.test_cache import Sequences
from tests.support import refused
from tests.support.libraries import LIBRARIES, back, to

D = 4


@pytest.mark.parametrize(("size", "window"), [(1, 1), (4, 1), (4, 4), (4, 5), (3, 7), (8, 3)])
def test_attention_sees_what_the_window_holds(size, window):
    """Random appends and forks; no sequence holds more blocks than its window and its newest tokens need."""
    here = Sequences("numpy", 60, size, window)
    manager = here.cache.manager
    here.cache.key_pages[:] = here.cache.value_pages[:] = np.nan  # of nobody
    here.add("a")
    for turn, count in enumerate(here.random.integers(1, 9, 40).tolist()):
        name = "ab"[turn % 2] if "b" in here.lists else "a"
        here.append(name, count)
        here.check([name], n=count, window=(window - 1, 0))
        assert sum(block >= 0 for block in manager.table(name)) <= -(-(window + count - 2) // size) + 1
        if turn == 5:
            here.fork("a", "b")
        held = [block for name in here.lists for block in manager.table(name) if block >= 0]
        assert manager.free_blocks + len(set(held)) == 60
        assert [manager.references(block) for block in range(60)] == np.bincount(held, minlength=60).tolist()
    for name in "ab":
        manager.free(name)
    assert manager.free_blocks == 60


def test_a_long_text_fits_into_few_blocks():
    """Window 8, blocks of 4: three blocks serve any length."""
    manager = BlockManager(3, 4, window=8)
    manager.add("a")
    for _ in range(1000):
        manager.append("a", 1)
    refused(OutOfBlocks, "17 more tokens of 'a' need 5 blocks; 1 of 3", manager.append, "a", 17)
    assert manager.length("a") == 1000


def test_what_has_left_the_window_can_be_found_until_it_is_taken():
    manager = BlockManager(6, 2, window=2)
    manager.add("a")
    manager.append("a", [1, 2, 3, 4])
    manager.append("a", [5])
    assert manager.table("a")[0] == -1
    assert manager.add("b", [1, 2, 3, 4, 5]) == 4
    assert manager.append("b", [5]).copies == []
    assert manager.table("b")[0] == -1


def test_groups_are_one_manager():
    """A prefix counts as far as all groups have it; a group that is full changes none."""
    whole, narrow = BlockManager(9, 2), BlockManager(3, 2, window=2)
    groups = GroupedManager(whole, narrow)
    assert groups.add("a", [1, 2, 3]) == 0
    step = groups.append("a", [1, 2, 3])
    assert [len(slot) for slot in step.slots] == [2, 2, 2]
    groups.add("b")
    refused(OutOfBlocks, "where the window is 2", groups.append, "b", [7, 8, 9])
    assert (groups.length("b"), narrow.length("b"), groups.free_blocks) == (0, 0, 7)
    groups.fork("a", "c")
    assert groups.append("c", [4]).copies == [(0, 1, 2), (1, 1, 2)]
    for name in "abc":
        groups.free(name)
    assert (whole.free_blocks, narrow.free_blocks) == (9, 3)
    assert groups.add("d", [1, 2, 3]) == 2
    assert "d" in groups
    groups.append("d", [3, 3, 3, 3])
    groups.free("d")
    assert whole.num_cached_tokens([1, 2, 3, 3, 3]) >= groups.add("e", [1, 2, 3, 3, 3]) == narrow.length("e")


def test_what_has_left_the_window_cannot_come_back():
    """Guesses that were wrong are cut off; to cut deeper would need keys that are gone."""
    manager = GroupedManager(BlockManager(9, 2), BlockManager(9, 2, window=4))
    manager.add("a")
    for _ in range(9):
        manager.append("a", [0])
    manager.append("a", [1, 2, 3])
    manager.truncate("a", 10)
    assert [group.length("a") for group in manager.groups] == [10, 10]
    refused(ValueError, "have left the window", manager.truncate, "a", 3)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n", [1, 5])
def test_what_the_table_says_of_blocks_that_are_gone_has_no_effect(library, n):
    """They are NaN here."""
    draw, size, length, window = np.random.default_rng(1), 4, 30, 9
    key, value, query = draw.normal(size=(3, 1, 2, length, D)).astype(np.float32)
    pages = np.full((2, 9, 2, size, D), np.nan, np.float32)
    table = np.arange(1, 9)
    for t in range(length):
        pages[0, table[t // size], :, t % size], pages[1, table[t // size], :, t % size] = key[0, :, t], value[0, :, t]
    table[: (length - n - window + 1) // size] = 0  # which nobody has written
    arrays = query[:, :, -n:], *pages, table[None].astype(np.int32), np.array([length], np.int32)
    found = back(paged_attention(*(to(library, x) for x in arrays), window=(window - 1, 0)))
    expected = attnlab.naive_attention(query[:, :, -n:], key, value, causal=True, window=(window - 1, 0))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("size", [16, 128])
def test_pages_that_a_window_hides_are_not_read(size, monkeypatch):
    """A decoding step with a window of 64 reads as many pages at 512 tokens as at 8,192."""
    read, gather = [], paged_numpy.gather

    def counted(pages, ids, room):
        read.append(np.size(ids))
        return gather(pages, ids, room)

    monkeypatch.setattr(paged_numpy, "gather", counted)
    counts = []
    for length in (512, 8192):
        pages = np.zeros((2, length // size, 1, size, D))
        arrays = np.zeros((1, 1, 1, D)), *pages, np.arange(length // size)[None], np.array([length])
        read.clear()
        paged_attention(*arrays, window=(63, 0))
        counts.append(sum(read))
    assert counts[0] == counts[1] <= 2 * (TILE // size + 1)
