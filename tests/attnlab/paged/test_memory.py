"""Extra memory of paged attention: one tile of keys, whatever the length; never a gathered cache."""

import functools

import numpy as np
import pytest

from attnlab.measure import extra_bytes, in_fresh_process
from attnlab.paged import paged_attention
from tests.support import needs
from tests.support.libraries import LIBRARIES, to

HQ, HK, D, SIZE = 8, 4, 64, 16
LENGTHS = 2048, 4096


def peak(library, length, n=1, kind="float32", batch=2):
    """Bytes beyond arguments and result of a step of two sequences."""
    pages = batch * length // SIZE
    table = np.random.default_rng(0).permutation(pages).astype(np.int32).reshape(batch, -1)
    query, cache = np.ones((batch, HQ, n, D), kind), np.ones((pages, HK, SIZE, D), kind)
    lengths = np.array([length] * batch, np.int32)
    arrays = [to(library, x) for x in (query, cache, cache, table, lengths)]
    if library != "jax":
        paged_attention(*arrays)
    return extra_bytes(functools.partial(paged_attention, return_lse=True), *arrays)


@functools.cache
def peaks(library):
    """All measurements of a library; those of JAX in a process whose compiler tells all."""
    needs(library)
    tasks = [{"library": library, "length": length} for length in LENGTHS]
    tasks += [{"library": library, "length": LENGTHS[0], **more} for more in ({"n": 300}, {"kind": "float16"})]
    return list(in_fresh_process(f"{__name__}:peak", tasks) if library == "jax" else [peak(**x) for x in tasks])


def tile(n=1, itemsize=4):
    """Bytes of a tile: keys and values in turn, in float32 beside those of half precision, and scores."""
    rows = HQ // HK * min(n, 256)
    keys = HK * 512 * D * (itemsize + 4 * (itemsize < 4))
    return keys + 4 * HK * rows * (512 + 3 * D)


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_tile_whatever_the_length(library):
    short, long, *_ = peaks(library)
    assert short <= 3 * tile()
    assert long <= short + 40 * LENGTHS[1] // SIZE  # a few integers for each page
    assert 2 * long < 2 * HK * LENGTHS[1] * D * 4  # keys and values of one sequence


@pytest.mark.parametrize("library", LIBRARIES)
def test_many_queries_and_half_precision(library):
    *_, queries, half = peaks(library)
    assert queries <= 3 * tile(300)
    assert half <= 3 * tile(itemsize=2)
