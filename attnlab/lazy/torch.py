"""Lazy attention in PyTorch: one key at a time, the division at the end."""

import math

from attnlab.call import Inputs, Rules, Sizes, implements
from attnlab.lazy import lazy_attention as public
from attnlab.arrays.torch import Lse, Out
from attnlab.arrays.torch import accumulator, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import columns, only, scores, sees, take, visibility
from attnlab.softmax.torch import nothing

import torch


@implements(public)
@no_autocast
def lazy_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Overflow is not repaired, as in naive attention."""
    q, rows = x.query.to(accumulator(x.query)), slice(0, rules.band.n)
    _, l, o = nothing(x)
    seen = torch.zeros_like(l, dtype=torch.bool)

    for cols, k, v, b in columns(x):
        visible = visibility(x.mask, x.bias, rules.band, rows, cols, q.device)
        k, v = take(k, visible), take(v, visible)
        e = torch.exp(scores(q, rules.scale * k, b, visible))
        l = l + e[..., 0]
        o = torch.addcmul(o, drop(e, x.seed, rules, rows, cols), v[..., None, :, :])
        seen = seen | sees(visible)

    l = torch.where(seen, l, 1)
    o = o / l[..., None]
    return only(seen, o.to(x.query.dtype)), torch.where(seen, torch.log(l), -math.inf)
