"""Saved-tensor hooks in PyTorch: the same numbers, be they around a forward or a whole step; each unpacked once.

Activation checkpointing, use_reentrant=False, is made of such hooks.
"""

import itertools
from collections import Counter

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from attnlab import METHODS
from attnlab.linear import FORMS, linear_attention
from attnlab.linear.delta import delta_attention
from tests.attnlab.ring.processes import Ranks

OPTIONS = {
    "plain": {},
    "bias": {},
    "mask": {"mask": torch.arange(7) != 1},
    "dropout": {"dropout": 0.3, "seed": 3},
    "lse": {"return_lse": True},
}


def leaves(*shapes):
    """Random float64 tensors that want a gradient."""
    random = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes]


def gradients(call, x):
    """All results, and the gradients of a sum in which each element has a weight of its own; unpacked how often."""
    unpacked = Counter()

    def unpack(number_and_saved):
        number, saved = number_and_saved
        unpacked[number] += 1
        return saved

    numbers = itertools.count()
    with saved_tensors_hooks(lambda saved: (next(numbers), saved), unpack):
        results = call(*x)
    results = results if isinstance(results, tuple) else (results,)
    total = sum((y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)).sum() for y in results)
    return [*results, *torch.autograd.grad(total, x)], unpacked


def same_when_checkpointed(call, x):
    """Checkpointed and not, a whole step under hooks: equal results and gradients, no saved tensor unpacked twice."""
    expected, unpacked = gradients(call, x)
    assert unpacked
    assert set(unpacked.values()) == {1}
    found, _ = gradients(lambda *x: checkpoint(call, *x, use_reentrant=False), x)
    assert_close(found, expected, rtol=0, atol=0)
    with save_on_cpu():
        found, _ = gradients(call, x)
    assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_checkpointed_attention(method, option):
    def call(query, key, value, bias=None):
        return METHODS[method](query, key, value, causal=True, bias=bias, **OPTIONS[option])

    shapes = (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3), (4, 1, 7)
    same_when_checkpointed(call, leaves(*shapes[: 4 if option == "bias" else 3]))


@pytest.mark.parametrize("form", FORMS)
def test_checkpointed_linear_attention(form):
    def call(query, key, value):
        out, state = linear_attention(query, key, value, form=form, causal=True, chunk_size=2, return_state=True)
        return out, *state

    same_when_checkpointed(call, leaves((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 3)))


@pytest.mark.parametrize("form", FORMS)
def test_checkpointed_delta_attention(form):
    def call(query, key, value, beta):
        return delta_attention(query, key, value, beta=beta, form=form, chunk_size=2, return_state=True)

    same_when_checkpointed(call, leaves((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 3), (2, 2, 5)))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "tiled"])
def test_second_derivatives_under_hooks(method):
    x = leaves((2, 5, 8), (2, 7, 8), (2, 7, 3))

    def second():
        first = torch.autograd.grad(METHODS[method](*x, causal=True).sin().sum(), x, create_graph=True)
        return torch.autograd.grad(sum(y.sin().sum() for y in first), x)

    expected = second()
    with save_on_cpu():
        assert_close(second(), expected, rtol=0, atol=0)


def test_checkpointed_ring_attention():
    with Ranks(2, timeout=60) as ranks:
        for result in ranks.call("checkpointed", 2):
            assert result is None, result
