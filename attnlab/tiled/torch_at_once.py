"""Tiled attention in PyTorch where one small tile holds all scores: no loop, and few operations, as each costs time."""

from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch import accumulator, product
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.scores.torch import in_band
from attnlab.softmax.torch import exp_, zero_if_empty

import torch
from torch import Tensor as Array


def attend(rules: Rules, x: Inputs) -> tuple[Out, Lse]:
    """Safe attention of all heads."""
    *_, v, s = tile(rules, x)
    m = s.amax(-1, keepdim=True)
    p = exp_(s.sub_(zero_if_empty(m)))
    l = p.sum(-1, keepdim=True).clamp_min_(1)  # it's less only where all scores are −∞, of infinite data
    rows, o = x.query.shape[:-1], product(p, v).div_(l)
    return o.view((*rows, v.shape[-1])).to(x.query.dtype), m.add_(l.log_()).view(rows)


def differentiate(
    rules: Rules, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse, wants_bias: bool
) -> tuple[Array, ...]:
    """dq, dk and dv, as in ``torch_grad``; no call with a bias comes here."""
    q, k, v, s = tile(rules, x)
    o, do = (y.reshape((*s.shape[:2], v.shape[-1])).to(s.dtype) for y in (out, dout))
    lse, dlse = (y.reshape((*s.shape[:2], 1)) for y in (lse, dlse))
    delta = (do * o).sum(-1, keepdim=True).sub_(dlse)
    p = exp_(s.sub_(zero_if_empty(lse)))
    ds = product(do, v.mT).sub_(delta).mul_(p)
    grads = rules.scale * product(ds, k), torch.bmm(ds.mT, q), torch.bmm(p.mT, do)
    return tuple(grad.view(y.shape).to(y.dtype) for grad, y in zip(grads, x))


def tile(rules: Rules, x: Inputs) -> tuple[Array, Array, Array, Array]:
    """Scaled queries, keys, values and scores of three axes: the rows of a group's heads lie below each other."""
    (*_, g, n, d), m = x.query.shape, rules.band.m
    k, v = x.key.flatten(0, -3), x.value.flatten(0, -3)
    q = rules.scale * x.query.reshape((len(k), g * n, d)).to(accumulator(k))
    s = product(q, k.mT)
    inside = in_band(rules.band, slice(0, n), slice(0, m), q.device)
    if inside is not None:
        s = torch.where(inside, s.view((-1, g, n, m)), -torch.inf).view(s.shape)
    return q, k, v, s
