"""Softmax, ⊕ and merge, in NumPy."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy import ndarray as Array

from attnlab.core.arrays.numpy import accumulator, quiet
from attnlab.core.shapes import Float

Triple = tuple[Float[Array, "*rows"], Float[Array, "*rows"], Float[Array, "*rows Dv"]]


@np.errstate(invalid="ignore", divide="ignore")
def naive_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """e^x / Σ e^x."""
    e = np.exp(x)
    l = e.sum(-1, keepdims=True, dtype=accumulator(x))
    empty = (x == -np.inf).all(-1, keepdims=True)
    return np.where(empty, e, e / l).astype(x.dtype)


@quiet
def safe_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """e^{x − m} / Σ e^{x − m}: three passes over x."""
    m = x.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(x - zero_if_empty(m))
    l = e.sum(-1, keepdims=True, dtype=accumulator(x))
    return (e / one_if_empty(l)).astype(x.dtype)


@quiet
def online_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """Two passes: one for m and l together, one to write p."""
    m = np.full(x.shape[:-1], -np.inf, x.dtype)
    l = np.zeros(x.shape[:-1], accumulator(x))
    for k in range(x.shape[-1]):
        m_next = np.maximum(m, x[..., k])
        shift = zero_if_empty(m_next)
        l = np.exp(m - shift) * l + np.exp(x[..., k] - shift)
        m = m_next
    return (np.exp(x - zero_if_empty(m)[..., None]) / one_if_empty(l)[..., None]).astype(x.dtype)


def combine(a: Triple, b: Triple) -> Triple:
    """The operator ⊕ on (m, l, o)."""
    (m_a, l_a, o_a), (m_b, l_b, o_b) = a, b
    m = np.maximum(m_a, m_b)
    alpha, beta = np.exp(m_a - zero_if_empty(m)), np.exp(m_b - zero_if_empty(m))
    return m, alpha * l_a + beta * l_b, alpha[..., None] * o_a + beta[..., None] * o_b


def zero_if_empty(m: Array | np.generic) -> Array:
    """The maximum to subtract: m, or 0 where nothing was seen yet, as −∞ − (−∞) is NaN."""
    return np.where(m == -np.inf, m.dtype.type(0), m)


def one_if_empty(l: Array | np.generic) -> Array:
    """The sum to divide by: l, or 1 where no weight was seen. After the shift every other l is at least 1."""
    return np.where(l == 0, l.dtype.type(1), l)


@quiet
def merge(*parts: Sequence[Array], double: bool) -> tuple[Array, Array]:
    """See :func:`attnlab.merge`: ⊕ with m = lse and l = 1, then normalized again."""
    dtype = np.float64 if double else np.float32
    m, l, o = reduce(combine, [part(out, lse, dtype) for out, lse in parts])
    return (o / one_if_empty(l)[..., None]).astype(parts[0][0].dtype), m + np.log(one_if_empty(l))


def part(out: Array, lse: Array, dtype: type) -> Triple:
    """A normalized result as a triple (m, l, o) = (lse, 1, out); an empty part has o = 0."""
    out = np.where(lse[..., None] == -np.inf, 0, out).astype(dtype)
    return lse.astype(dtype), np.ones(lse.shape, dtype), out


def unmarked(out: Array, lse: Array) -> tuple[Array, Array]:
    """A part with lse −∞ in rows without keys, where FlashAttention 2 has +∞ beside an out of 0."""
    return out, np.where((lse == np.inf) & (out == 0).all(-1), -np.inf, lse)
