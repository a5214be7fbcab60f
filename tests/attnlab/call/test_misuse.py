"""Calls that cannot be meant, beyond those of the six: each is refused by argument, value and rule."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import attnlab
from attnlab import costs, measure
from attnlab.compat import scaled_dot_product_attention as sdpa
from attnlab.linear import Hedgehog, linear_attention
from attnlab.paged import PagedCache
from tests.support.libraries import LIBRARIES, back, to

X = np.ones((1, 2, 3, 4), np.float32)
T = torch.ones(1, 2, 3, 4)
STATE = np.ones((1, 2, 5, 4), np.float32), np.ones((1, 2, 5), np.float32)
DOUBLED = Hedgehog(np.ones((2, 4, 3), np.float32), np.ones((2, 4, 3), np.float32))


def pages():
    cache = PagedCache.empty(X, X, blocks=4, block_size=2)
    cache.manager.add("a")
    cache.manager.add("b")
    return cache


MISUSES = {
    "a mask by its place": (
        lambda: attnlab.attention(X, X, X, X > 0), TypeError, "method is a NumPy array; .* options .* by name"),
    "NumPy beside JAX": (
        lambda: attnlab.tiled_attention(jnp.asarray(X), X, X), TypeError, "key is a NumPy array.*jax.numpy.asarray"),
    "NumPy beside PyTorch": (
        lambda: attnlab.tiled_attention(-T, X, T), TypeError, "key is a NumPy array.*torch.as_tensor converts it"),
    "a sparse tensor": (
        lambda: attnlab.tiled_attention(T, T.to_sparse(), T), TypeError, "key is of layout torch.sparse_coo.*to_dense"),
    "features in a tuple": (
        lambda: linear_attention(X, X, X, features=tuple(DOUBLED)), TypeError, "tuple of ndarray, ndarray; .*Hedgehog"),
    "a state of other features": (
        lambda: linear_attention(X, X, X, state=STATE), ValueError, "state has 5 features, and features makes 4"),
    "a state of another Hedgehog": (
        lambda: linear_attention(X, X, X, state=STATE, features=DOUBLED), ValueError, "5 features, .* makes 6"),
    "a cache of unequal arrays": (
        lambda: attnlab.cache.KVCache(X, X[:, :, :2], 0).attend(X, X, X), ValueError, "3 slots for keys and 2"),
    "a state of other features, by a function": (
        lambda: linear_attention(X, X, X, state=STATE, features=np.exp), ValueError, "5 features, and .* makes 4"),
    "the same in JAX": (
        lambda: linear_attention(*[jnp.asarray(X)] * 3, state=tuple(map(jnp.asarray, STATE)), features=jnp.exp),
        ValueError, "5 features, and features makes 4"),
    "the same in PyTorch": (
        lambda: linear_attention(T, T, T, state=tuple(map(torch.as_tensor, STATE)), features=torch.exp),
        ValueError, "5 features, and features makes 4"),
    "features that mix tokens": (
        lambda: linear_attention(X, X, X, features=lambda x: np.cumsum(x, -2)), ValueError, "features mixes tokens"),
    "keys' features that mix tokens": (
        lambda: linear_attention(X, X, X, features=(np.exp, lambda x: np.exp(x) / np.exp(x).sum(-2, keepdims=True))),
        ValueError, "features mixes tokens"),
    "a string of names": (lambda: pages().attend(X[:, :, :1], "ab"), TypeError, r"names is 'ab'; .* \['ab'\] for one"),
    "a slot twice": (
        lambda: pages().write([1, 1], X[0, :, :2], X[0, :, :2]), ValueError, "slots has 1 slots twice"),
    "a negative length": (
        lambda: costs.forward("naive", -5, 4, 2, 2), ValueError, "n is -5; it must be at least 0"),
    "a negative size": (
        lambda: costs.backward("tiled", 4, 4, 2, -2), ValueError, "dv is -2; it must be at least 0"),
    "a cost of nothing": (
        lambda: costs.forward("foo", 4, 4, 2, 2), KeyError, "method is 'foo'; it must be one of naive"),
    "a gradient of nothing": (
        lambda: costs.backward("foo", 4, 4, 2, 2), KeyError, "method is 'foo'; it must be one of"),
    "no arrays": (lambda: measure.extra_bytes(np.sum), TypeError, "there are no arrays; extra_bytes"),
    "a list": (lambda: measure.extra_bytes(np.sum, [1]), TypeError, "the first of arrays is of type list"),
    "a mask of integers": (
        lambda: sdpa(T, T, T, torch.ones(3, 3, dtype=torch.int)), TypeError, "attn_mask has dtype torch.int32"),
    "NumPy for PyTorch's": (lambda: sdpa(X, X, X), TypeError, "query is a NumPy array"),
    "a mask of NumPy": (lambda: sdpa(-T, T, T, X[0, 0] > 0), TypeError, "attn_mask is a NumPy array"),
    "one axis": (lambda: sdpa(T[0, 0, 0], T, T), ValueError, r"query has shape \(4,\).*at least 2 axes"),
    "fewer key heads": (
        lambda: sdpa(torch.ones(1, 4, 3, 4), T, T), ValueError, "key has 2 heads, query has 4; enable_gqa=True groups"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_what_cannot_be_meant_is_refused(name):
    call, kind, message = MISUSES[name]
    with pytest.raises(kind, match=message) as error:
        call()
    assert error.type is kind


def test_distributed_tensors_are_refused_by_name():
    """Without a process group there is none; its class is known by its name."""

    class DTensor(torch.Tensor):
        pass

    with pytest.raises(TypeError, match=r"value is a DTensor; .*local_map, or on to_local\(\)"):
        attnlab.tiled_attention(T, T, T.as_subclass(DTensor))


@pytest.mark.parametrize("library", LIBRARIES)
def test_pages_that_are_read_before_they_are_written(library):
    """They hold NaN, and so does what comes out; what is written then is read alone."""
    x = to(library, X)
    cache = PagedCache.empty(x, x, blocks=4, block_size=2)
    cache.manager.add("a")
    step = cache.manager.append("a", 3)
    assert np.isnan(back(cache.attend(x[:, :, :1], ["a"]))).all()
    assert np.isfinite(back(cache.write(step.slots, x[0], x[0]).attend(x[:, :, :1], ["a"]))).all()
