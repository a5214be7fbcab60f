"""Naive attention in NumPy: e^s / Σ e^s, the whole matrix at once."""

import numpy as np

from attnlab.core.arrays.numpy import Lse, Out
from attnlab.core.arrays.numpy import accumulator, matmul
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.numpy import drop
from attnlab.core.scores.numpy import scores, tile
from attnlab.naive import naive_attention as public


@implements(public)
@np.errstate(invalid="ignore", divide="ignore", under="ignore")
def naive_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Overflow is reported by NumPy and not repaired: that is this rung's lesson."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.astype(accumulator(x.query), copy=False)

    s = scores(q, k, b, visible)  # (1.1), (..., Hk, G, N, M): the matrix
    e = np.exp(s, out=s)  # (1.2)
    l = e.sum(-1)  # (1.2)
    p = np.divide(e, np.where(visible.queries, l, 1)[..., None], out=e)  # (1.2)
    o = matmul(drop(p, x.seed, rules, rows, cols), v)  # (1.3), (..., Hk, G, N, Dv)
    return o.astype(x.query.dtype, copy=False), np.log(l)
