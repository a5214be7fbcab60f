"""Safe attention in PyTorch: naive attention with each row of scores shifted by its maximum."""

from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch import accumulator, matmul
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.torch import drop
from attnlab.core.scores.torch import scores, tile, zero_unless
from attnlab.safe import safe_attention as public
from attnlab.softmax.torch import highest, one_if_empty, zero_if_empty

import torch


@implements(public)
def safe_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1. The shift cancels, so it needs no gradient."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.to(accumulator(x.query))

    s = scores(q, k, b, visible)  # (..., Hk, G, N, M): the matrix
    m = highest(s)  # (2.3), one a row
    s = s - zero_if_empty(m)[..., None]
    e = s.exp_()  # (2.7)
    l = e.sum(-1)  # (2.3)
    p = e / one_if_empty(l)[..., None]  # (2.3)
    o = matmul(drop(p, x.seed, rules, rows, cols), v)  # (..., Hk, G, N, Dv)
    return zero_unless(l != 0, o.to(x.query.dtype)), m + torch.log(one_if_empty(l))
