"""Saved-tensor hooks in PyTorch: the same numbers, be they around a forward or a whole step; each unpacked once.

Activation checkpointing, use_reentrant=False, is made of such hooks.
"""

import itertools
from collections import Counter
from functools import partial

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from attnlab import METHODS
from tests.support import needs

needs("torch")
from tests.attnlab.call.test_changed_in_place import CALLS, ROWS, summed  # noqa: E402
from tests.attnlab.ring.processes import Ranks  # noqa: E402

CALLS = CALLS | {f"{name}, lse": (partial(f, causal=True, return_lse=True), ROWS) for name, f in METHODS.items()}

def leaves(*shapes):
    """Random float64 tensors that want a gradient."""
    random = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes]


def gradients(call, x):
    """The results and the gradients of their sum; unpacked how often."""
    unpacked = Counter()

    def unpack(number_and_saved):
        number, saved = number_and_saved
        unpacked[number] += 1
        return saved

    numbers = itertools.count()
    with saved_tensors_hooks(lambda saved: (next(numbers), saved), unpack):
        results = call(*x)
    return [results, *torch.autograd.grad(summed(results), x)], unpacked


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


def learning(name):
    """A call as a function of the tensors that learn, and those."""
    call, arrays = CALLS[name]
    learns = {key: x.clone().requires_grad_() for key, x in arrays.items() if x.is_floating_point()}
    rest = {key: x for key, x in arrays.items() if key not in learns}
    return lambda *x: call(**dict(zip(learns, x)), **rest), list(learns.values())


@pytest.mark.parametrize("name", CALLS)
def test_checkpointed_calls(name):
    same_when_checkpointed(*learning(name))


@pytest.mark.parametrize("name", CALLS)
def test_torch_func(name):
    """Its gradient, which knows no hooks, is autograd's, alone and mapped."""
    call, x = learning(name)
    expected = torch.autograd.grad(summed(call(*x)), x)
    gradient = torch.func.grad(lambda *x: summed(call(*x)), tuple(range(len(x))))
    assert_close(gradient(*(y.detach() for y in x)), expected)
    if name.startswith(("linear", "delta")):
        found = torch.func.vmap(gradient)(*(y.detach()[None] for y in x))
        assert_close([y[0] for y in found], list(expected))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "tiled"])
def test_second_derivatives_under_hooks(method):
    x = leaves((2, 5, 8), (2, 7, 8), (2, 7, 3))

    def second():
        first = torch.autograd.grad(METHODS[method](*x, causal=True).sin().sum(), x, create_graph=True)
        return torch.autograd.grad(sum(y.sin().sum() for y in first), x)

    expected = second()
    with save_on_cpu():
        assert_close(second(), expected, rtol=0, atol=0)


@pytest.mark.full
def test_checkpointed_ring_attention():
    with Ranks(2, timeout=60) as ranks:
        for result in ranks.call("checkpointed", 2):
            assert result is None, result
