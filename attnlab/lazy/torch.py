"""Lazy attention in PyTorch: one key at a time, the division at the end."""

import math

from attnlab.call import Rules, implements
from attnlab.lazy import lazy_attention as public
from attnlab.arrays.torch import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.torch import accumulator, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import columns, only, scores, sees, take, visibility
from attnlab.softmax.torch import nothing

import torch


@implements(public)
@no_autocast
def lazy_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """Overflow is not repaired, as in naive attention."""
    q, rows = query.to(accumulator(query)), slice(0, rules.band.n)
    _, l, o = nothing(query, key, value, bias)
    seen = torch.zeros_like(l, dtype=torch.bool)

    for cols, k, v, b in columns(key, value, bias):
        visible = visibility(mask, bias, rules.band, rows, cols, query.device)
        k, v = rules.scale * take(k, visible), take(v, visible)
        e = torch.exp(scores(q, k, b, visible))
        l = l + e[..., 0]
        o = torch.addcmul(o, drop(e, seed, rules, rows, cols), v[..., None, :, :])
        seen = seen | sees(visible)

    l = torch.where(seen, l, 1)
    o = o / l[..., None]
    return only(seen, o.to(query.dtype)), torch.where(seen, torch.log(l), -math.inf)
