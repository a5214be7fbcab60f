"""Online attention in NumPy: lazy attention with a running maximum."""

import numpy as np

from attnlab.call import Inputs, Rules, Sizes, implements
from attnlab.online import online_attention as public
from attnlab.arrays.numpy import Lse, Out
from attnlab.arrays.numpy import accumulator, quiet
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import scores, tile
from attnlab.softmax.numpy import finite, positive


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
        s = scores(q, rules.scale * k, b, visible)
        m_next = np.maximum(m, s[..., 0])
        shift = finite(m_next)
        alpha, p = np.exp(m - shift), np.exp(s - shift[..., None])
        l = alpha * l + p[..., 0]
        o *= alpha[..., None]
        o += drop(p, x.seed, rules, rows, cols) * v[..., None, :, :]
        m = m_next

    o /= positive(l)[..., None]
    return o.astype(x.query.dtype, copy=False), m + np.log(positive(l))
