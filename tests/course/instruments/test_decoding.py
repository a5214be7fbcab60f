"""Steps of decoding on the machine: right, every load counted, and equal to the closed forms."""

import numpy as np
import pytest
from attnlab_course.instruments.machine import Machine, decoding_forward, split_forward

from attnlab import costs
from attnlab.cache import KVCache, quantize
from attnlab.core.geometry import blocks
from tests.support import oracle

HEADS = [(4, 4), (4, 2), (4, 1), (1, 1), (6, 2)]
SIZES = [(11, 5, 3), (1, 2, 4), (12, 3, 3)]


def draw(heads, kv_heads, m, d, dv, tail=0):
    """Q (Hq, D), K and V (Hk, m + tail, ·), NaN in the slots that nobody filled."""
    random = np.random.default_rng(heads + m)
    shapes = {"Q": (heads, d), "K": (kv_heads, m + tail, d), "V": (kv_heads, m + tail, dv)}
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    arrays["K"][:, m:] = arrays["V"][:, m:] = np.nan
    return arrays


def expected(arrays, m, scale=None):
    """Attention of every head by itself: (out, lse)."""
    q, k, v = arrays.values()
    group = len(q) // len(k)
    heads = [oracle.attention(q[h : h + 1], k[h // group, :m], v[h // group, :m], scale=scale) for h in range(len(q))]
    return [np.concatenate([getattr(head, name) for head in heads]) for name in ("out", "lse")]


def check(on, found, arrays, m, cost, scale=None):
    """The results are attention's, and the machine counted ``cost``."""
    for result, right in zip(found, expected(arrays, m, scale), strict=True):
        np.testing.assert_allclose(on.fetch(result), right, atol=1e-13)
    assert (on.loads, on.stores, on.fills) == (cost.reads, cost.writes, cost.fills)
    assert on.bytes == cost.bytes
    assert (on.work.products, on.work.exponentials, on.work.rest) == (cost.products, cost.exponentials, cost.rest)


@pytest.mark.parametrize("block_k", [1, 4, 99])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("m", "d", "dv"), SIZES)
def test_a_step_counts_its_closed_form(heads, kv_heads, m, d, dv, block_k):
    arrays, on = draw(heads, kv_heads, m, d, dv, tail=3), Machine(itemsize=4)
    refs = [on.put(name, x) for name, x in arrays.items()]
    found = decoding_forward(on, *refs, m, block_k=block_k, scale=0.7)
    cost = costs.decoding(m, d, dv, heads=heads, kv_heads=kv_heads, block_k=block_k, itemsize=4)
    check(on, found, arrays, m, cost, scale=0.7)
    assert on.elements == kv_heads * m * (d + dv) + heads * (d + dv + 1)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("m", "d", "dv"), [(11, 5, 3), (1, 4, 4)])
def test_a_latent_is_read_once(heads, kv_heads, m, d, dv):
    arrays, on = draw(heads, kv_heads, m, d, dv, tail=3), Machine(itemsize=4)
    arrays["V"] = arrays["K"][..., :dv]
    refs = [on.put(name, arrays[name]) for name in "QK"]
    found = decoding_forward(on, *refs, dv, m, block_k=4)
    check(on, found, arrays, m, costs.decoding(m, d, dv, heads=heads, kv_heads=kv_heads, block_k=4, latent=True,
                                               itemsize=4))
    assert on.elements == kv_heads * m * d + heads * (d + dv + 1)
    split = costs.decoding(m, d, dv, heads=heads, kv_heads=kv_heads, parts=3, latent=True)
    assert split.reads["K"] == kv_heads * m * d
    assert "V" not in split.reads


@pytest.mark.parametrize(("bits", "window"), [(16, None), (16, 40), (4, None), (4, 64), (2, 32)])
@pytest.mark.parametrize("n", [1, 31, 32, 95, 127])
def test_what_a_cut_leaves_of_a_cache(n, bits, window):
    """The arrays' own bytes, where the group that is open has all but one of its tokens: 31, 95 and 127 of n."""
    key, value = np.ones((2, 3, n, 64), np.float16)
    if bits == 16:
        held = KVCache.empty(key, value, capacity=min(n, window or n)).nbytes
    else:
        complete, full = n // 32 * 32, n % 32
        kept = slice(max(0, complete - (window or n)), complete)
        few = [quantize(x[:, kept], bits, axis=axis, group=32).nbytes for x, axis in ((key, -2), (value, -1))]
        held = sum(few) + 2 * 2 * 3 * 64 * full
    most = costs.cache_bytes(n, 2 * 3 * 64, window=window, bits=bits)
    assert most == held if bits == 16 or n % 32 == 31 else most >= held


@pytest.mark.parametrize("size", [1, 4, 99])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("m", "d", "dv"), SIZES)
def test_a_step_in_parts_counts_its_closed_form(heads, kv_heads, m, d, dv, size):
    arrays, on = draw(heads, kv_heads, m, d, dv, tail=3), Machine(itemsize=4)
    parts = list(blocks(m, size))
    found = split_forward(on, *(on.put(name, x) for name, x in arrays.items()), parts)
    cost = costs.decoding(m, d, dv, heads=heads, kv_heads=kv_heads, parts=len(parts), itemsize=4)
    check(on, found, arrays, m, cost)
    p = len(parts)
    assert on.elements == kv_heads * m * (d + dv) + heads * (p * d + dv + 1) + 2 * p * heads * (dv + 2)

