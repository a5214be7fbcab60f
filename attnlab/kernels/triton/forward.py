"""Tiled attention as a Triton kernel: the online fold, each tile of queries in a program of its own.

The outer loop of attnlab.tiled.torch has become a number, ``tl.program_id``: a GPU runs as many programs at once as it
has room for, in any order. That is why queries are outside: programs that share a tile of keys only read it, while
programs that shared a tile of queries would have to write the same (m, l, o). Derived in notebooks 08 and 12.

Where there are too few tiles of queries for the GPU, as in decoding, several programs share one all the same: each
folds a part of the keys into an (out, lse) of its own, and a second kernel joins them by ⊕.
"""

from typing import Any

from attnlab.core.arrays.torch import Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.core.bundle import Rules, Sizes
from attnlab.kernels.triton.layout import Segments, constants, grouped, kernel_rules, matrices, padded, parts, vectors
from attnlab.kernels.triton.tile import (
    INFINITY, LN2, dot, drop, jit, launch, load, load_vector, one_if_empty, seen_by, signed, store, store_vector,
    visible, visited, visits, within, zero_if_empty,
)

import torch
import triton
import triton.language as tl

FOLD_TILE = (128, 64)
"""The most queries and keys of a tile."""


def forward(
    query: Query, key: Key, value: Value, mask: Mask, segments: Segments, seed: Seed, rules: Rules, sizes: Sizes,
    dtype: torch.dtype | None = None,
) -> tuple[Out, Lse]:
    """One program for each tile of queries of each key head, or for each part of its keys; none waits for another.

    ``dtype`` of out: that of the query by default, float32 where parts are merged before they are rounded.
    """
    out = query.new_empty((*query.shape[:-1], value.shape[-1]), dtype=dtype)
    lse = query.new_empty(query.shape[:-1], dtype=torch.float32)
    compared = mask is not None, segments is not None
    static = constants(query, value, compared, rules, sizes, FOLD_TILE, padded(value.shape[-1]), 1)
    block_q, block_k = static["BLOCK_Q"], static["BLOCK_K"]
    programs = key.shape[:-2].numel() * triton.cdiv(rules.heads[-1] * rules.band.n, block_q)
    made = kernel_rules(query, mask, segments, seed, rules, block_q, block_k)
    inputs = grouped(query), matrices(key), matrices(value)
    return launch_and_join(fold, programs, inputs, out, lse, made, rules.band.m, static)


def launch_and_join(
    kernel: Any, programs: int, inputs: tuple, out: Out, lse: Lse, made: Any, m: int, static: dict[str, int]
) -> tuple[Out, Lse]:
    """Launch a kernel that folds; if its m keys are split, each part has an (out, lse) of its own, joined by ⊕."""
    split, results = parts(programs, m, static["BLOCK_K"], out.device), (grouped(out), vectors(lse))
    folded = results
    if split > 1:
        part_out = out.new_empty((split, *out.shape), dtype=torch.float32)
        folded = grouped(part_out), vectors(lse.new_empty((split, *lse.shape)))
    launch(kernel, programs * split, *inputs, *folded, made, split, **static)
    if split > 1:
        launch(join, programs, *folded, *results, split, BLOCK_Q=static["BLOCK_Q"], DV=static["DV"])
    return out, lse


@jit
def fold(
    query, key, value, out, lse, rules, split,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """One tile of queries reads the keys it sees once, or a part of them; its (m, l, o) stay in registers."""
    tiles = tl.cdiv(rules.rows, BLOCK_Q)
    part, place = tl.program_id(0) % split, tl.program_id(0) // split
    head, tile = place // tiles, place % tiles
    if rules.right is not None:
        tile = tiles - 1 - tile  # the last tiles see the most keys: what takes longest begins first
    first_row = tile * BLOCK_Q
    rows, d, dv = first_row + tl.arange(0, BLOCK_Q), tl.arange(0, D), tl.arange(0, DV)
    q = signed(load(query, head, rows, d, rows < rules.rows), rules)  # read once, stays on chip
    m, l = tl.full([BLOCK_Q], -INFINITY, tl.float32), tl.zeros([BLOCK_Q], tl.float32)
    o = tl.zeros([BLOCK_Q, DV], tl.float32)

    seen = seen_by(rules, first_row, BLOCK_Q)
    turns = visits(rules, seen, tile, BLOCK_K)
    full, total = turns[0], turns[1]
    first, last = total * part // split, total * (part + 1) // split
    for turn in range(first, tl.minimum(full, last)):  # full tiles: every query sees every key
        cols = visited(rules, turns, tile, turn, False) * BLOCK_K + tl.arange(0, BLOCK_K)
        m, l, o = fold_tile(m, l, o, q, key, value, rules, seen, head, rows, cols, d, dv, False)
    for turn in range(tl.maximum(full, first), last):  # partial ones
        cols = visited(rules, turns, tile, turn, True) * BLOCK_K + tl.arange(0, BLOCK_K)
        m, l, o = fold_tile(m, l, o, q, key, value, rules, seen, head, rows, cols, d, dv, True)

    head += part * (tl.num_programs(0) // (tiles * split))
    store(out, head, rows, dv, o / one_if_empty(l)[:, None])  # written once, and divided once
    store_vector(lse, head, rows, (m * rules.scale + tl.log2(one_if_empty(l))) * LN2)


@jit
def fold_tile(m, l, o, q, key, value, rules, seen, head, rows, cols, d, dv, PARTIAL: tl.constexpr):
    """(m, l, o) after one more tile of keys; p goes from the first product to the second in registers."""
    sees, near = None, None
    if PARTIAL:
        sees = visible(rules, head, rows[:, None], cols[None, :])
        near = within(rules, cols, seen, sees, 0)
    k, v = load(key, head, cols, d, near), load(value, head, cols, dv, near)
    s = dot(q, k.T)  # scaled below, in float32: a scaled q would be rounded to its dtype
    if PARTIAL:
        s = tl.where(sees, s, -INFINITY)
    m_next = tl.maximum(m, tl.max(s, 1))
    shift = rules.scale * zero_if_empty(m_next)
    alpha, p = tl.exp2(rules.scale * m - shift), tl.exp2(rules.scale * s - shift[:, None])
    l = alpha * l + tl.sum(p, 1)
    p = drop(p, rules, head, rows[:, None], cols[None, :])
    o = alpha[:, None] * o + dot(p.to(v.dtype), v)
    return m_next, l, o


@jit
def join(parts, part_lse, out, lse, split, BLOCK_Q: tl.constexpr, DV: tl.constexpr):
    """One tile of queries: ⊕ over the parts of its keys, each of which weighs e^lse."""
    tiles = tl.cdiv(lse.rows, BLOCK_Q)
    head, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    heads = tl.num_programs(0) // tiles
    rows, dv = tile * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, DV)
    m, l = tl.full([BLOCK_Q], -INFINITY, tl.float32), tl.zeros([BLOCK_Q], tl.float32)
    o = tl.zeros([BLOCK_Q, DV], tl.float32)
    for part in range(split):
        m_part = load_vector(part_lse, part * heads + head, rows)
        m_next = tl.maximum(m, m_part)
        shift = zero_if_empty(m_next)
        alpha, weight = tl.exp(m - shift), tl.exp(m_part - shift)
        l = alpha * l + weight
        o = alpha[:, None] * o + weight[:, None] * load(parts, part * heads + head, rows, dv, rows < lse.rows)
        m = m_next
    store(out, head, rows, dv, o / one_if_empty(l)[:, None])
    store_vector(lse, head, rows, m + tl.log(one_if_empty(l)))
