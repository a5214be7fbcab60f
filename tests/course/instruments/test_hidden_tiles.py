"""Hidden tiles cost nothing in NumPy: what attnlab's functions compute is counted on chip, as the machine sees it."""

import itertools

import numpy as np
import pytest
from attnlab_course.instruments.machine.machine import Arithmetic, on_chip

from attnlab.core.geometry import blocks
from tests.attnlab.call.test_geometry import CALLS, matrix, skips_hidden_tiles, skips_hidden_tiles_in_the_gradient


def products_of(function, *arrays):
    """Operations of the matrix products of a call."""
    work = Arithmetic()
    function(*(on_chip(x, work) for x in arrays))
    return work.products


@pytest.mark.parametrize("algorithm", ["chunked", "tiled"])
@pytest.mark.parametrize("name", CALLS)
def test_hidden_tiles_are_skipped(name, algorithm):
    skips_hidden_tiles(products_of, "numpy", name, algorithm)


@pytest.mark.parametrize("name", CALLS)
def test_hidden_tiles_are_skipped_in_the_gradient(name):
    """What shows something is a block mask here: where a tile is partial, np.where takes it off the machine."""
    seen = matrix(40, 50, CALLS[name].get("causal", False), CALLS[name].get("window"))
    tiles = [[seen[tile].any() for tile in itertools.product([rows], blocks(50, 8))] for rows in blocks(40, 4)]
    skips_hidden_tiles_in_the_gradient(products_of, "numpy", name, {"block_mask": np.array(tiles)})
