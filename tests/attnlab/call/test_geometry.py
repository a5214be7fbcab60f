"""The geometry of tiles against brute force, and that whole ones are not masked."""

import importlib
import itertools

import numpy as np
import pytest

from attnlab.core.arrays.jax_blocks import block
from attnlab.core.bundle import Inputs, Rules, check_call
from attnlab.core.geometry import TRACED, Band, blocks, tile_sizes
from tests.support import oracle
from tests.support.libraries import LIBRARIES, back, to

LENGTHS = range(8)
MASKS = [
    (causal, window)
    for causal in (False, True)
    for window in (None, 0, 1, 3, -1, (0, 2), (2, 0), (None, 1), (1, None), (-1, 0), (0, -1), (9, 9))
]

NO_SIZES = dict(block_q=None, block_k=None)


def matrix(n, m, causal, window, offset=None):
    """Visible positions by definition."""
    seen = [oracle.in_band(i, j, n, m, causal, window, offset) for i in range(n) for j in range(m)]
    return np.array(seen, bool).reshape(n, m)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("length", LENGTHS)
def test_blocks(length, size):
    """They cut a length, in parts of one size but for the last; and those that meet a range can be asked for."""
    cut = list(blocks(length, size))
    assert [k for part in cut for k in range(part.start, part.stop)] == list(range(length))
    assert all(part.stop - part.start == size for part in cut[:-1])
    for first, last in itertools.product(range(-3, 12), repeat=2):
        wanted = [b for b in blocks(length, size) if max(b.start, first) < min(b.stop, last)]
        assert list(blocks(length, size, first, last)) == wanted


@pytest.mark.thin(4)
@pytest.mark.parametrize(("causal", "window"), MASKS)
def test_every_tile_is_classified_right(causal, window):
    """Wherever the queries stand: visited iff it shows something, full iff it shows all."""
    sizes = itertools.product((0, 1, 2, 5), (0, 1, 3, 6), (1, 2, 3), (1, 3))
    for (n, m, rows_size, cols_size), offset in itertools.product(sizes, [None, *range(-7, 9), 2**40, -(2**40)]):
        band = Band.of(n, m, causal, window, offset)
        classify(band, matrix(n, m, causal, window, offset), rows_size, cols_size)
        assert all(-n <= d <= m for d in (band.low, band.high) if d is not None)


def classify(band, seen, rows_size, cols_size):
    """Every tile is visited iff it shows something, by queries and by keys, and full iff it shows all.

    It meets all iff every query sees something and every key is seen.
    """
    n, m = band.n, band.m
    for rows in blocks(n, rows_size):
        visited = list(band.key_blocks(rows, cols_size))
        for cols in blocks(m, cols_size):
            assert (cols in visited) == seen[rows, cols].any(), (n, m, rows, cols)
            tile = seen[rows, cols]
            assert band.full(rows, cols) == tile.all(), (n, m, rows, cols)
            assert band.meets_all(rows, cols) == (tile.any(-1).all() and tile.any(-2).all()), (n, m, rows, cols)
    for cols in blocks(m, cols_size):
        visited = list(band.query_blocks(cols, rows_size))
        assert visited == [rows for rows in blocks(n, rows_size) if seen[rows, cols].any()], (n, m, cols)


def test_blocks_begin_and_end_with_a_key_that_is_shown():
    band, shown = Band.of(4, 12, True, None, 6), bytes([0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0])
    assert list(band.key_blocks(slice(0, 4), 4)) == [slice(0, 4), slice(4, 8), slice(8, 12)]
    assert list(band.key_blocks(slice(0, 4), 4, shown)) == [slice(1, 2), slice(6, 8), slice(9, 10)]
    assert list(band.key_blocks(slice(0, 1), 4, shown)) == [slice(1, 2), slice(6, 8)]


def test_a_side_that_hides_nothing_is_unbounded():
    assert Band.of(5, 7, False, (6, 4)) == Band(5, 7)
    assert Band.of(5, 7, False, (5, 3)) == Band(5, 7, 5, 3)
    assert Band.of(1, 7, True) == Band(1, 7)
    assert Band.of(1, 6, False, (5, None), 11) == Band(1, 6, 0, None, 6)  # where M - 1 would say that it hides nothing
    assert Band.of(5, 7, True, None, 6) == Band(5, 7, offset=6)


