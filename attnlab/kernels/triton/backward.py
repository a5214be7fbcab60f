"""The gradient of tiled attention as two Triton kernels: FlashAttention's algorithm 4, as FlashAttention-2 splits it.

    p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − Δ),   dq = ds k,   dk = dsᵀ q

with Δ = rowsum(do ∘ o) − dlse; derived in notebook 10. dq is a sum over keys, dk and dv are sums over queries. In one
kernel two programs would have to add to the same rows; in two, every program sums up rows of its own, always in the
same order, and p is computed twice: seven products for five.
"""

from attnlab.core.arrays.torch import Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.core.bundle import Rules, Sizes
from attnlab.kernels.triton.layout import Segments, constants, grouped, kernel_rules, matrices, padded, vectors
from attnlab.kernels.triton.tile import (
    LN2, LOG2E, dot, drop, jit, launch, load, load_vector, seeing, seen_by, signed, store, store_vector, visible,
    visited, visits, within, zero_if_empty,
)

import torch
from torch import Tensor as Array
import triton
import triton.language as tl

QUERY_TILE, WIDE_QUERY_TILE = (128, 64), (128, 32)  # the second for heads beyond 64
KEY_TILE = (32, 128)
"""As FOLD_TILE, of the two kernels."""


def backward(
    query: Query, key: Key, value: Value, mask: Mask, segments: Segments, seed: Seed, out: Out, lse: Lse,
    dout: Out, dlse: Lse, rules: Rules, sizes: Sizes, dtype: torch.dtype | None = None,
) -> tuple[Array, Array, Array]:
    """dq, dk, dv: first the kernel that also writes Δ, then the one that reads it.

    ``dtype`` of all three: that of the inputs by default, float32 where they are added up before they are rounded.
    """
    dq, dk, dv = (torch.empty_like(x, dtype=dtype) for x in (query, key, value))
    delta = torch.empty_like(lse)
    heads, d, d_v = key.shape[:-2].numel(), padded(query.shape[-1]), padded(value.shape[-1])
    inputs = grouped(query), matrices(key), matrices(value), grouped(dout), vectors(lse), vectors(delta)
    call = query, value, (mask is not None, segments is not None), rules, sizes

    static = constants(*call, WIDE_QUERY_TILE if max(d, d_v) > 64 else QUERY_TILE, d, 2)
    made = kernel_rules(query, mask, segments, seed, rules, static["BLOCK_Q"], static["BLOCK_K"])
    programs = heads * triton.cdiv(rules.heads[-1] * rules.band.n, static["BLOCK_Q"])
    launch(query_gradient, programs, *inputs, grouped(out), vectors(dlse), grouped(dq), made, **static)

    static = constants(*call, KEY_TILE, d + d_v, 2)
    made = kernel_rules(query, mask, segments, seed, rules, static["BLOCK_Q"], static["BLOCK_K"], by_keys=True)
    programs = heads * triton.cdiv(rules.band.m, static["BLOCK_K"])
    launch(key_gradient, programs, *inputs, matrices(dk), matrices(dv), made, **static)
    return dq, dk, dv


@jit
def query_gradient(
    query, key, value, dout, lse, delta, out, dlse, dquery, rules,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """One tile of queries reads the keys it sees once more; its dq stays in registers."""
    tiles = tl.cdiv(rules.rows, BLOCK_Q)
    head, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    if rules.right is not None:
        tile = tiles - 1 - tile  # the last tiles see the most keys: what takes longest begins first
    first_row = tile * BLOCK_Q
    rows, d, dv = first_row + tl.arange(0, BLOCK_Q), tl.arange(0, D), tl.arange(0, DV)
    q, do = signed(load(query, head, rows, d, rows < rules.rows), rules), load(dout, head, rows, dv, rows < rules.rows)
    o = load(out, head, rows, dv, rows < rules.rows)
    delta_i = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1) - load_vector(dlse, head, rows)
    store_vector(delta, head, rows, delta_i)
    shift = zero_if_empty(load_vector(lse, head, rows)) * LOG2E
    dq = tl.zeros([BLOCK_Q, D], tl.float32)

    seen = seen_by(rules, first_row, BLOCK_Q)
    turns = visits(rules, seen, tile, BLOCK_K)
    full, total = turns[0], turns[1]
    for turn in range(full):  # full tiles: every query sees every key
        cols = visited(rules, turns, tile, turn, False) * BLOCK_K + tl.arange(0, BLOCK_K)
        dq = add_keys(dq, q, do, shift, delta_i, key, value, rules, seen, head, rows, cols, d, dv, False)
    for turn in range(full, total):  # partial ones
        cols = visited(rules, turns, tile, turn, True) * BLOCK_K + tl.arange(0, BLOCK_K)
        dq = add_keys(dq, q, do, shift, delta_i, key, value, rules, seen, head, rows, cols, d, dv, True)
    if rules.sign is not None:
        dq *= rules.sign
    store(dquery, head, rows, d, dq * rules.scale * LN2)


