"""Any split of a sequence gives the rows of the definition; a full cache refuses; what was rounded, where, and when."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
import torch

import attnlab
from attnlab.cache import KVCache, RollingCache
from attnlab.core.bundle import Inputs
from attnlab.kernels import refusal
from attnlab.measure import extra_bytes
from tests.support import refused
from tests.support.libraries import EPS, LIBRARIES, back, dtype, dtype_of, precision, to

N, WINDOW, SINKS, BASE = 14, 4, 2, 100.0
RNG = np.random.default_rng(0)
Q, K, V = (RNG.normal(size=(2, heads, N, size)) for heads, size in ((4, 6), (2, 6), (2, 3)))
KINDS = {
    "all": {},
    "window": dict(window=WINDOW),
    "sinks": dict(window=WINDOW, sinks=SINKS),
    "narrow": dict(window=1, sinks=3),
    "rotary": dict(window=WINDOW, sinks=SINKS, rotary=BASE),
    "cache positions": dict(window=WINDOW, sinks=SINKS, rotary=BASE, sink_positions="cache"),
    "cache positions without sinks": dict(window=WINDOW, rotary=BASE, sink_positions="cache"),
}
SPLITS = {
    "1": [1] * N, "3": [3, 3, 3, 3, 2], "window − 1": [3, 3, 3, 3, 2], "window": [4, 4, 4, 2], "window + 1": [5, 5, 4],
    "2 window + 1": [9, 5], "everything": [N], "mixed": [1, 6, 1, 6],
}  # fmt: skip
JAX_SPLITS = ("1", "mixed")  # few programs: a chunk is the same loop whatever its length


def turned(x, positions, base):
    """Rotated, by complex numbers."""
    half = x.shape[-1] // 2
    angle = np.asarray(positions)[..., None] * base ** (-np.arange(half) / half)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], -1)


def slow(q, k, v, window=None, sinks=0, rotary=None, sink_positions="text"):
    """(out, lse) row by row in float64. Every row takes the keys that are left, and rotates all of them anew."""
    out, lse = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(q.shape[:-1])
    for *head, i in np.ndindex(lse.shape):
        source = (*head[:-1], head[-1] // (q.shape[-3] // k.shape[-3])) if head else ()
        seen = np.array([j for j in range(i + 1) if window is None or i - j < window or j < sinks])
        query, keys = q[(*head, i)], k[source][seen]
        if rotary is not None:
            places = seen if sink_positions == "text" else np.arange(len(seen))
            query, keys = turned(query, places[-1], rotary), turned(keys, places, rotary)
        e = np.exp(keys @ query / math.sqrt(q.shape[-1]))
        out[(*head, i)], lse[(*head, i)] = e @ v[source][seen] / e.sum(), math.log(e.sum())
    return out, lse


def empty(key, value, kind="all", **options):
    """A cache of that kind for keys like these."""
    if kind == "all":
        return KVCache.empty(key, value, **{"capacity": N + 2, **options})
    return RollingCache.empty(key, value, **KINDS[kind], **options)


def feed(cache, split, *arrays):
    """(out, lse) of all tokens, in chunks of these sizes, and the cache after them."""
    results, start = [], 0
    for size in split:
        chunk = (x[..., start : start + size, :] for x in arrays)
        result, cache = cache.attend(*chunk, return_lse=True)
        results, start = [*results, [back(x) for x in result]], start + size
    out, lse = zip(*results)
    return np.concatenate(out, -2), np.concatenate(lse, -1), cache


FEW = ("all", "cache positions")  # in JAX, which compiles a program for every size


def splits(library):
    return JAX_SPLITS if library == "jax" else SPLITS


@pytest.mark.thin(4)
@pytest.mark.parametrize(("library", "kind"), [
    pytest.param(library, kind, marks=pytest.mark.full if library == "jax" and kind not in FEW else ())
    for library in LIBRARIES for kind in KINDS if library != "jax" or kind not in ("window", "narrow")
])  # fmt: skip
def test_any_split_gives_the_rows_of_the_definition(library, kind):
    expected = slow(Q, K, V, **KINDS[kind])
    for name in splits(library):
        with precision(library, Q):
            q, k, v = (to(library, x) for x in (Q, K, V))
            out, lse, cache = feed(empty(k, v, kind), SPLITS[name], q, k, v)
            assert int(cache.length) == N
        np.testing.assert_allclose(out, expected[0], atol=1e-12, err_msg=f"split {name}")
        np.testing.assert_allclose(lse, expected[1], atol=1e-12, err_msg=f"split {name}")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_one_head_without_an_axis(library):
    arrays = [to(library, x[0, 0]) for x in (Q, K, V)]
    for kind in ("all", "sinks"):
        out, lse, _ = feed(empty(*arrays[1:], kind), SPLITS["mixed"], *arrays)
        expected = slow(Q[0, 0], K[0, 0], V[0, 0], **KINDS[kind])
        np.testing.assert_allclose(out, expected[0], atol=1e-12)
        assert lse.shape == expected[1].shape


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_chunk_of_more_than_a_piece(library):
    """Pieces of 512 tokens are joined, whatever the window."""
    q, k, v = (RNG.normal(size=(1, 1100, 4)) for _ in range(3))
    out, _, _ = feed(RollingCache.empty(to(library, k), to(library, v), window=700, sinks=3), [1, 1099],
                     *(to(library, x) for x in (q, k, v)))  # fmt: skip
    i, j = np.ogrid[:1100, :1100]
    mask = (j <= i) & ((i - j < 700) | (j < 3))
    np.testing.assert_allclose(out, attnlab.naive_attention(q, k, v, mask=mask), atol=1e-12)


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["all", "sinks", "cache positions"])
def test_empty_slots_may_hold_anything(library, kind):
    for name in splits(library):
        with precision(library, Q):
            q, k, v = (to(library, x) for x in (Q, K, V))
            clean, poisoned = empty(k, v, kind), empty(k, v, kind)
            poison = to(library, np.full(tuple(poisoned.keys.shape), np.nan))
            poisoned = dataclasses.replace(poisoned, keys=poison, values=poison[..., : V.shape[-1]] + 0)
            results = [feed(cache, SPLITS[name], q, k, v)[:2] for cache in (clean, poisoned)]
        for a, b in zip(*results):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_full_cache_refuses_before_it_writes(library):
    q, k, v = (to(library, x.astype(np.float32)) for x in (Q, K, V))
    cache = empty(k, v, capacity=4)
    for i in range(3):
        _, cache = cache.attend(*(x[..., i : i + 1, :] for x in (q, k, v)))
    before = back(cache.keys).copy()
    with pytest.raises(ValueError, match="holds 3 of 4 tokens, and key brings 2 more"):
        cache.attend(*(x[..., 3:5, :] for x in (q, k, v)))
    assert int(cache.length) == 3
    np.testing.assert_array_equal(back(cache.keys), before)
    out, _ = cache.attend(*(x[..., 3:4, :] for x in (q, k, v)))
    np.testing.assert_allclose(back(out), slow(Q, K, V)[0][..., 3:4, :], atol=1e-6)


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("cache", ["all", "sinks"])
def test_keys_are_rounded_before_anything_else(library, kind, cache):
    """Those of the chunk at hand too, or splits would disagree."""
    q, k, v = (x.astype(np.float32) for x in (Q, K, V))
    rounded = (x.astype(dtype(kind)).astype(np.float64) for x in (k, v))
    expected = slow(q.astype(np.float64), *rounded, **KINDS[cache])[0]
    arrays = [to(library, x) for x in (q, k, v)]
    for name in ("mixed",) if library == "jax" else SPLITS:
        made = empty(*arrays[1:], cache, dtype=kind)
        assert (dtype_of(made.keys), dtype_of(made.values)) == (kind, kind)
        assert made.nbytes == 2 * 2 * 2 * made.capacity * (6 + 3)
        out, _, made = feed(made, SPLITS[name], *arrays)
        np.testing.assert_allclose(out, expected, atol=2e-6, err_msg=name)
        assert out.dtype == np.float32


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_parts_are_merged_before_they_are_rounded(library):
    """In half precision an output errs by half a unit in the last place and no more."""
    q, k, v = (x.astype(np.float16) for x in (Q, K, V))
    expected = slow(*(x.astype(np.float64) for x in (q, k, v)), **KINDS["sinks"])[0]
    arrays = [to(library, x) for x in (q, k, v)]
    out, _, _ = feed(empty(*arrays[1:], "sinks"), SPLITS["mixed"], *arrays)
    assert (np.abs(out - expected) <= EPS["float16"] / 2 * np.abs(expected) * 1.01 + 1e-6).all()


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("kind", ["all", "sinks"])
def test_written_in_place_and_copied(library, kind):
    """The same object comes back, in the same memory, and keeps nothing of the arrays that it was given."""
    q, k, v = (to(library, x) for x in (Q, K, V))
    cache = empty(k, v, kind)
    keys = cache.keys
    out, same = cache.attend(q, k, v)
    assert same is cache
    assert cache.keys is keys
    kept = back(keys).copy()
    k[...], v[...], out[...] = 0, 0, 0
    np.testing.assert_array_equal(back(cache.keys), kept)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_cache_tells(library):
    q, k, v = (to(library, x.astype(np.float32)) for x in (Q, K, V))
    for kind, capacity, rest in (("all", N + 2, [-1] * (N - 4)), ("sinks", WINDOW + SINKS, [])):
        cache = empty(k, v, kind)
        assert (int(cache.length), cache.capacity, cache.nbytes) == (0, capacity, 4 * 2 * 2 * capacity * (6 + 3))
        np.testing.assert_array_equal(back(cache.positions), [-1] * capacity)
        _, cache = cache.attend(*(x[..., :6, :] for x in (q, k, v)))
        assert int(cache.length) == 6
        np.testing.assert_array_equal(back(cache.positions), [0, 1, 2, 3, 4, 5, *rest])
    _, cache = cache.attend(*(x[..., 6:7, :] for x in (q, k, v)))
    np.testing.assert_array_equal(back(cache.positions), [0, 1, 6, 3, 4, 5])


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("kind", ["all", "sinks"])
def test_scale(library, kind):
    q, k, v = (to(library, x) for x in (Q, K, V))
    cache, other = empty(k, v, kind), empty(k, v, kind)
    out = cache.attend(q, k, v, scale=0.5)[0]
    np.testing.assert_allclose(back(out), back(other.attend(q * (0.5 * math.sqrt(6)), k, v)[0]), atol=1e-12)


ARRAYS = [np.zeros((2, heads, 3, 4), np.float32) for heads in (4, 2, 2)]
MADE = [  # options of RollingCache.empty, error, what it says
    (dict(window=0), ValueError, "window is 0"),
    (dict(window=2.0), TypeError, "window is 2.0"),
    (dict(window=2, sinks=-1), ValueError, "sinks is -1"),
    (dict(window=2, rotary=-1.0), ValueError, "rotary is -1.0"),
    (dict(window=2, rotary=1e4, sink_positions="slot"), ValueError, "sink_positions is 'slot'"),
    (dict(window=2, sink_positions="cache"), ValueError, "without rotary"),
    (dict(window=2, dtype="int8"), TypeError, "dtype is 'int8'"),
    (dict(window=2, dtype="float64"), TypeError, "dtype is float64, key has float32"),
    (dict(window=2, value=ARRAYS[1].astype(np.float16)), TypeError, "value has dtype float16"),
    (dict(window=2, value=ARRAYS[1][:, :1]), ValueError, "value has shape"),
    (dict(window=2, value=torch.zeros(2, 2, 3, 4)), TypeError, "value is a PyTorch array"),
    (dict(window=2, value=[1]), TypeError, "value is of type list"),
    (dict(window=2, rotary=1e4, key=ARRAYS[1][..., :3]), ValueError, "key has size 3"),
    (dict(window=2, key=ARRAYS[1].astype(int)), TypeError, "key has dtype int64"),
]
STEPS = [  # what replaces an argument of attend
    (dict(query=ARRAYS[0][..., :2, :]), ValueError, "query has 2 tokens, key has 3"),
    (dict(zip(("query", "key", "value"), (x[..., :0, :] for x in ARRAYS))), ValueError, "at least 1"),
    (dict(zip(("query", "key", "value"), (x[:1] for x in ARRAYS))), ValueError, "key has batch, heads and size"),
    (dict(value=ARRAYS[2][..., :3]), ValueError, "value has batch, heads and size"),
    (dict(zip(("query", "key", "value"), (x.astype(np.float64) for x in ARRAYS))), TypeError, "float64 goes with"),
    (dict(key=ARRAYS[1].astype(np.float16)), TypeError, "key has dtype float16"),
    (dict(zip(("query", "key", "value"), map(torch.from_numpy, ARRAYS))), TypeError, "query is a PyTorch array"),
    (dict(scale=math.inf), ValueError, "scale is inf"),
    (dict(scale=np.ones(1)), TypeError, "scale is an array"),
    (dict(return_lse=1), TypeError, "return_lse is 1"),
]


@pytest.mark.parametrize(("options", "error", "message"), MADE)
def test_what_cannot_be_made(options, error, message):
    arrays = {"key": ARRAYS[1], "value": ARRAYS[2]}
    refused(error, message, RollingCache.empty, **arrays | options)
    refused(ValueError, "capacity is 0", KVCache.empty, **arrays, capacity=0)


@pytest.mark.parametrize(("change", "error", "message"), STEPS)
def test_what_cannot_be_taken(change, error, message):
    """And nothing was written."""
    for cache in (KVCache.empty(*ARRAYS[1:], capacity=9), RollingCache.empty(*ARRAYS[1:], window=2)):
        refused(error, message, cache.attend, **dict(zip(("query", "key", "value"), ARRAYS)) | change)
        assert cache.length == 0


def test_kernels_leave_storage_in_another_dtype_to_the_loops():
    cache = KVCache.empty(*ARRAYS[1:], capacity=9, dtype="float16")
    assert "one for all three" in refusal(Inputs(ARRAYS[0], cache.keys, cache.values), (None, None))
    assert refusal(Inputs(*ARRAYS), (None, None)) is None


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_memory_depends_neither_on_the_chunk_nor_on_the_window(library):
    def extra(window, count):
        old, *arrays = (to(library, np.zeros((1, size, 64), np.float32)) for size in (4096, count, count, count))
        cache = RollingCache.empty(old, old, window=window)
        cache.attend(old, old, old)
        return extra_bytes(lambda *x: cache.attend(*x, return_lse=True)[0], *arrays)

    small, chunk, window = extra(1024, 1024), extra(1024, 2048), extra(2048, 1024)
    assert max(chunk, window) <= 1.02 * small


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_step_takes_no_more_memory_than_512_queries(library, kind):
    """And for 64 heads as much with 32,768 slots as with 16,384: tiles of one query are long, not large."""
    def extra(slots, count, heads=1):
        sizes = (1, 64), (heads, count), (1, count), (1, count)
        old, *new = (to(library, np.ones((*size, 64), kind)) for size in sizes)
        cache = KVCache.empty(old, old, capacity=slots)
        cache.length = slots - count
        cache.attend(*new)

        def step(*x):
            cache.length -= count
            return cache.attend(*x, return_lse=True)[0]

        return extra_bytes(step, *new)

    short, long = extra(16384, 1, 64), extra(32768, 1, 64)  # more scores than are taken at once
    assert abs(long - short) <= (4000 if library == "numpy" else 0)  # tracemalloc counts Python's objects too
    assert extra(16384, 1) <= extra(8192, 512)


def test_both_steps_have_one_signature():
    one, other = (list(inspect.signature(cache.attend).parameters.values()) for cache in (KVCache, RollingCache))
    assert [x for x in one if x.name not in ("mask", "lengths")] == other  # a rolling cache forgets its padding
