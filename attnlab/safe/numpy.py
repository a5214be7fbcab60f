"""Safe attention in NumPy: naive attention with each row of scores shifted by its maximum."""

import numpy as np

from attnlab.call import Inputs, Rules, Sizes, implements
from attnlab.safe import safe_attention as public
from attnlab.arrays.numpy import Lse, Out
from attnlab.arrays.numpy import accumulator, matmul, quiet
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import scores, tile
from attnlab.softmax.numpy import finite, positive


@implements(public)
@quiet
def safe_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.astype(accumulator(x.query), copy=False)

    s = scores(q, k, b, visible)
    m = s.max(-1, initial=-np.inf)
    s -= finite(m)[..., None]
    e = np.exp(s, out=s)
    l = e.sum(-1)
    p = np.divide(e, positive(l)[..., None], out=e)
    o = matmul(drop(p, x.seed, rules, rows, cols), v)
    return o.astype(x.query.dtype, copy=False), m + np.log(positive(l))
