"""Tiled attention as a GPU kernel, in Pallas: the fold of ``attnlab.tiled.jax``, program ids for its outer loops.

A program folds, for one block of queries of one head, all tiles of keys that the block sees. Programs run at once and
pass nothing to one another, which is why queries are outside: their (m, l, o) belong to one program, live in its
registers from the first tile to the last, and are written once. Pallas compiles the kernel through Triton; where
there is no GPU its interpreter runs it, slowly. Derived in notebook 12.
"""

import functools
import math

from attnlab.call import Rules, Sizes
from attnlab.arrays.jax import Key, Lse, Mask, Offset, Out, Query, Seed, Value
from attnlab.arrays.jax_blocks import Block
from attnlab.softmax.jax import Triple, one_if_empty, zero_if_empty
from attnlab.kernels.sizes import tile_sizes
from attnlab.kernels.pallas.tile import (
    Ref, band_of, block_b, dot, drop, kept, launch, load, schedule, scores, seen, store, visibility, whole, with_mask,
    with_number, with_table,
)  # fmt: skip

import jax.numpy as jnp
from jax import Array, ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.lax import fori_loop


def forward(
    query: Query, key: Key, value: Value, mask: Mask, seed: Seed, offset: Offset, rules: Rules, sizes: Sizes,
    interpret: bool = False,
) -> tuple[Out, Lse]:
    """Program (b, h) gets the b-th block of queries of head h, and all keys and values that the head reads."""
    (*heads, n, d), (m, dv), group = query.shape, value.shape[-2:], query.shape[-3]
    block_q, block_k = tile_sizes(query, value, mask, rules, sizes, (128, 64))
    grid = pl.cdiv(n, block_q), math.prod(heads)
    out, lse = launch(
        functools.partial(kernel, rules=rules, d=d, d_v=dv, block_k=block_k),
        grid,
        inputs=[
            (query.reshape(-1, n, d), block_b(block_q, d)),
            (key.reshape(-1, m, d), whole((m,), d, group=group)),
            (value.reshape(-1, m, dv), whole((m,), dv, group=group)),
            with_mask(mask, heads),
            with_number(seed),
            with_number(offset),
            with_table(rules.band, block_q, block_k),
        ],
        outputs=[
            (ShapeDtypeStruct((grid[1], n, dv), query.dtype), block_b(block_q, dv)),
            (ShapeDtypeStruct((grid[1], n), jnp.float32), block_b(block_q)),
        ],
        interpret=interpret,
    )
    return out.reshape(*heads, n, dv), lse.reshape(*heads, n)


def kernel(
    q_ref: Ref, k_ref: Ref, v_ref: Ref, mask_ref: Ref, seed_ref: Ref, offset_ref: Ref, table_ref: Ref,
    out_ref: Ref, lse_ref: Ref, *, rules: Rules, d: int, d_v: int, block_k: int,
) -> None:
    """What one program does: q, m, l and o stay on chip; tiles of k and v pass by; out and lse are written once."""
    b, h, band = pl.program_id(0), pl.program_id(1), band_of(rules, offset_ref)
    block_q, width = out_ref.shape
    rows = Block(b * block_q, block_q)
    inside = rows.positions < rules.band.n
    q = load(q_ref, d, inside)
    m, l = jnp.full(block_q, -jnp.inf, jnp.float32), jnp.zeros(block_q, jnp.float32)
    o = jnp.zeros((block_q, width), jnp.float32)

    def key_block(turn: Array, carry: Triple) -> Triple:
        (m, l, o), cols = carry, Block(nth(turn) * block_k, block_k)
        visible = visibility(mask_ref, band, rows, cols)
        k = load(k_ref.at[pl.ds(cols.start, block_k)], d, seen(visible, 0))
        v = load(v_ref.at[pl.ds(cols.start, block_k)], d_v, seen(visible, 0))
        s = scores(q, k, visible, rules.scale)
        m_next = jnp.maximum(m, s.max(-1))
        shift = zero_if_empty(m_next)
        alpha, p = jnp.exp(m - shift), jnp.exp(s - shift[:, None])
        l = alpha * l + p.sum(-1)
        p = drop(p, kept(seed_ref, h, rules.dropout, rows, cols), rules.dropout)
        return m_next, l, alpha[:, None] * o + dot("qk,kd->qd", p.astype(v.dtype), v)

    first, last, nth = schedule(band, table_ref, b, block_q, block_k)
    m, l, o = fori_loop(first, last, key_block, (m, l, o))
    o = jnp.where((l != 0)[:, None], o / one_if_empty(l)[:, None], 0)
    store(out_ref, d_v, o, inside)
    triton.store(lse_ref, m + jnp.log(one_if_empty(l)), mask=inside)
