"""Decoding, pages and linear attention on the machine: right, and all that is counted is the closed form."""

from fractions import Fraction

import numpy as np
import pytest
from attnlab_course.instruments import machine
from attnlab_course.instruments.machine import Machine

from attnlab import costs
from attnlab.cache import KVCache, quantize
from attnlab.core.geometry import blocks
from attnlab.linear import FEATURES, feature_count, linear_attention
from tests.attnlab.paged.pages import Paged
from tests.support import oracle

HEADS = [(4, 4), (4, 2), (4, 1), (1, 1), (6, 2)]
SIZES = [(11, 5, 3), (1, 2, 4), (12, 3, 3)]


def put(on, arrays):
    """References to the arrays, brought into HBM."""
    return [on.put(name, x) for name, x in arrays.items()]


def check(on, found, expected, cost):
    """The results are right, and the machine counted ``cost``."""
    for result, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(on.fetch(result), right, atol=1e-12)
    assert (on.loads, on.stores, on.fills) == ({x: n for x, n in cost.reads.items() if n}, cost.writes, cost.fills)
    assert on.bytes == cost.bytes
    assert (on.work.products, on.work.exponentials, on.work.rest) == (cost.products, cost.exponentials, cost.rest)


def draw(heads, kv_heads, m, d, dv):
    """Q (Hq, D), K and V (Hk, m + 3, ·), NaN in the slots that nobody filled."""
    random = np.random.default_rng(heads + m)
    shapes = {"Q": (heads, d), "K": (kv_heads, m + 3, d), "V": (kv_heads, m + 3, dv)}
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    arrays["K"][:, m:] = arrays["V"][:, m:] = np.nan
    return arrays


def by_head(arrays, m, scale=None):
    """Attention of every head by itself: (out, lse)."""
    q, k, v = arrays.values()
    group = len(q) // len(k)
    heads = [oracle.attention(q[h : h + 1], k[h // group, :m], v[h // group, :m], scale=scale) for h in range(len(q))]
    return [np.concatenate([getattr(head, name) for head in heads]) for name in ("out", "lse")]


@pytest.mark.parametrize("block_k", [1, 4, 99])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("m", "d", "dv"), SIZES)
def test_a_step_of_decoding(heads, kv_heads, m, d, dv, block_k):
    arrays, on = draw(heads, kv_heads, m, d, dv), Machine(itemsize=4)
    found = machine.decoding_forward(on, *put(on, arrays), m, block_k=block_k, scale=0.7)
    cost = costs.decoding(m, d, dv, heads=heads, kv_heads=kv_heads, block_k=block_k, itemsize=4)
    check(on, found, by_head(arrays, m, 0.7), cost)
    assert on.elements == kv_heads * m * (d + dv) + heads * (d + dv + 1)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("m", "d", "dv"), [(11, 5, 3), (1, 4, 4)])
def test_a_latent_is_read_once(heads, kv_heads, m, d, dv):
    arrays, on = draw(heads, kv_heads, m, d, dv), Machine(itemsize=4)
    arrays["V"] = arrays["K"][..., :dv]
    found = machine.decoding_forward(on, *(on.put(name, arrays[name]) for name in "QK"), dv, m, block_k=4)
    sizes = dict(heads=heads, kv_heads=kv_heads, latent=True)
    check(on, found, by_head(arrays, m), costs.decoding(m, d, dv, **sizes, block_k=4, itemsize=4))
    assert on.elements == kv_heads * m * d + heads * (d + dv + 1)
    split = costs.decoding(m, d, dv, **sizes, parts=3)
    assert split.reads["K"] == kv_heads * m * d
    assert "V" not in split.reads


@pytest.mark.parametrize("size", [1, 4, 99])
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("m", "d", "dv"), SIZES)
def test_a_step_in_parts(heads, kv_heads, m, d, dv, size):
    arrays, on, parts = draw(heads, kv_heads, m, d, dv), Machine(itemsize=4), list(blocks(m, size))
    found = machine.split_forward(on, *put(on, arrays), parts)
    cost = costs.decoding(m, d, dv, heads=heads, kv_heads=kv_heads, parts=len(parts), itemsize=4)
    check(on, found, by_head(arrays, m), cost)
    p = len(parts)
    assert on.elements == kv_heads * m * (d + dv) + heads * (p * d + dv + 1) + 2 * p * heads * (dv + 2)


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


