"""Online attention in NumPy: lazy attention with a running maximum."""

import numpy as np

from attnlab.call import Rules, implements
from attnlab.online import online_attention as public
from attnlab.arrays.numpy import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.numpy import accumulator, quiet
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import scores, take, visibility
from attnlab.softmax.numpy import finite, positive


@implements(public)
@quiet
def online_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """When the maximum moves, what was summed before shrinks by e^{m − m'}."""
    dtype = accumulator(query)
    q, rows = query.astype(dtype, copy=False), slice(0, rules.band.n)
    m, l = np.full(q.shape[:-1], -np.inf, dtype), np.zeros(q.shape[:-1], dtype)
    o = np.zeros((*q.shape[:-1], value.shape[-1]), dtype)

    for j in range(rules.band.m):
        cols = slice(j, j + 1)
        visible = visibility(mask, bias, rules.band, rows, cols)
        k, v = rules.scale * take(key, cols, visible), take(value, cols, visible)
        s = scores(q, k, visible, bias, rows, cols)
        m_next = np.maximum(m, s[..., 0])
        shift = finite(m_next)
        alpha, p = np.exp(m - shift), np.exp(s - shift[..., None])
        l = alpha * l + p[..., 0]
        o *= alpha[..., None]
        o += drop(p, seed, rules, rows, cols) * v[..., None, :, :]
        m = m_next

    o /= positive(l)[..., None]
    return o.astype(query.dtype, copy=False), m + np.log(positive(l))
