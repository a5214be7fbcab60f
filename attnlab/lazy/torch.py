"""Lazy attention in PyTorch: one key at a time, the division at the end."""

import math

from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch import accumulator
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.torch import drop
from attnlab.core.scores.torch import columns, scores, visibility, widen_or_zero, zero_unless
from attnlab.lazy import lazy_attention as public
from attnlab.softmax.torch import empty_state

import torch


@implements(public)
def lazy_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Overflow is not repaired, as in naive attention."""
    q, rows = x.query.to(accumulator(x.query)), slice(0, rules.band.n)
    _, l, o = empty_state(x)
    seen = torch.zeros_like(l, dtype=torch.bool)

    for cols, k, v, b in columns(x):
        visible = visibility(rules, x, rows, cols)
        k, v = widen_or_zero(k, visible), widen_or_zero(v, visible)
        e = torch.exp(scores(q, rules.scale * k, b, visible))  # (4.1), (..., Hk, G, N, 1): one key
        l = l + e[..., 0]  # (4.2)
        o = torch.addcmul(o, drop(e, x.seed, rules, rows, cols), v[..., None, :, :])  # (4.2), undivided
        seen = seen | visible.queries

    l = torch.where(seen, l, 1)
    o = o / l[..., None]  # (4.1): once, at the end
    return zero_unless(seen, o.to(x.query.dtype)), torch.where(seen, torch.log(l), -math.inf)
