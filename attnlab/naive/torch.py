"""Naive attention in PyTorch: e^s / Σ e^s, the whole matrix at once."""

import math

from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch import accumulator, matmul
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.torch import drop
from attnlab.core.scores.torch import scores, tile, zero_unless
from attnlab.naive import naive_attention as public

import torch


@implements(public)
def naive_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Overflow is not repaired: that is this rung's lesson."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.to(accumulator(x.query))

    e = torch.exp(scores(q, k, b, visible))  # (1.1) and (1.2), (..., Hk, G, N, M): the matrix
    l = e.sum(-1)  # (1.2)
    seen = torch.ones_like(l, dtype=torch.bool) & visible.queries
    l = torch.where(seen, l, 1)
    p = e / l[..., None]  # (1.2)
    o = matmul(drop(p, x.seed, rules, rows, cols), v)  # (1.3), (..., Hk, G, N, Dv)
    return zero_unless(seen, o.to(x.query.dtype)), torch.where(seen, torch.log(l), -math.inf)
