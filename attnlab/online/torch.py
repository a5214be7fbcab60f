"""Online attention in PyTorch: lazy attention with a running maximum."""

from attnlab.call import Rules, implements
from attnlab.online import online_attention as public
from attnlab.arrays.torch import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.torch import accumulator, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import columns, only, scores, take, visibility
from attnlab.softmax.torch import finite, nothing, positive

import torch


@implements(public)
@no_autocast
def online_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """When the maximum moves, what was summed before shrinks by e^{m − m'}."""
    q, rows = query.to(accumulator(query)), slice(0, rules.band.n)
    m, l, o = nothing(query, key, value, bias)

    for cols, k, v, b in columns(key, value, bias):
        visible = visibility(mask, bias, rules.band, rows, cols, query.device)
        k, v = rules.scale * take(k, visible), take(v, visible)
        s = scores(q, k, b, visible)
        m_next = torch.maximum(m, s[..., 0].detach())
        shift = finite(m_next)
        alpha, p = torch.exp(m - shift), torch.exp(s - shift[..., None])
        l = alpha * l + p[..., 0]
        o = alpha[..., None] * o
        o = torch.addcmul(o, drop(p, seed, rules, rows, cols), v[..., None, :, :])
        m = m_next

    o = o / positive(l)[..., None]
    return only(l != 0, o.to(query.dtype)), m + torch.log(positive(l))
