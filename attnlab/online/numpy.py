"""Online attention in NumPy: lazy attention with a running maximum."""

import numpy as np

from attnlab.core.arrays.numpy import Lse, Out
from attnlab.core.arrays.numpy import accumulator, quiet
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.numpy import drop
from attnlab.core.scores.numpy import scores, tile
from attnlab.online import online_attention as public
from attnlab.softmax.numpy import one_if_empty, zero_if_empty


@implements(public)
@quiet
def online_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """When the maximum moves, what was summed before shrinks by e^{m − m'}."""
    dtype = accumulator(x.query)
    q, rows = x.query.astype(dtype, copy=False), slice(0, rules.band.n)
    m, l = np.full(q.shape[:-1], -np.inf, dtype), np.zeros(q.shape[:-1], dtype)
    o = np.zeros((*q.shape[:-1], x.value.shape[-1]), dtype)

    for j in range(rules.band.m):
        cols = slice(j, j + 1)
        k, v, b, visible = tile(rules, x, rows, cols)
        s = scores(q, rules.scale * k, b, visible)  # (..., Hk, G, N, 1): one key
        m_next = np.maximum(m, s[..., 0])  # (4.7)
        shift = zero_if_empty(m_next)
        alpha, p = np.exp(m - shift), np.exp(s - shift[..., None])  # alpha ≤ 1: old sums shrink when the maximum moves
        l = alpha * l + p[..., 0]  # (4.8)
        o *= alpha[..., None]  # (4.9)
        o += drop(p, x.seed, rules, rows, cols) * v[..., None, :, :]
        m = m_next

    o /= one_if_empty(l)[..., None]  # (4.10)
    return o.astype(x.query.dtype, copy=False), m + np.log(one_if_empty(l))
