"""Tiled attention as a Triton kernel: the online fold, each tile of queries in a program of its own.

The outer loop of attnlab.tiled.torch has become a number, ``tl.program_id``: a GPU runs as many programs at once as it
has room for, in any order. That is why queries are outside: programs that share a tile of keys only read it, while
programs that shared a tile of queries would have to write the same (m, l, o). Derived in notebooks 08 and 12.
"""

from attnlab.call import Rules, Sizes
from attnlab.arrays.torch import Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.kernels.triton.tile import (
    INFINITY, constants, dot, drop, dropout, finite, jit, keys, launch, load, matrices, partial, positive, seen_keys,
    shown, store, store_vector, vectors, visible, visibility,
)

import torch
import triton
import triton.language as tl


@jit
def fold(
    query, key, value, out, lse, mask, band, dropout, scale,
    GROUP: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """One tile of queries of one head reads the keys it sees once; its (m, l, o) stay in registers."""
    tiles = tl.cdiv(band.n, BLOCK_Q)
    head, first_row = tl.program_id(0) // tiles, tl.program_id(0) % tiles * BLOCK_Q
    rows, d, dv = first_row + tl.arange(0, BLOCK_Q), tl.arange(0, D), tl.arange(0, DV)
    q = load(query, head, rows, d, rows < band.n)  # read once, stays on chip
    m, l = tl.full([BLOCK_Q], -INFINITY, tl.float32), tl.zeros([BLOCK_Q], tl.float32)
    o = tl.zeros([BLOCK_Q, DV], tl.float32)

    first, last = keys(band, first_row, BLOCK_Q)
    for first_col in range(first // BLOCK_K * BLOCK_K, last, BLOCK_K):
        if shown(band, first_row, first_col):
            cols = first_col + tl.arange(0, BLOCK_K)
            seen = seen_keys(band, mask, head, rows, cols, first, last)
            k, v = load(key, head // GROUP, cols, d, seen), load(value, head // GROUP, cols, dv, seen)
            s = scale * dot(q, k.T)  # scaled in float32: a scaled q would be rounded to its dtype
            if partial(band, mask, first_row, first_col, BLOCK_Q, BLOCK_K):
                s = tl.where(visible(band, mask, head, rows, cols), s, -INFINITY)
            m_next = tl.maximum(m, tl.max(s, 1))
            shift = finite(m_next)
            # A GPU has 2^x only. FlashAttention hides the log₂e of e^x = 2^(x log₂e) in scale, and rounds s once more.
            alpha, p = tl.exp(m - shift), tl.exp(s - shift[:, None])
            l = alpha * l + tl.sum(p, 1)
            o = alpha[:, None] * o + dot(drop(p, dropout, head, rows, cols).to(v.dtype), v)
            m = m_next
    store(out, head, rows, dv, o / positive(l)[:, None])  # written once, and divided once
    store_vector(lse, head, rows, m + tl.log(positive(l)))


def forward(
    query: Query, key: Key, value: Value, mask: Mask, seed: Seed, rules: Rules, sizes: Sizes
) -> tuple[Out, Lse]:
    """One program for each tile of queries of each head; none waits for another."""
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    lse = query.new_empty(query.shape[:-1], dtype=torch.float32)
    static = constants(query, value, mask, rules, sizes, rows=128)
    programs = query.shape[:-2].numel() * triton.cdiv(rules.band.n, static["BLOCK_Q"])
    launch(
        fold, programs, matrices(query), matrices(key), matrices(value), matrices(out), vectors(lse),
        *visibility(query, mask, rules), dropout(seed, rules), rules.scale, **static,
    )
    return out, lse
