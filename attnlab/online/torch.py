"""Online attention in PyTorch: lazy attention with a running maximum."""

from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch import accumulator
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.torch import drop
from attnlab.core.scores.torch import columns, scores, visibility, widen_or_zero, zero_unless
from attnlab.online import online_attention as public
from attnlab.softmax.torch import empty_state, one_if_empty, zero_if_empty

import torch


@implements(public)
def online_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """When the maximum moves, what was summed before shrinks by e^{m − m'}."""
    q, rows = x.query.to(accumulator(x.query)), slice(0, rules.band.n)
    m, l, o = empty_state(x)

    for cols, k, v, b in columns(x):
        visible = visibility(rules, x, rows, cols)
        k, v = widen_or_zero(k, visible), widen_or_zero(v, visible)
        s = scores(q, rules.scale * k, b, visible)  # (..., Hk, G, N, 1): one key
        m_next = torch.maximum(m, s[..., 0].detach())  # (4.7)
        shift = zero_if_empty(m_next)
        alpha, p = torch.exp(m - shift), torch.exp(s - shift[..., None])
        l = alpha * l + p[..., 0]  # (4.8)
        o = alpha[..., None] * o  # (4.9)
        o = torch.addcmul(o, drop(p, x.seed, rules, rows, cols), v[..., None, :, :])
        m = m_next

    o = o / one_if_empty(l)[..., None]  # (4.10)
    return zero_unless(l != 0, o.to(x.query.dtype)), m + torch.log(one_if_empty(l))
