"""Tiled attention in NumPy where one small tile holds all scores: see ``torch_at_once``."""

import numpy as np

from attnlab.core.arrays.heads import products_on_one_thread
from attnlab.core.arrays.numpy import Lse, Out
from attnlab.core.arrays.numpy import accumulator
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.scores.numpy import in_band
from attnlab.softmax.numpy import zero_if_empty


def attend(rules: Rules, x: Inputs) -> tuple[Out, Lse]:
    """Safe attention of all heads, the rows of a group's heads below each other."""
    (*heads, g, n, _), c, dtype = x.query.shape, rules.band.m, accumulator(x.query)
    q, k, v = (y.astype(dtype, copy=False) for y in x[:3])
    q = q.reshape((*heads, g * n, q.shape[-1]))
    with products_on_one_thread(rules, x):
        s = rules.scale * q @ k.swapaxes(-1, -2)
        inside = in_band(rules.band, slice(0, n), slice(0, c))
        if inside is not None:
            np.copyto(s.reshape((*heads, g, n, c)), -np.inf, where=~inside)
        m = s.max(-1, keepdims=True)
        s -= zero_if_empty(m)
        p = np.exp(s, out=s)
        l = np.maximum(np.einsum("...k->...", p), 1)[..., None]  # it's less only if all scores are −∞, of infinite data
        o = p @ v
    o /= l
    out, rows = o.astype(x.query.dtype, copy=False), (*heads, g, n)
    return out.reshape((*rows, v.shape[-1])), (m + np.log(l)).reshape(rows)
