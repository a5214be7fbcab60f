"""Chunked attention in PyTorch: chunks of keys summarized independently, then combined."""

from attnlab.chunked import chunked_attention as public
from attnlab.chunked.torch_grad import Summaries, buffers, recomputed
from attnlab.core.arrays.torch import Keys, Lse, Out, Rows, Seed, Shift, Values
from attnlab.core.arrays.torch import accumulator, matmul
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.torch import drop
from attnlab.core.geometry import blocks, chunk_sizes
from attnlab.core.scores import Visible
from attnlab.core.scores.torch import read, scores, visible_tiles, zero_unless
from attnlab.core.shapes import Float
from attnlab.softmax.torch import Triple, exp_, highest, one_if_empty, zero_if_empty

import torch
from torch import Tensor as Array


def summarize(
    rules: Rules, seed: Seed, rows: slice, cols: slice, q: Rows, k: Keys, v: Values, bias: Shift, visible: Visible
) -> Triple:
    """(m, l, o) of one chunk of keys, by its own maximum."""
    s = scores(q, k, bias, visible)  # (..., Hk, G, Cq, Ck)
    m = highest(s)  # (5.2)
    s = s - zero_if_empty(m)[..., None]
    p = exp_(s)  # (5.2)
    l = p.sum(-1)  # (5.2)
    return m, l, matmul(drop(p, seed, rules, rows, cols), v)


def combine_all(summaries: Summaries) -> tuple[Float[Array, "*rows Dv"], Float[Array, "*rows"]]:
    """⊕ over all summaries, stacked: bring each to the common maximum, add, divide."""
    m = summaries[0].amax(0)  # (5.3)
    l, o = 0, 0
    for m_c, l_c, o_c in zip(*summaries):
        factor = torch.exp(m_c - zero_if_empty(m))  # at most 1: sums shrink to the common maximum
        l = l + factor * l_c  # (5.4)
        o = o + factor[..., None] * o_c  # (5.4)
    return zero_unless(l != 0, o / one_if_empty(l)[..., None]), m + torch.log(one_if_empty(l))


@implements(public)
@recomputed(summarize, combine_all)
def chunked_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """One query chunk at a time; all summaries of its key chunks are kept until they are combined."""
    dtype, dv = accumulator(x.query), x.value.shape[-1]
    query_chunk, key_chunk = chunk_sizes(rules.band.m, dv, *sizes)
    out, lse = x.query.new_empty((*x.query.shape[:-1], dv)), x.query.new_empty(x.query.shape[:-1], dtype=dtype)

    for rows in blocks(rules.band.n, query_chunk):
        q = rules.scale * x.query[..., rows, :].to(dtype)  # (..., Hk, G, Cq, D), read once
        chunks = len(list(rules.band.key_blocks(rows, key_chunk)))  # at most, as a mask may hide some
        summaries = buffers(chunks, q, dv)
        for c, (cols, visible) in enumerate(visible_tiles(rules, x, rows, key_chunk)):
            k, v, b = read(x, rows, cols, visible)
            for held, new in zip(summaries, summarize(rules, x.seed, rows, cols, q, k, v, b, visible)):
                held[c] = new
        out[..., rows, :], lse[..., rows] = combine_all(summaries) if chunks else (0, -torch.inf)
        del summaries  # before the next are made
    return out, lse
