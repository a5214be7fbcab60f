"""Safe attention in PyTorch: naive attention with each row of scores shifted by its maximum."""

from attnlab.call import Rules, implements
from attnlab.safe import safe_attention as public
from attnlab.arrays.torch import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.torch import accumulator, matmul, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import only, read, scores
from attnlab.softmax.torch import finite, highest, positive

import torch


@implements(public)
@no_autocast
def safe_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1. The shift cancels, so it needs no gradient."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = read(key, value, mask, bias, rules.band, rows, cols)
    q = rules.scale * query.to(accumulator(query))

    s = scores(q, k, b, visible)
    m = highest(s)
    s = s - finite(m)[..., None]
    e = s.exp_()
    l = e.sum(-1)
    p = e / positive(l)[..., None]
    o = matmul(drop(p, seed, rules, rows, cols), v)
    return only(l != 0, o.to(query.dtype)), m + torch.log(positive(l))
