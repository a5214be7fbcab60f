"""Tiled attention works on a few heads at a time, so that their tiles stay in a cache, in NumPy on each thread: no
result may depend on it."""

import math
import threading
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from attnlab import chunked_attention, tiled_attention, tiled_attention_backward
from attnlab.core import bundle
from attnlab.core.arrays import heads as few
from attnlab.core.arrays.heads import blas, side_by_side, threads
from attnlab.measure import extra_bytes

BATCH, HK, G, N, M, D = 3, 4, 2, 9, 11, 8
RANDOM = np.random.default_rng(0)
MASK = RANDOM.random((BATCH, HK * G, N, M)) < 0.6
SEGMENTS = RANDOM.integers(0, 3, (BATCH, N)), RANDOM.integers(0, 3, (BATCH, M))
OPTIONS = {
    "nothing": {},
    "causal, a window": {"causal": True, "window": 4, "offset": 2},
    "a mask": {"mask": MASK},
    "a mask of the batch": {"mask": MASK[:, :1]},
    "a mask of the heads": {"mask": MASK[:1]},
    "a mask of all": {"mask": MASK[0, 0]},
    "a bias of the heads": {"bias": RANDOM.standard_normal((HK * G, 1, M)).astype("f")},
    "segments": {"segments": SEGMENTS},
    "one pair of segments": {"segments": (SEGMENTS[0][:1], SEGMENTS[1][:1])},
    "dropout": {"dropout": 0.5, "seed": 3},
}


def arrays(batch=(BATCH,)):
    """Query, key, value and a cotangent."""
    random = np.random.default_rng(1)
    shapes = (HK * G, N, D), (HK, M, D), (HK, M, 5), (HK * G, N, 5)
    return [random.standard_normal((*batch, *shape)).astype("f") for shape in shapes]


def given(library, x):
    """Arrays of NumPy, anywhere in options, as those of the library."""
    if isinstance(x, dict):
        return {name: given(library, y) for name, y in x.items()}
    if isinstance(x, tuple | list):
        return type(x)(given(library, y) for y in x)
    return torch.from_numpy(x) if library == "torch" and isinstance(x, np.ndarray) else x


@pytest.fixture(autouse=True)
def no_call_is_taken_at_once(monkeypatch):
    monkeypatch.setattr(bundle, "AT_ONCE", 0)


def watch(monkeypatch, elements):
    """The heads of each call of the loops from here on, with that many scores at once."""
    seen, replace = [], few.replace
    monkeypatch.setattr(few, "CACHE_SCORES", elements)
    monkeypatch.setattr(few, "replace", lambda rules, heads: seen.append(heads) or replace(rules, heads=heads))
    return seen


def results(library, options, batch=(BATCH,)):
    """out, lse and gradients."""
    query, key, value, dout = given(library, arrays(batch))
    options = given(library, options)
    out, lse = tiled_attention(query, key, value, return_lse=True, **options)
    grads = tiled_attention_backward(query, key, value, out, lse, dout, **options)
    return [np.asarray(x) for x in (out, lse, *grads)]


@pytest.mark.thin(3)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("elements", [1, 2 * G * N * M, HK * G * N * M], ids=["a head", "two heads", "an example"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_no_result_depends_on_how_many_heads_are_worked_on_at_once(library, elements, options, monkeypatch):
    seen = watch(monkeypatch, 2**40)
    whole = results(library, options)
    assert not seen
    seen = watch(monkeypatch, elements)
    parts = results(library, options)
    assert bool(seen) == ("bias" not in options and "dropout" not in options)  # heads that depend on each other
    for a, b in zip(whole, parts, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 4}, {"window": (3, 1)}], ids=str)
@pytest.mark.parametrize("infinite", [False, True])
def test_no_result_depends_on_whether_all_scores_are_taken_at_once(library, options, infinite, monkeypatch):
    query, key, value, dout = given(library, arrays())
    if infinite:
        query, key = abs(query) * math.inf, -abs(key)  # scores of −∞ of infinite data weigh 0
    found, calls = [], []
    in_one_tile = bundle.Rules.in_one_tile
    monkeypatch.setattr(bundle.Rules, "in_one_tile", lambda *x: calls.append(in_one_tile(*x)) or calls[-1])
    for most in (0, 2**19):
        monkeypatch.setattr(bundle, "AT_ONCE", most)
        out, lse = tiled_attention(query, key, value, return_lse=True, **options)
        found.append([out, lse, *tiled_attention_backward(query, key, value, out, lse, dout, **options)])
    half = len(calls) // 2
    assert calls == [False] * half + [True] * half != []
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("batch", [(), (0,), (2, 1, 2)], ids=str)
def test_any_number_of_batch_axes(library, batch, monkeypatch):
    seen = watch(monkeypatch, 1)
    results(library, {}, batch)
    assert bool(seen) == (0 not in batch)