def test_a_band_whose_place_is_data_cannot_be_asked_by_mistake():
    with pytest.raises(TypeError):
        Band.of(4, 4, True, None, TRACED).keys(slice(0, 2))


def test_one_query_takes_long_tiles():
    one = Band.of(1, 10**5, causal=True)
    assert tile_sizes((8, 4), None, None, band=one) == (128, 4096)
    assert tile_sizes((8, 1), None, None, band=one, longest=2048)[1] == 2048
    assert tile_sizes((8, 1), None, 7, band=one)[1] == 7
    assert [tile_sizes((8, h, 1), None, None, band=one, longest=2048)[1] for h in (1, 2, 8)] == [2048, 1024, 512]
    assert tile_sizes((8, 1), None, None, band=one, itemsize=2)[1] == 512
    assert tile_sizes((8, 1), None, None, band=Band.of(1, 10**5, True, None, TRACED))[1] == 4096
    for n, rules in ((2, dict(causal=True)), (1, dict(window=(99, 0))), (1, dict(window=(9, 0), offset=50))):
        assert tile_sizes((8, 1), None, None, band=Band.of(n, 10**5, **rules))[1] == 512


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_short_diagonal_takes_small_tiles(library):
    """But not in JAX, whose threads share small tiles badly."""
    causal, small = dict(causal=True), 512 if library == "jax" else 256
    for n, options, side in [(256, causal, 512), (257, causal, small), (2048, causal, small), (2049, causal, 512),
                             (600, {}, 512), (600, dict(window=(9, None)), 512)]:  # fmt: skip
        rules, sizes, _ = check_call(library, *[to(library, np.ones((1, n, 1), "f4"))] * 3, **options, **NO_SIZES)
        assert rules.tile_sizes(sizes) == (side, side), (n, options)
        assert rules.gradient_tile_sizes(sizes) == (256, side), (n, options)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("causal", "window"), MASKS)
def test_queries_and_keys_that_take_part_in_a_tile(library, causal, window):
    """They are those of its pairs, though nobody looked at them; what JAX takes from the block before is out."""
    n, m = 5, 6
    tiles = importlib.import_module(f"attnlab.core.scores.{library}")
    x = Inputs(*(to(library, np.ones(shape, "f4")) for shape in ((2, 1, n, 2), (2, m, 2), (2, m, 2))))
    for offset, (i, rows), (j, cols) in itertools.product((None, -3, 4), *map(enumerate, (blocks(n, 3), blocks(m, 4)))):
        rules = Rules(1.0, Band.of(n, m, causal, window, offset), (2, 1))
        seen = matrix(n, m, causal, window, offset)[rows, cols]
        if library == "jax":
            rows, cols = block(i, 3, n, once=True), block(j, 4, m, once=True)
            seen = np.pad(seen, [(3 - len(seen), 0), (4 - seen.shape[1], 0)])
        found = tiles.visibility(rules, x, rows, cols)
        pairs, queries, keys = (np.array(True) if isinstance(y, bool | None) else back(y) for y in found)
        assert np.array_equal(np.broadcast_to(pairs, (1, 1, *seen.shape))[0, 0], seen)
        assert (queries.ravel() == seen.any(-1)).all()
        assert (keys.ravel() == seen.any(-2)).all()


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("axis", [-1, -2], ids=["by queries", "by keys"])
def test_only_partial_tiles_pay_for_masking(axis, library):
    """A causal call of 4 × 4 tiles has 4 partial ones, on the diagonal; in the others nothing is compared."""
    tiles = importlib.import_module(f"attnlab.core.scores.{library}")
    x = Inputs(to(library, np.ones((1, 1, 1, 16, 2), "f4")), *[to(library, np.ones((1, 1, 16, 2), "f4"))] * 2)
    rules = Rules(1.0, Band.of(16, 16, True), (1, 1, 1))
    found = [visible for part in blocks(16, 4) for _, visible in tiles.visible_tiles(rules, x, part, 4, axis)]
    assert len(found) == 10
    assert sum(visible.pairs is not None for visible in found) == 4
