"""The reductions of lesson 22 give every rank the same, what one device gives, for the steps and bytes it says."""

import numpy as np
import pytest
from attnlab_course.lessons.lesson22.reductions import halving, one_shot

import attnlab
from attnlab.ring import Cluster


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
@pytest.mark.parametrize("program", [one_shot, halving])
def test_a_reduction_over_the_ranks(program, devices):
    rng = np.random.default_rng(devices)
    q, k, v = (rng.normal(size=(2, 8, n, 16)) for n in (1, 21, 21))
    ends = np.linspace(0, 21, devices)[1:].astype(int) if devices > 1 else []  # the last shard is empty

    def whole(rank, q, k, v):
        return (yield from program(rank, *rank.attend(q, k, v)))

    shards = [np.split(x, ends, -2) for x in (k, v)]
    cluster, clock = Cluster(devices), Cluster(devices, latency=1.0)
    results = cluster.run(whole, [q] * devices, *shards)
    clock.run(whole, [q] * devices, *shards)
    out, lse = attnlab.tiled_attention(q, k, v, return_lse=True)
    np.testing.assert_allclose(results[0][0], out, rtol=0, atol=1e-14)
    np.testing.assert_allclose(results[0][1], lse, rtol=0, atol=1e-14)
    assert len({result[0].tobytes() for result in results}) == 1
    array, log = lse.nbytes * 17, devices.bit_length() - 1
    steps, arrays = (min(log, 1), devices * (devices - 1)) if program is one_shot else (2 * log, 2 * (devices - 1))
    assert (clock.time, cluster.bytes) == (steps, arrays * array)
