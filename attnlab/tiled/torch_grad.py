"""The gradient of tiled attention in PyTorch: FlashAttention's algorithm 4, a tile at a time.

    p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − D),   dq = ds k,   dk = dsᵀ q

with D = rowsum(do ∘ o) − dlse; derived in notebook 10. With dropout, z = p dropped stands for p in dv and in p ∘ dp.
"""

from attnlab.call import Rules
from attnlab.arrays.torch import Bias, Key, Lse, Mask, Out, Query, Rows, Seed, Tile, Value
from attnlab.arrays.torch import matmul
from attnlab.dropout.torch import drop
from attnlab.scores.torch import cut, hidden, only, read, scores, sees
from attnlab.arrays.torch_autograd import custom_gradient
from attnlab.softmax.torch import exp_, finite
from attnlab.geometry import blocks, gradient_tile_sizes

import torch
from torch import Tensor as Array


def backward(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, out: Out, lse: Lse, dout: Out, dlse: Lse,
    seed: Seed, rules: Rules, block_q: int | None, block_k: int | None, wants_bias: bool,
) -> tuple[Array, ...]:
    """dq, dk, dv and, where wanted, dbias: keys in the outer loop, queries in the inner one."""
    block_q, block_k = gradient_tile_sizes(rules.heads, block_q, block_k)
    dtype, delta = lse.dtype, torch.empty_like(lse)
    for rows in blocks(rules.band.n, block_q):
        do, o = dout[..., rows, :].to(dtype), out[..., rows, :]
        delta[..., rows] = (do * o).sum(-1) - dlse[..., rows]
    dq, dk, dv = torch.zeros_like(query, dtype=dtype), torch.empty_like(key), torch.empty_like(value)
    dbias = torch.zeros_like(bias, dtype=dtype) if wants_bias else None

    tile = (*query.shape[:-2], min(block_q, rules.band.n), min(block_k, rules.band.m))
    room, more_room = query.new_empty(tile, dtype=dtype), query.new_empty(tile, dtype=dtype)

    for cols in blocks(rules.band.m, block_k):
        dk_j, dv_j = (x.new_zeros(x[..., cols, :].mT.shape, dtype=dtype) for x in (key, value))
        for rows in rules.band.query_blocks(cols, block_q):
            k, v, b, visible = read(key, value, mask, bias, rules.band, rows, cols, look=True)
            if hidden(visible):
                continue
            q = only(sees(visible), rules.scale * query[..., rows, :].to(dtype))
            do = only(sees(visible), dout[..., rows, :].to(dtype))
            p = exp_(scores(q, k, b, visible, room).sub_(finite(lse[..., rows])[..., None]))
            z = drop(p, seed, rules, rows, cols)
            add_rows(dv_j, do, z)
            ds = matmul(do, v.mT, more_room).mul_(z).addcmul_(p, delta[..., rows, None], value=-1)
            ds = ds if visible is None else ds.masked_fill_(~visible, 0)
            add_rows(dk_j, q, ds)
            dq[..., rows, :].add_(matmul(ds, k), alpha=rules.scale)
            if wants_bias:
                part = cut(dbias, rows, cols)
                part += ds.sum_to_size(part.shape)
            del p, z, ds  # before the next tile is made
        dk[..., cols, :], dv[..., cols, :] = dk_j.mT, dv_j.mT
    grads = dq.to(query.dtype), dk, dv
    return (*grads, dbias.to(bias.dtype)) if wants_bias else grads


def add_rows(sums: Array, x: Rows, weights: Tile) -> None:
    """What each key receives from all queries that read it, xᵀ · weights: transposed, as a CPU multiplies faster so."""
    x, weights = x.flatten(-3, -2).flatten(0, -3), weights.flatten(-3, -2).flatten(0, -3)
    sums.view((-1, *sums.shape[-2:])).baddbmm_(x.mT, weights)


flash_gradient = custom_gradient(backward)
"""Decorator of the tiled core: ``backward`` takes the place of the derivative of its loops."""
