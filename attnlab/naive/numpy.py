"""Naive attention in NumPy: e^s / Σ e^s, the whole matrix at once."""

import numpy as np

from attnlab.call import Rules, implements
from attnlab.naive import naive_attention as public
from attnlab.arrays.numpy import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.numpy import accumulator, matmul
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import scores, sees, take, visibility


@implements(public)
@np.errstate(invalid="ignore", divide="ignore", under="ignore")
def naive_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """Overflow is reported by NumPy and not repaired: that is this rung's lesson."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    visible = visibility(mask, bias, rules.band, rows, cols)
    q = rules.scale * query.astype(accumulator(query), copy=False)
    k, v = take(key, cols, visible), take(value, cols, visible)

    s = scores(q, k, visible, bias, rows, cols)
    e = np.exp(s, out=s)
    l = e.sum(-1)
    p = np.divide(e, np.where(sees(visible, cols), l, 1)[..., None], out=e)
    o = matmul(drop(p, seed, rules, rows, cols), v)
    return o.astype(query.dtype, copy=False), np.log(l)
