"""Safe attention in NumPy: naive attention with each row of scores shifted by its maximum."""

import numpy as np

from attnlab.core.arrays.numpy import Lse, Out
from attnlab.core.arrays.numpy import accumulator, matmul, quiet
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.numpy import drop
from attnlab.core.scores.numpy import scores, tile
from attnlab.safe import safe_attention as public
from attnlab.softmax.numpy import one_if_empty, zero_if_empty


@implements(public)
@quiet
def safe_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.astype(accumulator(x.query), copy=False)

    s = scores(q, k, b, visible)  # (..., Hk, G, N, M): the matrix
    m = s.max(-1, initial=-np.inf)  # (2.3), one a row
    s -= zero_if_empty(m)[..., None]
    e = np.exp(s, out=s)  # (2.7)
    l = e.sum(-1)  # (2.3)
    p = np.divide(e, one_if_empty(l)[..., None], out=e)  # (2.3)
    o = matmul(drop(p, x.seed, rules, rows, cols), v)  # (..., Hk, G, N, Dv)
    return o.astype(x.query.dtype, copy=False), m + np.log(one_if_empty(l))
