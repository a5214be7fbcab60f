"""Tiled attention in PyTorch: the online fold, a tile of keys at a time for a tile of queries."""

from collections.abc import Callable

from attnlab.core.arrays.heads import by_heads_in_cache, one_tile_at_once
from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch import accumulator, add_matmul, empty
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.torch import drop
from attnlab.core.geometry import blocks
from attnlab.core.scores.torch import read, read_narrow, scores, visible_tiles
from attnlab.kernels.triton.gpu import kernel_on_gpu
from attnlab.softmax.torch import exp_, one_if_empty, zero_if_empty
from attnlab.tiled import tiled_attention as public
from attnlab.tiled.torch_at_once import attend
from attnlab.tiled.torch_grad import flash_gradient, tiled_attention_backward

import torch

__all__ = ["tiled_attention", "tiled_attention_backward"]


@implements(public)
@flash_gradient
@kernel_on_gpu
@one_tile_at_once(attend)
@by_heads_in_cache
def tiled_attention(rules: Rules, sizes: Sizes, x: Inputs, empty: Callable = empty) -> tuple[Out, Lse]:
    """Each tile of queries reads the keys it sees once; its (m, l, o) stay on chip until the division."""
    block_q, block_k = rules.tile_sizes(sizes)
    (*heads, _), dtype, dv = x.query.shape[:-1], accumulator(x.query), x.value.shape[-1]
    out, lse = empty(x)
    buffer = x.query.new_empty((*heads, min(block_q, rules.band.n), min(block_k, rules.band.m)), dtype=dtype)

    for rows in blocks(rules.band.n, block_q):
        q = rules.scale * x.query[..., rows, :].to(dtype)  # (..., Hk, G, Bq, D), read once
        m, l = q.new_full(q.shape[:-1], -torch.inf), q.new_zeros(q.shape[:-1])
        o = q.new_zeros((*q.shape[:-1], dv))
        for cols, visible in visible_tiles(rules, x, rows, block_k):
            k, v, b = (read_narrow if rules.band.n == 1 else read)(x, rows, cols, visible)
            s = scores(q, k, b, visible, buffer)  # (8.1), (..., Hk, G, Bq, Bk): a tile, on chip
            m_next = torch.maximum(m, s.amax(-1))  # (8.2)
            shift = zero_if_empty(m_next)
            alpha, p = exp_(m.sub_(shift)), exp_(s.sub_(shift[..., None]))  # (8.5); alpha ≤ 1: old sums shrink
            l.mul_(alpha).add_(p.sum(-1))  # (8.5)
            add_matmul(o.mul_(alpha[..., None]), drop(p, x.seed, rules, rows, cols), v)  # (8.5); o stays on chip
            m = m_next
            del s, p  # before the next tile is made
        l = one_if_empty(l)
        out[..., rows, :] = o.div_(l[..., None])  # (8.3), written once
        lse[..., rows] = m.add_(l.log_())
    return out, lse
