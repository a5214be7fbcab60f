"""The gradient of tiled attention in PyTorch: FlashAttention's algorithm 4, a tile at a time.

    p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − Δ),   dq = ds k,   dk = dsᵀ q

with Δ = rowsum(do ∘ o) − dlse; derived in notebook 10. With dropout, z = p dropped stands for p in dv and in p ∘ dp.
"""

from collections.abc import Callable

from attnlab.core.arrays.heads import by_heads_in_cache, one_tile_at_once
from attnlab.core.arrays.torch import Lse, Out, Rows, Tile
from attnlab.core.arrays.torch import accumulator, matmul
from attnlab.core.arrays.torch_autograd import custom_gradient, explicit_gradient
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements, run_gradient
from attnlab.core.dropout.torch import drop
from attnlab.core.geometry import blocks
from attnlab.core.scores.torch import over_tile, read, scores, visible_tiles, zero_unless
from attnlab.kernels.triton.gpu import gradient_on_gpu
from attnlab.softmax.torch import exp_, zero_if_empty
from attnlab.tiled import tiled_attention_backward as public
from attnlab.tiled.torch_at_once import differentiate

import torch
from torch import Tensor as Array


def empty_gradients(x: Inputs, *rest: Array | bool) -> tuple[Array, ...]:
    """dq, dk, dv, not yet written, and, where wanted, dbias."""
    *_, wants_bias = rest
    return tuple(torch.empty_like(y) for y in (x.query, x.key, x.value, *([x.bias] if wants_bias else [])))


def zeros(y: Array, dtype: torch.dtype) -> Array:
    """A zeroed accumulator for y: y itself, or a tensor of a wider dtype."""
    return (y if y.dtype == dtype else torch.empty_like(y, dtype=dtype)).zero_()


@one_tile_at_once(differentiate)
@by_heads_in_cache
def backward(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse, wants_bias: bool,
    empty: Callable = empty_gradients,
) -> tuple[Array, ...]:  # fmt: skip
    """Keys in the outer loop, queries in the inner one."""
    block_q, block_k = rules.gradient_tile_sizes(sizes)
    dq, dk, dv, *dbias = grads = empty(x, wants_bias)
    dtype, delta = lse.dtype, torch.empty_like(lse)
    for rows in blocks(rules.band.n, block_q):
        do, o = dout[..., rows, :].to(dtype), out[..., rows, :]
        delta[..., rows] = (do * o).sum(-1) - dlse[..., rows]  # (10.2)
    dq_sums, dbias_sums = zeros(dq, dtype), [zeros(y, dtype) for y in dbias]

    shape = (*x.query.shape[:-2], min(block_q, rules.band.n), min(block_k, rules.band.m))
    buffer, second_buffer = x.query.new_empty(shape, dtype=dtype), x.query.new_empty(shape, dtype=dtype)

    for cols in blocks(rules.band.m, block_k):
        dk_j, dv_j = (y.new_zeros(y[..., cols, :].mT.shape, dtype=dtype) for y in (x.key, x.value))
        for rows, visible in visible_tiles(rules, x, cols, block_q, -2):
            k, v, b = read(x, rows, cols, visible)
            q = zero_unless(visible.queries, rules.scale * x.query[..., rows, :].to(dtype))
            do = zero_unless(visible.queries, dout[..., rows, :].to(dtype))
            p = exp_(scores(q, k, b, visible, buffer).sub_(zero_if_empty(lse[..., rows])[..., None]))  # (10.1)
            z = drop(p, x.seed, rules, rows, cols)
            add_rows(dv_j, do, z)  # (10.8)
            dz = matmul(do, v.mT, second_buffer).mul_(z)  # (10.8)
            ds = dz.addcmul_(p, delta[..., rows, None], value=-1)  # (10.3)
            ds = ds if visible.pairs is None else ds.masked_fill_(~visible.pairs, 0)
            add_rows(dk_j, q, ds)  # (10.5)
            dq_sums[..., rows, :].add_(matmul(ds, k), alpha=rules.scale)  # (10.5)
            for sums in dbias_sums:
                part = over_tile(sums, rows, cols)
                part += ds.sum_to_size(part.shape)
            del p, z, dz, ds  # before the next tile is made
        dk[..., cols, :], dv[..., cols, :] = dk_j.mT, dv_j.mT
    dq.copy_(dq_sums)
    for y, sums in zip(dbias, dbias_sums):
        y.copy_(sums)
    return grads


def add_rows(sums: Array, x: Rows, weights: Tile) -> None:
    """What each key receives from all queries that read it, xᵀ · weights: this order is faster on a CPU."""
    x, weights = x.flatten(-3, -2).flatten(0, -3), weights.flatten(-3, -2).flatten(0, -3)
    sums.view((len(x), *sums.shape[-2:])).baddbmm_(x.mT, weights)


flash_gradient = custom_gradient(gradient_on_gpu(backward))
"""Decorator of the tiled core: ``backward`` takes the place of the derivative of its loops."""


@implements(public, run_gradient)
def tiled_attention_backward(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse | None
) -> tuple[Array, ...]:
    """Run the loops or kernels that autograd runs."""
    lse = lse.to(accumulator(x.query))
    dlse = lse.new_zeros(()).expand_as(lse) if dlse is None else dlse
    return explicit_gradient(gradient_on_gpu(backward), rules, sizes, x, out, lse, dout, dlse)