@jit
def key_gradient(
    query, key, value, dout, lse, delta, dkey, dvalue, rules,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """One tile of keys reads the queries that see it, of every head of its group; its dk, dv stay in registers."""
    tiles = tl.cdiv(rules.m, BLOCK_K)
    head, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    cols, d, dv = tile * BLOCK_K + tl.arange(0, BLOCK_K), tl.arange(0, D), tl.arange(0, DV)
    k, v = load(key, head, cols, d, cols < rules.m), load(value, head, cols, dv, cols < rules.m)
    dk_j, dv_j = tl.zeros([BLOCK_K, D], tl.float32), tl.zeros([BLOCK_K, DV], tl.float32)

    seen = seeing(rules, tile * BLOCK_K, BLOCK_K)
    turns = visits(rules, seen, tile, BLOCK_Q)
    full, total = turns[0], turns[1]
    for turn in range(full):
        rows = visited(rules, turns, tile, turn, False) * BLOCK_Q + tl.arange(0, BLOCK_Q)
        dk_j, dv_j = add_queries(dk_j, dv_j, k, v, query, dout, lse, delta, rules, seen, head, rows, cols, d, dv, False)
    for turn in range(full, total):
        rows = visited(rules, turns, tile, turn, True) * BLOCK_Q + tl.arange(0, BLOCK_Q)
        dk_j, dv_j = add_queries(dk_j, dv_j, k, v, query, dout, lse, delta, rules, seen, head, rows, cols, d, dv, True)
    store(dkey, head, cols, d, dk_j * rules.scale * LN2)
    store(dvalue, head, cols, dv, dv_j)


@jit
def add_keys(dq, q, do, shift, delta_i, key, value, rules, seen, head, rows, cols, d, dv, PARTIAL: tl.constexpr):
    """dq after one more tile of keys."""
    sees, near = None, None
    rows, across = rows[:, None], cols[None, :]
    if PARTIAL:
        sees = visible(rules, head, rows, across)
        near = within(rules, cols, seen, sees, 0)
    k, v = load(key, head, cols, d, near), load(value, head, cols, dv, near)
    p = tl.exp2(rules.scale * dot(q, k.T) - shift[:, None])
    ds = drop(p, rules, head, rows, across) * dot(do, v.T) - p * delta_i[:, None]
    if PARTIAL:
        ds = tl.where(sees, ds, 0.0)
    return dq + dot(ds.to(k.dtype), k)


@jit
def add_queries(dk_j, dv_j, k, v, query, dout, lse, delta, rules, seen, head, rows, cols, d, dv, PARTIAL: tl.constexpr):
    """dk and dv after one more tile of queries. The tile stands on its side: as pᵀ and dsᵀ it stays in registers."""
    sees, near = None, None
    cols, across = cols[:, None], rows[None, :]
    if PARTIAL:
        sees = visible(rules, head, across, cols)
        near = within(rules, rows, seen, sees, 0)
    q, do = signed(load(query, head, rows, d, near), rules), load(dout, head, rows, dv, near)
    shift, delta_i = zero_if_empty(load_vector(lse, head, rows)) * LOG2E, load_vector(delta, head, rows)
    p = tl.exp2(rules.scale * dot(k, q.T) - shift[None, :])
    z = drop(p, rules, head, across, cols)
    ds = z * dot(v, do.T) - p * delta_i[None, :]
    if PARTIAL:
        z, ds = tl.where(sees, z, 0.0), tl.where(sees, ds, 0.0)
    return dk_j + dot(ds.to(q.dtype), q), dv_j + dot(z.to(do.dtype), do)