def test_vmap_and_autograd(monkeypatch):
    monkeypatch.setattr(few, "CACHE_SCORES", 1)
    query, key, value, dout = (torch.from_numpy(x).requires_grad_() for x in arrays())
    out = torch.func.vmap(tiled_attention)(query, key, value)
    torch.testing.assert_close(out, tiled_attention(query, key, value))
    grads = torch.autograd.grad(out, (query, key, value), dout)
    monkeypatch.setattr(few, "CACHE_SCORES", 2**40)
    out = tiled_attention(query, key, value)
    torch.testing.assert_close(grads, torch.autograd.grad(out, (query, key, value), dout))


@pytest.fixture
def at_work(monkeypatch):
    """NumPy works on two threads, however small a call is: the threads that do so from here on."""
    seen, replace = set(), few.replace

    def noted(rules, heads):
        seen.add(threading.current_thread())
        return replace(rules, heads=heads)

    monkeypatch.setattr(few, "WORTH_THREADS", 1)
    monkeypatch.setattr(few, "threads", lambda: 2)
    monkeypatch.setattr(few, "replace", noted)
    return seen


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_no_result_depends_on_threads(options, at_work):
    parts = results("numpy", options)
    assert threading.main_thread() not in at_work
    assert bool(at_work) == ("bias" not in options and "dropout" not in options)
    few.WORTH_THREADS = 2**60
    for a, b in zip(results("numpy", options), parts, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_chunked_attention_works_on_threads_as_well(at_work):
    query, key, value, _ = arrays()
    found = chunked_attention(query, key, value)
    assert at_work
    np.testing.assert_allclose(found, tiled_attention(query, key, value), rtol=1e-5, atol=1e-6)


def test_threads_warn_no_more_than_the_caller(at_work):
    query, key, value, _ = arrays()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiled_attention(1e30 * query, 1e30 * key, value)  # overflows
    assert at_work


def test_products_use_as_many_threads_afterwards_as_before():
    before, found = threads(), []
    with blas().limit(limits=2):
        side_by_side(lambda part: found.append(threads()), range(3), 2)
        with pytest.raises(ZeroDivisionError):
            side_by_side(lambda part: 1 / part, range(3), 2)
        assert [*found, threads()] == [1, 1, 1, 2]
        side_by_side(lambda part: found.append(threads()), range(1), 2)  # the lock is free again
    assert [*found, threads()] == [1, 1, 1, 1, before]


def test_a_second_call_at_the_same_time_leaves_the_threads_to_the_first():
    inside, done, found = threading.Event(), threading.Event(), []

    def wait(part):
        inside.set()
        done.wait(10)

    first = threading.Thread(target=lambda: side_by_side(wait, [0], 2))
    first.start()
    assert inside.wait(10)
    side_by_side(lambda part: found.append(threading.current_thread()), [0, 1], 2)
    done.set()
    first.join()
    assert found == 2 * [threading.current_thread()]


def test_one_thread_of_products_is_one_thread_of_ours(at_work, monkeypatch):
    monkeypatch.setattr(few, "threads", threads)
    with blas().limit(limits=1):
        results("numpy", {})
    assert not at_work


def test_extra_memory_does_not_depend_on_length(at_work):
    """But for lse, 96 KiB: a part of the results would be 3 MiB more. The peak depends on how the threads meet."""
    x = np.random.default_rng(0).standard_normal((3, 8, 4096, 64), "f")

    def peaks(n):
        tiled = partial(tiled_attention, window=256, block_q=512, block_k=512)
        return [extra_bytes(tiled, *x[..., :n, :]) for _ in range(3)]

    assert min(peaks(4096)) - max(peaks(1024)) < 2**20
    assert at_work
