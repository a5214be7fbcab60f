"""Lazy attention in NumPy: one key at a time, the division at the end."""

import numpy as np

from attnlab.call import Rules, implements
from attnlab.lazy import lazy_attention as public
from attnlab.arrays.numpy import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.numpy import accumulator
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import scores, sees, take, visibility


@implements(public)
@np.errstate(invalid="ignore", divide="ignore", under="ignore")
def lazy_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """Overflow is reported by NumPy and not repaired, as in naive attention."""
    dtype = accumulator(query)
    q, rows = query.astype(dtype, copy=False), slice(0, rules.band.n)
    l, seen = np.zeros(q.shape[:-1], dtype), np.zeros(q.shape[:-1], bool)
    o = np.zeros((*q.shape[:-1], value.shape[-1]), dtype)

    for j in range(rules.band.m):
        cols = slice(j, j + 1)
        visible = visibility(mask, bias, rules.band, rows, cols)
        k, v = rules.scale * take(key, cols, visible), take(value, cols, visible)
        e = np.exp(scores(q, k, visible, bias, rows, cols))
        l += e[..., 0]
        o += drop(e, seed, rules, rows, cols) * v[..., None, :, :]
        seen |= sees(visible, cols)

    o /= np.where(seen, l, 1)[..., None]
    return o.astype(query.dtype, copy=False), np.log(l)
