"""Lazy attention in NumPy: one key at a time, the division at the end."""

import numpy as np

from attnlab.core.arrays.numpy import Lse, Out
from attnlab.core.arrays.numpy import accumulator
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.numpy import drop
from attnlab.core.scores.numpy import scores, tile
from attnlab.lazy import lazy_attention as public


@implements(public)
@np.errstate(invalid="ignore", divide="ignore", under="ignore")
def lazy_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Overflow is reported by NumPy and not repaired, as in naive attention."""
    dtype = accumulator(x.query)
    q, rows = x.query.astype(dtype, copy=False), slice(0, rules.band.n)
    l, seen = np.zeros(q.shape[:-1], dtype), np.zeros(q.shape[:-1], bool)
    o = np.zeros((*q.shape[:-1], x.value.shape[-1]), dtype)

    for j in range(rules.band.m):
        cols = slice(j, j + 1)
        k, v, b, visible = tile(rules, x, rows, cols)
        e = np.exp(scores(q, rules.scale * k, b, visible))  # (4.1), (..., Hk, G, N, 1): one key
        l += e[..., 0]  # (4.2)
        o += drop(e, x.seed, rules, rows, cols) * v[..., None, :, :]  # (4.2), undivided
        seen |= visible.queries

    o /= np.where(seen, l, 1)[..., None]  # (4.1): once, at the end
    return o.astype(x.query.dtype, copy=False), np.log(l)
