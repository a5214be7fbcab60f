"""Tiled attention works on a few heads at a time, so that their tiles stay in a cache: no result may depend on it."""

import numpy as np
import pytest
import torch

from attnlab import tiled_attention, tiled_attention_backward
from attnlab.arrays import heads as few

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


def watch(monkeypatch, elements):
    """The heads of each call of the loops from here on, with that many scores at once."""
    seen, replace = [], few.replace
    monkeypatch.setattr(few, "ELEMENTS", elements)
    monkeypatch.setattr(few, "replace", lambda rules, heads: seen.append(heads) or replace(rules, heads=heads))
    return seen


def results(library, options, batch=(BATCH,)):
    """out, lse and gradients."""
    query, key, value, dout = given(library, arrays(batch))
    options = given(library, options)
    out, lse = tiled_attention(query, key, value, return_lse=True, **options)
    grads = tiled_attention_backward(query, key, value, out, lse, dout, **options)
    return [np.asarray(x) for x in (out, lse, *grads)]


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
@pytest.mark.parametrize("batch", [(), (0,), (2, 1, 2)], ids=str)
def test_any_number_of_batch_axes(library, batch, monkeypatch):
    seen = watch(monkeypatch, 1)
    results(library, {}, batch)
    assert bool(seen) == (0 not in batch)


def test_parts_are_of_one_size(monkeypatch):
    """Five heads of which two fit make 2, 2 and 1; four of which three fit make 2 and 2."""
    x = np.zeros((5, 16, 4), "f")
    for heads, fit, want in [(5, 2, [2, 2, 1]), (4, 3, [2, 2]), (4, 4, [])]:
        with monkeypatch.context() as patch:
            seen = watch(patch, fit * 256)
            tiled_attention(x[:heads], x[:heads], x[:heads])
        assert [size for size, _ in seen] == want


def test_vmap_and_autograd(monkeypatch):
    monkeypatch.setattr(few, "ELEMENTS", 1)
    query, key, value, dout = (torch.from_numpy(x).requires_grad_() for x in arrays())
    out = torch.func.vmap(tiled_attention)(query, key, value)
    torch.testing.assert_close(out, tiled_attention(query, key, value))
    grads = torch.autograd.grad(out, (query, key, value), dout)
    monkeypatch.setattr(few, "ELEMENTS", 2**40)
    out = tiled_attention(query, key, value)
    torch.testing.assert_close(grads, torch.autograd.grad(out, (query, key, value), dout))
