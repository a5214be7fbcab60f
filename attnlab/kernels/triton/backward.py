"""The gradient of tiled attention as two Triton kernels: FlashAttention's algorithm 4, as FlashAttention-2 splits it.

    p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − D),   dq = ds k,   dk = dsᵀ q

with D = rowsum(do ∘ o) − dlse; derived in notebook 10. dq is a sum over keys, dk and dv are sums over queries. In one
kernel two programs would have to add to the same rows; in two, every program sums up rows of its own, always in the
same order, and p is computed twice.
"""

from attnlab.call import Rules, Sizes
from attnlab.arrays.torch import Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.kernels.triton.tile import (
    constants, dot, drop, dropout, finite, jit, keys, launch, load, load_vector, matrices, partial, queries,
    seeing_queries, seen_keys, shown, store, store_vector, vectors, visible, visibility,
)

import torch
from torch import Tensor as Array
import triton
import triton.language as tl


def backward(
    query: Query, key: Key, value: Value, mask: Mask, seed: Seed, out: Out, lse: Lse, dout: Out, dlse: Lse,
    rules: Rules, sizes: Sizes,
) -> tuple[Array, Array, Array]:
    """dq, dk, dv: first the kernel that also writes D, then the one that reads it."""
    dq, dk, dv, delta = (torch.empty_like(x) for x in (query, key, value, lse))
    inputs = [matrices(x) for x in (query, key, value, dout)]
    rest = vectors(lse), vectors(delta), *visibility(query, mask, rules), dropout(seed, rules), rules.scale
    static = constants(query, value, mask, rules, sizes, rows=64)
    programs = query.shape[:-2].numel() * triton.cdiv(rules.band.n, static["BLOCK_Q"])
    launch(query_gradient, programs, *inputs, matrices(out), vectors(dlse), matrices(dq), *rest, **static)
    programs = key.shape[:-2].numel() * triton.cdiv(rules.band.m, static["BLOCK_K"])
    launch(key_gradient, programs, *inputs, matrices(dk), matrices(dv), *rest, **static)
    return dq, dk, dv


@jit
def query_gradient(
    query, key, value, dout, out, dlse, dquery, lse, delta, mask, band, dropout, scale,
    GROUP: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """One tile of queries of one head reads the keys it sees once more; its dq stays in registers."""
    tiles = tl.cdiv(band.n, BLOCK_Q)
    head, first_row = tl.program_id(0) // tiles, tl.program_id(0) % tiles * BLOCK_Q
    rows, d, dv = first_row + tl.arange(0, BLOCK_Q), tl.arange(0, D), tl.arange(0, DV)
    q, do = load(query, head, rows, d, rows < band.n), load(dout, head, rows, dv, rows < band.n)
    o = load(out, head, rows, dv, rows < band.n)
    D_i = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1) - load_vector(dlse, head, rows)
    store_vector(delta, head, rows, D_i)
    shift = finite(load_vector(lse, head, rows))
    dq = tl.zeros([BLOCK_Q, D], tl.float32)

    first, last = keys(band, first_row, BLOCK_Q)
    for first_col in range(first // BLOCK_K * BLOCK_K, last, BLOCK_K):
        if shown(band, first_row, first_col):
            cols = first_col + tl.arange(0, BLOCK_K)
            seen = seen_keys(band, mask, head, rows, cols, first, last)
            k, v = load(key, head // GROUP, cols, d, seen), load(value, head // GROUP, cols, dv, seen)
            p = tl.exp(scale * dot(q, k.T) - shift[:, None])
            ds = drop(p, dropout, head, rows, cols) * dot(do, v.T) - p * D_i[:, None]
            if partial(band, mask, first_row, first_col, BLOCK_Q, BLOCK_K):
                ds = tl.where(visible(band, mask, head, rows, cols), ds, 0.0)
            dq += dot(ds.to(k.dtype), k)
    store(dquery, head, rows, d, scale * dq)


@jit
def key_gradient(
    query, key, value, dout, dkey, dvalue, lse, delta, mask, band, dropout, scale,
    GROUP: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """One tile of keys reads the queries that see it, of every head of its group; its dk, dv stay in registers."""
    tiles = tl.cdiv(band.m, BLOCK_K)
    key_head, first_col = tl.program_id(0) // tiles, tl.program_id(0) % tiles * BLOCK_K
    cols, d, dv = first_col + tl.arange(0, BLOCK_K), tl.arange(0, D), tl.arange(0, DV)
    k, v = load(key, key_head, cols, d, cols < band.m), load(value, key_head, cols, dv, cols < band.m)
    dk_j, dv_j = tl.zeros([BLOCK_K, D], tl.float32), tl.zeros([BLOCK_K, DV], tl.float32)

    first, last = queries(band, first_col, BLOCK_K)
    for g in range(GROUP):
        head = key_head * GROUP + g
        for first_row in range(first // BLOCK_Q * BLOCK_Q, last, BLOCK_Q):
            if shown(band, first_row, first_col):
                rows = first_row + tl.arange(0, BLOCK_Q)
                sees = seeing_queries(band, mask, head, rows, cols, first, last)
                q, do = load(query, head, rows, d, sees), load(dout, head, rows, dv, sees)
                shift, D_i = finite(load_vector(lse, head, rows)), load_vector(delta, head, rows)
                p = tl.exp(scale * dot(q, k.T) - shift[:, None])
                z = drop(p, dropout, head, rows, cols)
                ds = z * dot(do, v.T) - p * D_i[:, None]
                if partial(band, mask, first_row, first_col, BLOCK_Q, BLOCK_K):
                    allowed = visible(band, mask, head, rows, cols)
                    z, ds = tl.where(allowed, z, 0.0), tl.where(allowed, ds, 0.0)
                dv_j += dot(z.to(do.dtype).T, do)
                dk_j += dot(ds.to(q.dtype).T, q)
    store(dkey, key_head, cols, d, scale * dk_j)
    store(dvalue, key_head, cols, dv, dv_j)
