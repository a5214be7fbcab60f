"""Heads for tokens on the Cluster: numbers of one device, bytes in closed form."""

import numpy as np
import pytest

import attnlab
from attnlab.costs.ring import heads_bytes
from attnlab.ring import Cluster
from attnlab.ring.programs import by_heads


@pytest.mark.parametrize("devices", [1, 2, 3, 6])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (5, 0)}], ids=str)
def test_cluster(devices, options):
    random = np.random.default_rng(devices)
    q, k, v = (random.normal(size=(heads, 24, d)) for heads, d in ((12, 8), (6, 8), (6, 5)))
    cluster = Cluster(devices)
    outs = cluster.run(lambda rank, *x: by_heads(rank, *x, **options), *(np.split(x, devices, -2) for x in (q, k, v)))
    right = attnlab.safe_attention(q, k, v, **options)
    np.testing.assert_allclose(np.concatenate(outs, -2), right, atol=1e-12)
    assert cluster.bytes == heads_bytes(devices, 24, 12, 6, 8, 5, itemsize=8)
    assert len(cluster.messages) == 4 * devices * (devices - 1)


def test_heads_that_cannot_be_shared():
    x = np.zeros((3, 4, 8))
    with pytest.raises(ValueError, match="there are 3 heads, which 2 ranks cannot share equally; ring_attention can"):
        Cluster(2).run(by_heads, *([x, x] for _ in range(3)))