@pytest.mark.parametrize("block_q", [1, 3, 8])
@pytest.mark.parametrize("case", [
    dict(lengths=[11], n=1, size=4),
    dict(lengths=[12], n=5, size=4, dv=3),
    dict(lengths=[3], n=7, size=2),
    dict(lengths=[20], n=6, size=3, window=(5, 0)),
    dict(lengths=[0], n=2, size=4),
    dict(lengths=[6], n=2, size=4, scale=2),
], ids=str)  # fmt: skip
def test_pages(case, block_q):
    """Every load of the table is counted, too."""
    paged, on = Paged(hq=1, hk=1, kind="float64", **case), Machine(itemsize=4)
    query, keys, values, (table,), (length,) = paged.arrays
    refs = put(on, {"Q": query[0, 0], "K": keys[:, 0], "V": values[:, 0], "table": table})
    found = machine.paged_forward(on, *refs, int(length), block_q=block_q, **paged.options)
    sizes = query.shape[-2], int(length), query.shape[-1], values.shape[-1]
    options = dict(block_q=block_q, block_k=case["size"], window=case.get("window"), itemsize=4)
    check(on, found, [x[0, 0] for x in paged.expected()[:2]], costs.forward("paged", *sizes, **options))
    pages = -(-int(length) // case["size"])
    assert on.loads["table"] <= pages * -(-sizes[0] // block_q)
    assert sizes[0] > 1 or on.loads["table"] == pages


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("size", [0, None, 1, 4, 99])
@pytest.mark.parametrize(("n", "d", "dv"), [(11, 3, 5), (1, 4, 2), (12, 4, 4), (8, 5, 1)])
def test_forms_of_linear_attention(n, d, dv, size, features):
    """The quadratic form (0), the recurrent one (None), and chunks; without a state and with one."""
    random, f = np.random.default_rng(n), feature_count(features, d)
    arrays = {name: random.normal(size=(n, size)) for name, size in zip("QKV", (d, d, dv))}
    about = dict(features=features, causal=True)
    if size == 0:
        on = Machine(itemsize=4)
        found = machine.linear_quadratic_forward(on, *put(on, arrays), features=features, block_q=3)
        cost = costs.linear("quadratic", n, d, dv, features=features, itemsize=4)
        check(on, [found], [linear_attention(*arrays.values(), **about)], cost)
        assert on.elements == 2 * n * (d + dv) + 2 * n * n
        return
    form, chunk = ("recurrent", {}) if size is None else ("chunked", {"chunk_size": size})
    before = None
    for again in (False, True):
        on = Machine(itemsize=4)
        state = before and tuple(on.put(name, x) for name, x in zip("UZ", before))
        forward = getattr(machine, f"linear_{form}_forward")
        out, state = forward(on, *put(on, arrays), features=features, state=state, **chunk)
        right, after = linear_attention(*arrays.values(), **about, state=before, return_state=True)
        cost = costs.linear(form, n, d, dv, features=features, state=again, itemsize=4, **chunk)
        check(on, [out, *state], [right, *after], cost)
        assert on.elements == 2 * n * (d + dv) + (1 + again) * f * (dv + 1)
        before = after


def test_sizes_of_linear_attention():
    """Caches as large as a state, for published sizes; memory by the docstring: C² + 2CF + F (Dv + 1) in chunks."""
    based = feature_count("taylor", 16)
    assert costs.break_even_length(64, 64, 64) == 32.5
    assert int(costs.break_even_length(feature_count("taylor", 64), 64, 64)) == 1089
    assert int(costs.break_even_length(based, 16, 64)) == 124
    assert Fraction(costs.state_elements(based, 64), 16 + 64) == Fraction(9945, 80)
    n, d, c, f = 4096, 64, 128, 64
    state, tile = f * 65, c * c + 2 * c * f
    assert costs.linear_extra_elements("chunked", n, n, d, d) == tile + state
    assert costs.linear_extra_elements("chunked", n, n, d, d, gradient=True) == 32 * state + 3 * n * d + 3 * tile
    assert costs.linear_extra_elements("chunked", 5, 5, d, d) == 5 * 5 + 2 * 5 * f + state
    assert costs.linear_extra_elements("quadratic", n, n, d, d, group=2) == 2 * n * n + 3 * n * f + state
    for call, many in ((costs.linear, 3), (costs.linear_extra_elements, 4)):
        with pytest.raises(KeyError, match="parallel"):
            call("parallel", *[8] * many)
