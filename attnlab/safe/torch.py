"""Safe attention in PyTorch: naive attention with each row of scores shifted by its maximum."""

from attnlab.call import Inputs, Rules, Sizes, implements
from attnlab.safe import safe_attention as public
from attnlab.arrays.torch import Lse, Out
from attnlab.arrays.torch import accumulator, matmul, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import only, scores, tile
from attnlab.softmax.torch import finite, highest, positive

import torch


@implements(public)
@no_autocast
def safe_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1. The shift cancels, so it needs no gradient."""
    rows, cols = slice(0, rules.band.n), slice(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.to(accumulator(x.query))

    s = scores(q, k, b, visible)
    m = highest(s)
    s = s - finite(m)[..., None]
    e = s.exp_()
    l = e.sum(-1)
    p = e / positive(l)[..., None]
    o = matmul(drop(p, x.seed, rules, rows, cols), v)
    return only(l != 0, o.to(x.query.dtype)), m + torch.log(positive(l))
