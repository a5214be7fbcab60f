"""Tiled attention in PyTorch: the online fold, a tile of keys at a time for a tile of queries."""

from collections.abc import Callable

from attnlab.core.arrays.heads import by_heads_in_cache
from attnlab.core.arrays.torch import Lse, Out
from attnlab.core.arrays.torch import accumulator, add_matmul, empty, matmul
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.torch import drop
from attnlab.core.geometry import blocks
from attnlab.core.scores.torch import read, read_narrow, scores, visible_tiles
from attnlab.kernels.triton.gpu import kernel_on_gpu
from attnlab.softmax.torch import exp_, zero_if_empty
from attnlab.tiled import tiled_attention as public
from attnlab.tiled.torch_grad import flash_gradient, tiled_attention_backward

import torch

__all__ = ["tiled_attention", "tiled_attention_backward"]


@implements(public)
@flash_gradient
@kernel_on_gpu
@by_heads_in_cache
def tiled_attention(rules: Rules, sizes: Sizes, x: Inputs, empty: Callable = empty) -> tuple[Out, Lse]:
    """Each tile of queries reads the keys it sees once; its (m, l, o) stay on chip until the division."""
    block_q, block_k = rules.tile_sizes(sizes)
    (*heads, _), dtype = x.query.shape[:-1], accumulator(x.query)
    out, lse = empty(x)
    buffer = x.query.new_empty((*heads, min(block_q, rules.band.n), min(block_k, rules.band.m)), dtype=dtype)

    for rows in blocks(rules.band.n, block_q):
        q = rules.scale * x.query[..., rows, :].to(dtype)  # (..., Hk, G, Bq, D), read once
        m = None  # no tile yet: the first one has nothing to rescale
        for cols, visible in visible_tiles(rules, x, rows, block_k):
            k, v, b = (read_narrow if rules.band.n == 1 else read)(x, rows, cols, visible)
            s = scores(q, k, b, visible, buffer)  # (8.1), (..., Hk, G, Bq, Bk): a tile, on chip
            m_next = s.amax(-1) if m is None else torch.maximum(m, s.amax(-1))  # (8.2)
            shift = zero_if_empty(m_next)
            p = exp_(s.sub_(shift[..., None]))  # (8.5)
            l_next, p = p.sum(-1), drop(p, x.seed, rules, rows, cols)
            if m is None:
                l, o = l_next, matmul(p, v)
            else:
                alpha = exp_(m.sub_(shift))  # ≤ 1: old sums shrink
                l = l_next.addcmul_(alpha, l)  # (8.5)
                add_matmul(o.mul_(alpha[..., None]), p, v)  # (8.5); o stays on chip
                del alpha
            m = m_next
            del s, p  # before the next tile is made
        if m is None:  # these queries see nothing
            out[..., rows, :], lse[..., rows] = 0, -torch.inf
            continue
        l = l.clamp_(min=1)  # where there's a weight, l is at least that of the largest score, 1
        out[..., rows, :] = o.div_(l[..., None])  # (8.3), written once
        lse[..., rows] = m.add_(l.log_())
    return out, lse
