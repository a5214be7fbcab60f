"""Chunked attention in PyTorch: chunks of keys summarized independently, then combined."""

from attnlab.chunked import chunked_attention as public
from attnlab.chunked.torch_grad import Summaries, buffers, recomputed
from attnlab.call import Rules, implements
from attnlab.arrays.torch import Bias, Key, Keys, Lse, Mask, Out, Query, Rows, Seed, Shift, Value, Values, Visible
from attnlab.arrays.torch import accumulator, matmul, no_autocast
from attnlab.dropout.torch import drop
from attnlab.scores.torch import only, read, scores
from attnlab.softmax.torch import Triple, exp_, finite, highest, positive
from attnlab.geometry import blocks, chunk_sizes
from attnlab.typing import Float

import torch
from torch import Tensor as Array


def summarize(
    q: Rows, k: Keys, v: Values, bias: Shift, visible: Visible, seed: Seed, rules: Rules, rows: slice, cols: slice
) -> Triple:
    """(m, l, o) of one chunk of keys, by its own maximum."""
    s = scores(q, k, bias, visible)
    m = highest(s)
    s = s - finite(m)[..., None]
    p = exp_(s)
    l = p.sum(-1)
    return m, l, matmul(drop(p, seed, rules, rows, cols), v)


def combine_all(summaries: Summaries) -> tuple[Float[Array, "*rows Dv"], Float[Array, "*rows"]]:
    """⊕ over all summaries, stacked: bring each to the common maximum, add, divide."""
    m = summaries[0].amax(0)
    l, o = 0, 0
    for m_c, l_c, o_c in zip(*summaries):
        factor = torch.exp(m_c - finite(m))
        l = l + factor * l_c
        o = o + factor[..., None] * o_c
    return only(l != 0, o / positive(l)[..., None]), m + torch.log(positive(l))


@torch.compiler.disable  # it would unroll the loops
@implements(public)
@no_autocast
@recomputed(summarize, combine_all)
def chunked_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules,
    query_chunk_size: int | None, key_chunk_size: int | None,
) -> tuple[Out, Lse]:
    """One query chunk at a time; all summaries of its key chunks are kept until they are combined."""
    dtype, dv = accumulator(query), value.shape[-1]
    query_chunk, key_chunk = chunk_sizes(rules.band.m, dv, query_chunk_size, key_chunk_size)
    out, lse = query.new_empty((*query.shape[:-1], dv)), query.new_empty(query.shape[:-1], dtype=dtype)

    for rows in blocks(rules.band.n, query_chunk):
        q = rules.scale * query[..., rows, :].to(dtype)
        chunks = list(rules.band.key_blocks(rows, key_chunk))
        summaries = buffers(len(chunks), q, dv)
        for c, cols in enumerate(chunks):
            tile = read(key, value, mask, bias, rules.band, rows, cols, look=True)
            for held, new in zip(summaries, summarize(q, *tile, seed, rules, rows, cols)):
                held[c] = new
        out[..., rows, :], lse[..., rows] = combine_all(summaries) if chunks else (0, -torch.inf)
        del summaries  # before the next are made
    return out, lse
