"""The gradient of tiled attention in NumPy: recompute p from lse, one tile at a time.

    Δ_i = do_i·o_i − dlse_i,   p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − Δ)
    dq = scale · ds k,   dk = scale · dsᵀ q,   dbias = ds

Δ stands for the row sum Σ_j p_ij dp_ij, so a tile needs no other tile. Derived in notebook 10.
"""

from collections.abc import Callable

import numpy as np
from numpy import ndarray as Array

from attnlab.core.arrays.heads import by_heads_in_cache
from attnlab.core.arrays.numpy import Keys, Lse, Out, Rows, Tile
from attnlab.core.arrays.numpy import accumulator, matmul, quiet
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements, run_gradient
from attnlab.core.dropout.numpy import drop
from attnlab.core.geometry import blocks
from attnlab.core.scores.numpy import over_tile, read, scores, visible_tiles, zero_unless
from attnlab.softmax.numpy import zero_if_empty
from attnlab.tiled import tiled_attention_backward as public


@implements(public, run_gradient)
def tiled_attention_backward(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse | None
) -> tuple[Array, ...]:
    """Where dlse is not given it is 0, without an array of it."""
    dlse = np.broadcast_to(lse.dtype.type(0), lse.shape) if dlse is None else dlse
    return backward(rules, sizes, x, out, lse, dout, dlse)


def empty_gradients(x: Inputs, *_: Array) -> tuple[Array, ...]:
    """dq, dk, dv, not yet written, and, where there is a bias, dbias."""
    return tuple(np.empty(y.shape, y.dtype) for y in (x.query, x.key, x.value, x.bias) if y is not None)


def zeros(y: Array, dtype: type) -> Array:
    """A zeroed accumulator for y: y itself, or an array of a wider dtype."""
    sums = y if y.dtype == dtype else np.empty(y.shape, dtype)
    sums[...] = 0
    return sums


@quiet
@by_heads_in_cache
def backward(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse,
    empty: Callable = empty_gradients,
) -> tuple[Array, ...]:  # fmt: skip
    """For each tile of keys, all tiles of queries that see it: dk and dv stay on chip, dq and dbias are added to."""
    block_q, block_k = rules.gradient_tile_sizes(sizes)
    dq, dk, dv, *dbias = grads = empty(x)
    dtype = accumulator(x.query)
    dq_sums, dbias_sums = zeros(dq, dtype), [zeros(y, dtype) for y in dbias]
    delta = np.empty(lse.shape, dtype)
    for rows in blocks(rules.band.n, block_q):
        delta[..., rows] = (dout[..., rows, :].astype(dtype) * out[..., rows, :]).sum(-1) - dlse[..., rows]  # (10.2)

    for cols in blocks(rules.band.m, block_k):
        dk_j = np.zeros(x.key[..., cols, :].shape, dtype)
        dv_j = np.zeros(x.value[..., cols, :].shape, dtype)
        for rows, visible in visible_tiles(rules, x, cols, block_q, -2):
            k, v, b = read(x, rows, cols, visible)
            q = zero_unless(visible.queries, rules.scale * x.query[..., rows, :].astype(dtype, copy=False))
            do = zero_unless(visible.queries, dout[..., rows, :].astype(dtype, copy=False))
            s = scores(q, k, b, visible)
            s -= zero_if_empty(lse[..., rows])[..., None]
            p = np.exp(s, out=s)  # (10.1)
            dp = drop(matmul(do, v.swapaxes(-1, -2)), x.seed, rules, rows, cols)  # (10.8)
            dp -= delta[..., rows, None]  # (10.3)
            dp *= p
            ds = dp if visible.pairs is None else np.where(visible.pairs, dp, 0)
            dv_j += matmul_rows(drop(p, x.seed, rules, rows, cols), do)  # (10.8)
            dk_j += matmul_rows(ds, q)  # (10.5)
            dq_sums[..., rows, :] += rules.scale * matmul(ds, k)  # (10.5)
            for sums in dbias_sums:
                part = over_tile(sums, rows, cols)
                part += ds.sum(tuple(a for a in range(ds.ndim) if part.shape[a] == 1), keepdims=True)
        dk[..., cols, :], dv[..., cols, :] = dk_j, dv_j
    dq[...] = dq_sums
    for y, sums in zip(dbias, dbias_sums):
        y[...] = sums
    return grads


def matmul_rows(a: Tile, b: Rows) -> Keys:
    """Σ over the group's query rows of aᵀ b: what each key receives from all queries that read it."""
    *heads, g, r, c = a.shape
    a, b = a.reshape((*heads, g * r, c)), b.reshape((*heads, g * r, b.shape[-1]))
    return a.swapaxes(-1, -2) @ b
