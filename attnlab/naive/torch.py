"""Naive attention in PyTorch: e^s / Σ e^s, the whole matrix at once."""

import math

from attnlab.call import Rules, implements
from attnlab.naive import naive_attention as public
from attnlab.arrays.torch import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.torch import accumulator, matmul, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import only, read, scores, sees

import torch


@implements(public)
@no_autocast
def naive_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """Overflow is not repaired: that is this rung's lesson."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = read(key, value, mask, bias, rules.band, rows, cols)
    q = rules.scale * query.to(accumulator(query))

    e = torch.exp(scores(q, k, b, visible))
    l = e.sum(-1)
    seen = torch.ones_like(l, dtype=torch.bool) & sees(visible)
    l = torch.where(seen, l, 1)
    p = e / l[..., None]
    o = matmul(drop(p, seed, rules, rows, cols), v)
    return only(seen, o.to(query.dtype)), torch.where(seen, torch.log(l), -math.inf)
