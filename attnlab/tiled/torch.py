"""Tiled attention in PyTorch: the online fold, a tile of keys at a time for a tile of queries."""

from attnlab.call import Rules, implements
from attnlab.arrays.torch import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.torch import accumulator, add_matmul, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import hidden, read, scores
from attnlab.softmax.torch import exp_, finite, positive
from attnlab.tiled import tiled_attention as public
from attnlab.tiled.torch_grad import flash_gradient
from attnlab.tiled.triton_rules import kernel_on_gpu
from attnlab.geometry import blocks, tile_sizes

import torch


@torch.compiler.disable  # it would unroll the loops
@implements(public)
@no_autocast
@kernel_on_gpu
@flash_gradient
def tiled_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules,
    block_q: int | None, block_k: int | None,
) -> tuple[Out, Lse]:
    """Each tile of queries reads the keys it sees once; its (m, l, o) stay on chip until the division."""
    block_q, block_k = tile_sizes(rules.heads, block_q, block_k)
    dtype, dv = accumulator(query), value.shape[-1]
    out, lse = query.new_empty((*query.shape[:-1], dv)), query.new_empty(query.shape[:-1], dtype=dtype)
    tile = (*query.shape[:-2], min(block_q, rules.band.n), min(block_k, rules.band.m))
    room = query.new_empty(tile, dtype=dtype)

    for rows in blocks(rules.band.n, block_q):
        q = rules.scale * query[..., rows, :].to(dtype)
        m, l = q.new_full(q.shape[:-1], -torch.inf), q.new_zeros(q.shape[:-1])
        o = q.new_zeros((*q.shape[:-1], dv))
        for cols in rules.band.key_blocks(rows, block_k):
            k, v, b, visible = read(key, value, mask, bias, rules.band, rows, cols, look=True)
            if hidden(visible):
                continue
            s = scores(q, k, b, visible, room)
            m_next = torch.maximum(m, s.amax(-1))
            shift = finite(m_next)
            alpha, p = exp_(m.sub_(shift)), exp_(s.sub_(shift[..., None]))
            l.mul_(alpha).add_(p.sum(-1))
            add_matmul(o.mul_(alpha[..., None]), drop(p, seed, rules, rows, cols), v)
            m = m_next
            del s, p  # before the next tile is made
        out[..., rows, :] = o.div_(positive(l)[..., None])
        lse[..., rows] = m + torch.log(positive(l))
    return out, lse
