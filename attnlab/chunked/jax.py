"""Chunked attention in JAX: chunks of keys summarized independently, then combined."""

import functools

from attnlab.chunked import chunked_attention as public
from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator, compiled, einsum, matmul, zeros
from attnlab.core.arrays.jax_blocks import Block, band_at, block, block_range, put_block, take_block
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.jax import drop
from attnlab.core.geometry import chunk_sizes
from attnlab.core.scores.jax import over_tile, scores, shown, tile, zero_unless
from attnlab.core.shapes import Float
from attnlab.softmax.jax import Triple, one_if_empty, zero_if_empty

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.core import min_dim

Summaries = tuple[Float[Array, " chunks *rows"], Float[Array, " chunks *rows"], Float[Array, " chunks *rows Dv"]]


@implements(public)
@compiled
def chunked_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """One query chunk at a time; all summaries of its key chunks are kept until they are combined."""
    n, m, dv, dtype = rules.band.n, rules.band.m, x.value.shape[-1], accumulator(x.query)
    query_chunk, key_chunk = chunk_sizes(m, dv, *sizes)
    query_chunk, key_chunk = min_dim(query_chunk, n), min_dim(key_chunk, m)
    out, lse = zeros(x.query, dv), jnp.zeros_like(x.query[..., 0], dtype)

    @jax.checkpoint  # keeps b alone: the gradient computes the summaries again
    def attend(b: Array) -> tuple[Out, Lse]:
        rows = block(b, query_chunk, n)
        q = rules.scale * take_block(x.query, rows, -2).astype(dtype)  # (..., Hk, G, Cq, D), read once
        first, last = block_range(*band_at(rules.band, x.offset).keys(rows.range), key_chunk, m)
        seen = shown(x, rows, key_chunk)

        @jax.checkpoint  # keeps c alone: the gradient computes s and p again
        def summary(c: Array) -> Triple:
            cols = block(c, key_chunk, m, once=True)
            part = x._replace(query=q, key=take_block(x.key, cols, -2), value=take_block(x.value, cols, -2))
            if x.bias is not None:  # all are cut here: cond's gradient is as large as its arguments
                part = part._replace(bias=over_tile(x.bias, rows, cols))
            visit = functools.partial(summarize, rules, rows, cols)
            within = (first <= c) & (c < last)
            return lax.cond(within if seen is None else within & seen[c], visit, skip, part)

        return combine_all(lax.map(summary, jnp.arange(-(-m // key_chunk), dtype=jnp.int32)))

    def step(b: Array, results: tuple[Out, Lse]) -> tuple[Out, Lse]:
        (out, lse), rows = results, block(b, query_chunk, n)
        o, lse_i = attend(b)
        return put_block(out, o, rows, -2), put_block(lse, lse_i, rows, -1)

    return lax.fori_loop(0, -(-n // query_chunk), step, (out, lse))


def summarize(rules: Rules, rows: Block, cols: Block, part: Inputs) -> Triple:
    """(m, l, o) of one chunk of keys, by its own maximum; the arrays are those of the chunk, the query scaled."""
    k, v, b, visible = tile(rules, part, rows, cols)
    s = scores(part.query, k, b, visible)  # (..., Hk, G, Cq, Ck)
    m = lax.stop_gradient(s.max(-1))  # (5.2)
    p = jnp.exp(s - zero_if_empty(m)[..., None])  # (5.2)
    l = p.sum(-1)  # (5.2)
    return m, l, matmul(drop(p, part.seed, rules, rows, cols), v)


def skip(part: Inputs) -> Triple:
    """The summary of a hidden chunk, of which nothing is computed: the identity of ⊕."""
    q = part.query
    return jnp.full_like(q[..., 0], -jnp.inf), jnp.zeros_like(q[..., 0]), zeros(q, part.value.shape[-1])


def combine_all(summaries: Summaries) -> tuple[Float[Array, "*rows Dv"], Float[Array, "*rows"]]:
    """⊕ over all summaries: bring each to the common maximum, add, divide."""
    m_c, l_c, o_c = summaries
    m = m_c.max(0)  # (5.3)
    factor = jnp.exp(m_c - zero_if_empty(m)[None])  # at most 1: sums shrink to the common maximum
    l, o = (factor * l_c).sum(0), einsum("c...,c...d->...d", factor, o_c)  # (5.4)
    return zero_unless(l != 0, o / one_if_empty(l)[..., None]), m + jnp.log(one_if_empty(l))
