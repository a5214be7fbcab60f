"""Softmax, ⊕ and merge, in PyTorch."""

import math
from collections.abc import Sequence
from functools import reduce

from attnlab.core.arrays.torch import accumulator, matmul
from attnlab.core.bundle import Inputs
from attnlab.core.shapes import Float

import torch
from torch import Tensor as Array

Triple = tuple[Float[Array, "*rows"], Float[Array, "*rows"], Float[Array, "*rows Dv"]]


def naive_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """e^x / Σ e^x."""
    e = torch.exp(x)
    l = e.sum(-1, keepdim=True, dtype=accumulator(x))
    empty = (x == -math.inf).all(-1, keepdim=True)
    return (e / torch.where(empty, 1, l)).to(x.dtype)


def safe_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """e^{x − m} / Σ e^{x − m}: three passes over x."""
    m = highest(x)
    e = torch.exp(x - zero_if_empty(m)[..., None])
    l = e.sum(-1, keepdim=True, dtype=accumulator(x))
    return (e / one_if_empty(l)).to(x.dtype)


def online_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """Two passes: one for m and l together, one to write p."""
    m = x.new_full(x.shape[:-1], -math.inf)
    l = x.new_zeros(x.shape[:-1], dtype=accumulator(x))
    for x_k in x.unbind(-1):
        m_next = torch.maximum(m, x_k.detach())
        shift = zero_if_empty(m_next)
        l = torch.exp(m - shift) * l + torch.exp(x_k - shift)
        m = m_next
    return (torch.exp(x - zero_if_empty(m)[..., None]) / one_if_empty(l)[..., None]).to(x.dtype)


def combine(a: Triple, b: Triple) -> Triple:
    """The operator ⊕ on (m, l, o)."""
    (m_a, l_a, o_a), (m_b, l_b, o_b) = a, b
    m = torch.maximum(m_a, m_b).detach()
    alpha, beta = torch.exp(m_a - zero_if_empty(m)), torch.exp(m_b - zero_if_empty(m))
    return m, alpha * l_a + beta * l_b, alpha[..., None] * o_a + beta[..., None] * o_b


def highest(s: Float[Array, "*rows n"]) -> Float[Array, "*rows"]:
    """The maximum over the last axis, −∞ over nothing; a constant, since no result depends on the shift."""
    s = s.detach()
    return s.amax(-1) if s.shape[-1] else s.new_full(s.shape[:-1], -math.inf)


def empty_state(x: Inputs) -> Triple:
    """(−∞, 0, 0) for every query. Made from empty slices of the inputs, so that autograd and vmap know their shape."""
    dtype = accumulator(x.query)
    p = matmul(x.query[..., :0], x.key[..., :0, :0].mT).to(dtype)
    p = p if x.bias is None else p + x.bias[..., :0].to(dtype)
    l = p.sum(-1)
    return torch.full_like(l, -math.inf), l, matmul(p, x.value[..., :0, :].to(dtype))


def zero_if_empty(m: Array) -> Array:
    """The maximum to subtract: m, or 0 where nothing was seen yet, as −∞ − (−∞) is NaN."""
    return m.nan_to_num(math.nan, math.inf, 0)


def one_if_empty(l: Array) -> Array:
    """The sum to divide by: l, or 1 where no weight was seen. After the shift every other l is at least 1."""
    return torch.where(l == 0, 1, l)


def exp_(x: Array) -> Array:
    """e^x in place. On a CPU PyTorch's exp2 is several times as fast as its exp."""
    return x.mul_(1 / math.log(2)).exp2_()


def merge(*parts: Sequence[Array], double: bool) -> tuple[Array, Array]:
    """See :func:`attnlab.merge`: ⊕ with m = lse and l = 1, then normalized again."""
    dtype = torch.float64 if double else torch.float32
    m, l, o = reduce(combine, [part(out, lse, dtype) for out, lse in parts])
    return (o / one_if_empty(l)[..., None]).to(parts[0][0].dtype), m + torch.log(one_if_empty(l))


def part(out: Array, lse: Array, dtype: torch.dtype) -> Triple:
    """A normalized result as a triple (m, l, o) = (lse, 1, out); an empty part has o = 0."""
    out = torch.where(lse[..., None] == -math.inf, 0, out).to(dtype)
    return lse.to(dtype), torch.ones_like(lse, dtype=dtype), out


def unmarked(out: Array, lse: Array) -> tuple[Array, Array]:
    """A part with lse −∞ in rows without keys, where FlashAttention 2 has +∞ beside an out of 0."""
    return out, torch.where((lse == math.inf) & (out == 0).all(-1), -math.inf, lse)
