"""Chunked attention in NumPy: chunks of keys summarized independently, then combined."""

from collections.abc import Callable

import numpy as np
from numpy import ndarray as Array

from attnlab.chunked import chunked_attention as public
from attnlab.core.arrays.heads import by_heads_in_cache
from attnlab.core.arrays.numpy import Lse, Out, Rows
from attnlab.core.arrays.numpy import accumulator, empty, matmul, quiet
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.numpy import drop
from attnlab.core.geometry import blocks, chunk_sizes
from attnlab.core.scores import Visible
from attnlab.core.scores.numpy import read, scores, visible_tiles
from attnlab.core.shapes import Float
from attnlab.softmax.numpy import Triple, one_if_empty, zero_if_empty


@implements(public)
@quiet
@by_heads_in_cache
def chunked_attention(rules: Rules, sizes: Sizes, x: Inputs, empty: Callable = empty) -> tuple[Out, Lse]:
    """One query chunk at a time; all summaries of its key chunks are kept until they are combined."""
    (out, lse), dtype = empty(x), accumulator(x.query)
    query_chunk, key_chunk = chunk_sizes(rules.band.m, x.value.shape[-1], *sizes)

    for rows in blocks(rules.band.n, query_chunk):
        q = rules.scale * x.query[..., rows, :].astype(dtype, copy=False)  # (..., Hk, G, Cq, D), read once
        tiles = visible_tiles(rules, x, rows, key_chunk)
        summaries = [summarize(rules, x, q, rows, cols, visible) for cols, visible in tiles]
        out[..., rows, :], lse[..., rows] = combine_all(summaries) if summaries else (0, -np.inf)
        del summaries  # before the next are made
    return out, lse


def summarize(rules: Rules, x: Inputs, q: Rows, rows: slice, cols: slice, visible: Visible) -> Triple:
    """(m, l, o) of one chunk of keys, by its own maximum."""
    k, v, b = read(x, rows, cols, visible)
    s = scores(q, k, b, visible)  # (..., Hk, G, Cq, Ck)
    m = s.max(-1)  # (5.2)
    s -= zero_if_empty(m)[..., None]
    p = np.exp(s, out=s)  # (5.2)
    l = p.sum(-1)  # (5.2)
    return m, l, matmul(drop(p, x.seed, rules, rows, cols), v)


def combine_all(summaries: list[Triple]) -> tuple[Float[Array, "*rows Dv"], Float[Array, "*rows"]]:
    """⊕ over all summaries: bring each to the common maximum, add, divide."""
    m = np.max([m_c for m_c, _, _ in summaries], axis=0)  # (5.3)
    l, o = 0, 0
    for m_c, l_c, o_c in summaries:
        factor = np.exp(m_c - zero_if_empty(m))  # at most 1: sums shrink to the common maximum
        l = l + factor * l_c  # (5.4)
        o_c *= factor[..., None]
        o = o + o_c  # (5.4)
    return o / one_if_empty(l)[..., None], m + np.log(one_if_empty(l))
