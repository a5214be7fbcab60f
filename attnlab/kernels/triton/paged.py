"""Paged attention as a Triton kernel: the fold of ``forward``, with one more load, which asks the table for a page.

    token t of sequence b lies in page table[b, t // S], at place t % S

A program has a tile of queries of one sequence and key head: all G heads of a group, so that a key that is loaded once
serves all of them. Where there are too few programs for the GPU, as in decoding, several share a tile: each folds a
part of the keys into an (out, lse) of its own, and ``forward.join`` joins them by ⊕. Nothing is gathered or copied, and
the lengths stay on the GPU. Derived in notebooks 12 and 19.
"""

import math
from typing import Any, NamedTuple

from attnlab.core.arrays.torch import Array, Lse, Out, Query
from attnlab.core.bundle import Rules
from attnlab.core.geometry import Band
from attnlab.kernels.triton.forward import launch_and_join
from attnlab.kernels.triton.layout import constants, grouped, padded
from attnlab.kernels.triton.tile import (
    INFINITY, LN2, dot, jit, load, one_if_empty, store, store_vector, zero_if_empty,
)

import torch
import triton
import triton.language as tl

TILES = (64, 64)
"""The most queries and keys of a tile: a step of decoding has few queries."""


class Pages(NamedTuple):
    """Pages (P, Hk, S, cols) as a kernel sees them; strides in units of 8 elements as in layout.Matrices."""

    data: Any
    page_stride: int
    head_stride: int
    token_stride: int
    col_stride: int
    cols: Any
    unit: Any


class Tables(NamedTuple):
    """The table (B, width) and the lengths (B,) of a call, and the rest of what a query may see."""

    table: Any
    width: int
    lengths: Any
    size: Any  # of a page
    n: int  # newest tokens that ask
    left: int | None
    scale: float  # for 2^x


def paged(
    query: Query, key_pages: Array, value_pages: Array, block_table: Array, lengths: Array, left: int | None,
    scale: float,
) -> tuple[Out, Lse]:
    """(out, lse) of query (B, Hk, G, N, D), of pages with any strides; entries of the table are not checked."""
    b, hk, group, n, _ = query.shape
    size, dv = value_pages.shape[-2:]
    out = query.new_empty((*query.shape[:-1], dv))
    lse = query.new_empty(query.shape[:-1], dtype=torch.float32)
    rules = Rules(scale, Band(n, block_table.shape[1] * size, left, 0), (b, hk, group))
    value = value_pages.new_empty((b, hk, 0, dv))  # for its dtype and size
    static = constants(query, value, (False, False), rules, (None, None), TILES, padded(dv), 1)
    static["num_stages"] += 2  # the table is asked two tiles before its pages are needed
    programs = b * hk * triton.cdiv(group * n, static["BLOCK_Q"])
    table, lengths = block_table.contiguous(), lengths.contiguous()
    made = Tables(table, table.shape[1], lengths, tl.constexpr(size), n, left, scale * math.log2(math.e))
    inputs = grouped(query), pages(key_pages), pages(value_pages)
    return launch_and_join(fold_pages, programs, inputs, out, lse, made, rules.band.m, static)


def pages(x: Array) -> Pages:
    """Where the rows of each page lie; nothing is copied."""
    *strides, col_stride = x.stride()
    unit = 8 if all(stride % 8 == 0 for stride in strides) else 1
    return Pages(x, *(stride // unit for stride in strides), col_stride, tl.constexpr(x.shape[-1]), tl.constexpr(unit))


@jit
def fold_pages(
    query, keys, values, out, lse, call, split,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """One tile of queries of one sequence reads its keys, or a part of them, page by page."""
    tiles = tl.cdiv(query.rows, BLOCK_Q)
    part, place = tl.program_id(0) % split, tl.program_id(0) // split
    head, tile = place // tiles, place % tiles
    sequence, key_head = head // query.heads[1], head % query.heads[1]
    rows, d, dv = tile * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, D), tl.arange(0, DV)
    q = load(query, head, rows, d, rows < query.rows)  # read once, stays on chip
    m, l = tl.full([BLOCK_Q], -INFINITY, tl.float32), tl.zeros([BLOCK_Q], tl.float32)
    o = tl.zeros([BLOCK_Q, DV], tl.float32)

    length = tl.load(call.lengths + sequence).to(tl.int32)
    at = rows // query.group + length - call.n  # the position of each query
    end = tl.minimum(length, (tile * BLOCK_Q + BLOCK_Q - 1) // query.group + length - call.n + 1)
    begin = 0
    if call.left is not None:
        begin = tl.maximum(tile * BLOCK_Q // query.group + length - call.n - call.left, 0)
    first, total = begin // BLOCK_K, tl.cdiv(end, BLOCK_K) - begin // BLOCK_K
    for turn in range(first + total * part // split, first + total * (part + 1) // split):
        cols = turn * BLOCK_K + tl.arange(0, BLOCK_K)
        near = (begin <= cols) & (cols < end)  # what no query of the tile sees may hold anything
        ids = tl.load(call.table + sequence * call.width + cols // call.size, mask=near, other=0).to(tl.int64)
        k = load_pages(keys, ids, key_head, cols % call.size, d, near)
        v = load_pages(values, ids, key_head, cols % call.size, dv, near)
        sees = near[None, :] & (cols[None, :] <= at[:, None])
        if call.left is not None:
            sees &= cols[None, :] >= at[:, None] - call.left
        s = tl.where(sees, call.scale * dot(q, k.T), -INFINITY)
        m_next = tl.maximum(m, tl.max(s, 1))
        shift = zero_if_empty(m_next)
        alpha, p = tl.exp2(m - shift), tl.exp2(s - shift[:, None])
        l = alpha * l + tl.sum(p, 1)
        o = alpha[:, None] * o + dot(p.to(v.dtype), v)
        m = m_next

    head += part * (tl.num_programs(0) // (tiles * split))
    store(out, head, rows, dv, o / one_if_empty(l)[:, None])  # written once, and divided once
    store_vector(lse, head, rows, (m + tl.log2(one_if_empty(l))) * LN2)


@jit
def load_pages(x, ids, head, places, cols, seen):
    """Rows of pages, each with a page of its own; 0 where nothing is seen. 64 bits: pools exceed 2³¹ numbers."""
    rows = ids * x.page_stride + head.to(tl.int64) * x.head_stride + places.to(tl.int64) * x.token_stride
    at = x.data + x.unit * rows[:, None] + cols.to(tl.int64)[None, :] * x.col_stride
    return tl.load(at, mask=seen[:, None] & (cols < x.cols)[None, :], other=0)
