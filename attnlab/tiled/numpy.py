"""Tiled attention in NumPy: the online fold, a tile of keys at a time for a tile of queries."""

from collections.abc import Callable

import numpy as np

from attnlab.core.arrays.heads import by_heads_in_cache, one_tile_at_once
from attnlab.core.arrays.numpy import Lse, Out
from attnlab.core.arrays.numpy import accumulator, empty, matmul, quiet
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.numpy import drop
from attnlab.core.geometry import blocks
from attnlab.core.scores.numpy import read, scores, visible_tiles
from attnlab.softmax.numpy import one_if_empty, zero_if_empty
from attnlab.tiled import tiled_attention as public
from attnlab.tiled.numpy_at_once import attend
from attnlab.tiled.numpy_grad import tiled_attention_backward

__all__ = ["tiled_attention", "tiled_attention_backward"]


@implements(public)
@quiet
@one_tile_at_once(attend)
@by_heads_in_cache
def tiled_attention(rules: Rules, sizes: Sizes, x: Inputs, empty: Callable = empty) -> tuple[Out, Lse]:
    """Each tile of queries reads the keys it sees once; its (m, l, o) stay on chip until the division."""
    block_q, block_k = rules.tile_sizes(sizes, x.key.dtype.itemsize)
    (out, lse), dtype, dv = empty(x), accumulator(x.query), x.value.shape[-1]
    shape = (*x.query.shape[:-2], min(block_q, rules.band.n), min(block_k, rules.band.m))
    buffer = np.empty_like(x.query, dtype, shape=shape)

    for rows in blocks(rules.band.n, block_q):
        q = rules.scale * x.query[..., rows, :].astype(dtype, copy=False)  # (..., Hk, G, Bq, D), read once
        m, l = np.full(q.shape[:-1], -np.inf, dtype), np.zeros(q.shape[:-1], dtype)
        o = np.zeros((*q.shape[:-1], dv), dtype)
        for cols, visible in visible_tiles(rules, x, rows, block_k):
            k, v, b = read(x, rows, cols, visible)
            s = scores(q, k, b, visible, buffer)  # (8.1), (..., Hk, G, Bq, Bk): a tile, on chip
            m_next = np.maximum(m, s.max(-1))  # (8.2)
            shift = zero_if_empty(m_next)
            s -= shift[..., None]
            alpha, p = np.exp(m - shift), np.exp(s, out=s)  # (8.5); alpha ≤ 1: old sums shrink
            l = alpha * l + np.einsum("...k->...", p)  # (8.5); three times as fast as p.sum(-1)
            o *= alpha[..., None]
            o += matmul(drop(p, x.seed, rules, rows, cols), v)  # (8.5); o stays on chip until the division
            m = m_next
            del s, p  # before the next tile is made
        l = one_if_empty(l)
        out[..., rows, :] = o / l[..., None]  # (8.3), written once
        lse[..., rows] = m + np.log(l)
    return out, lse
