"""Tiled attention in NumPy: the online fold, a tile of keys at a time for a tile of queries."""

import numpy as np

from attnlab.call import Inputs, Rules, Sizes, implements
from attnlab.arrays.numpy import Lse, Out
from attnlab.arrays.numpy import accumulator, matmul, quiet
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import scores, tile
from attnlab.softmax.numpy import finite, positive
from attnlab.tiled import tiled_attention as public
from attnlab.tiled.numpy_grad import tiled_attention_backward
from attnlab.geometry import blocks, tile_sizes

__all__ = ["tiled_attention", "tiled_attention_backward"]


@implements(public)
@quiet
def tiled_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Each tile of queries reads the keys it sees once; its (m, l, o) stay on chip until the division."""
    block_q, block_k = tile_sizes(rules.heads, *sizes)
    dtype, dv = accumulator(x.query), x.value.shape[-1]
    out, lse = np.empty((*x.query.shape[:-1], dv), x.query.dtype), np.empty(x.query.shape[:-1], dtype)

    for rows in blocks(rules.band.n, block_q):
        q = rules.scale * x.query[..., rows, :].astype(dtype, copy=False)
        m, l = np.full(q.shape[:-1], -np.inf, dtype), np.zeros(q.shape[:-1], dtype)
        o = np.zeros((*q.shape[:-1], dv), dtype)
        for cols in rules.band.key_blocks(rows, block_k):
            k, v, b, visible = tile(rules, x, rows, cols)
            s = scores(q, k, b, visible)
            m_next = np.maximum(m, s.max(-1))
            shift = finite(m_next)
            s -= shift[..., None]
            alpha, p = np.exp(m - shift), np.exp(s, out=s)
            l = alpha * l + np.einsum("...k->...", p)  # three times as fast as p.sum(-1)
            o *= alpha[..., None]
            o += matmul(drop(p, x.seed, rules, rows, cols), v)
            m = m_next
        out[..., rows, :] = o / positive(l)[..., None]
        lse[..., rows] = m + np.log(positive(l))
    return out, lse
