"""The counting machine: every access counts once, nothing else does, and the softmaxes cost what lesson 02 says."""

import copy
import math
import tracemalloc

import numpy as np
import pytest
from attnlab_course.instruments.machine import CountingVector
from attnlab_course.instruments.machine.softmaxes import TALLIES, count
from attnlab_course.instruments.machine.vector import traffic

SOFTMAXES = [(way, name) for way, softmaxes in TALLIES.items() for name in softmaxes]

# (loads, stores) per element, and (loads, stores) more per row
EXPECTED = {
    ("recompute", "naive"): ((2, 1), (0, 0)),
    ("recompute", "safe"): ((3, 1), (0, 0)),
    ("recompute", "online"): ((2, 1), (0, 0)),
    ("separate kernels", "naive"): ((3, 2), (1, 1)),
    ("separate kernels", "safe"): ((4, 2), (2, 2)),
    ("separate kernels", "online"): ((2, 1), (2, 2)),
    ("row on chip", "naive"): ((1, 1), (0, 0)),
    ("row on chip", "safe"): ((1, 1), (0, 0)),
    ("row on chip", "online"): ((1, 1), (0, 0)),
}


def test_reading_and_writing_count():
    x = CountingVector([1, 2, 3])
    assert x[0] + x[-1] == 4.0
    x[1] = 5
    assert list(x) == [1.0, 5.0, 3.0]
    assert (x.loads, x.stores) == (5, 1)


def test_looking_is_free():
    x = CountingVector([0, math.inf, -math.inf])
    assert len(x) == 3
    x.values()[0] = 7.0
    assert x.values() == [0.0, math.inf, -math.inf]
    assert repr(x) == "CountingVector of length 3, loads: 0, stores: 0"
    assert np.asarray(x).tolist() == x.values()
    assert x[np.int64(1)] == math.inf
    assert CountingVector.empty(2).values() == [0.0, 0.0]


def test_a_copy_is_another_vector_and_counts_from_zero():
    x = CountingVector([1.0, 2.0])
    list(x)
    for y in (copy.deepcopy(x), copy.copy(x)):
        before = y.stores
        y[0] = 7.0
        assert (x.values(), x.stores, y.stores) == ([1.0, 2.0], 0, before + 1)
    assert traffic(y) == (0, 1)


def test_loops_count_one_load_a_step():
    x = CountingVector(range(10))
    for v in x:
        if v == 3:
            break
    assert x.loads == 4
    assert (max(x), sum(x), x.loads) == (9.0, 45.0, 24)


def test_a_failed_access_does_not_count():
    x = CountingVector([1.0, 2.0])
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(IndexError):
        x[-3] = 0.0
    with pytest.raises((TypeError, ValueError)):
        x[0] = "one"
    assert traffic(x) == (0, 0)


@pytest.mark.parametrize("index", [slice(None), slice(0, 1), 0.0, "0", None, [0]])
def test_only_single_elements(index):
    x = CountingVector([1.0, 2.0])
    with pytest.raises(TypeError, match="one element at a time"):
        x[index]
    with pytest.raises(TypeError, match="one element at a time"):
        x[index] = 0.0


def test_traffic_adds_vectors_and_temporaries():
    x = CountingVector([1.0, 2.0])
    t = x.temporary(3)
    u = t.temporary(1)
    t[0] = x[0]
    u[0] = t[0]
    assert traffic(x) == (2, 2)
    assert (x.loads, x.stores) == (1, 0)
    assert traffic(x, CountingVector([0.0])) == (2, 2)
    assert traffic() == (0, 0)


def test_stores_take_no_memory():
    """What an algorithm holds beyond its vectors is measured by its peak: storing must not add to it."""
    out = CountingVector.empty(10_000)
    tracemalloc.start()
    for i in range(len(out)):
        out[i] = math.exp(-i)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(out)


@pytest.mark.parametrize(("way", "name"), SOFTMAXES)
def test_softmaxes_are_right(way, name):
    for shift in (0.0, 1000.0, -1000.0)[: 1 if name == "naive" else 3]:
        scores = np.random.default_rng(2).normal(size=17)
        x, out = CountingVector(scores + shift), CountingVector.empty(17)
        TALLIES[way][name](x, out)
        np.testing.assert_allclose(out.values(), np.exp(scores) / np.exp(scores).sum(), rtol=1e-9)
        assert x.values() == (scores + shift).tolist()


@pytest.mark.parametrize(("way", "name"), SOFTMAXES)
@pytest.mark.parametrize(("n", "rows"), [(1, 1), (2, 3), (17, 1), (8, 8)])
def test_counts(way, name, n, rows):
    per_element, per_row = EXPECTED[way, name]
    assert count(TALLIES[way][name], n, rows) == tuple(rows * (a * n + b) for a, b in zip(per_element, per_row))

