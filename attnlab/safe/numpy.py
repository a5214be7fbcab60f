"""Safe attention in NumPy: naive attention with each row of scores shifted by its maximum."""

import numpy as np

from attnlab.call import Rules, implements
from attnlab.safe import safe_attention as public
from attnlab.arrays.numpy import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.numpy import accumulator, matmul, quiet
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import scores, take, visibility
from attnlab.softmax.numpy import finite, positive


@implements(public)
@quiet
def safe_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    visible = visibility(mask, bias, rules.band, rows, cols)
    q = rules.scale * query.astype(accumulator(query), copy=False)
    k, v = take(key, cols, visible), take(value, cols, visible)

    s = scores(q, k, visible, bias, rows, cols)
    m = s.max(-1, initial=-np.inf)
    s -= finite(m)[..., None]
    e = np.exp(s, out=s)
    l = e.sum(-1)
    p = np.divide(e, positive(l)[..., None], out=e)
    o = matmul(drop(p, seed, rules, rows, cols), v)
    return o.astype(query.dtype, copy=False), m + np.log(positive(l))
