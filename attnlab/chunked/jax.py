"""Chunked attention in JAX: chunks of keys summarized independently, then combined."""

from functools import partial

from attnlab.chunked import chunked_attention as public
from attnlab.call import Rules, implements
from attnlab.arrays.jax import Bias, Key, Keys, Lse, Mask, Out, Query, Rows, Seed, Shift, Value, Values
from attnlab.arrays.jax import accumulator, compiled, einsum
from attnlab.dropout.jax import drop
from attnlab.scores.jax import cut, only, scores, take, visibility
from attnlab.arrays.jax_blocks import Block, at, block, visits, write
from attnlab.softmax.jax import Triple, finite, positive
from attnlab.geometry import chunk_sizes
from attnlab.typing import Float

import jax
import jax.numpy as jnp
from jax import Array, lax

Summaries = tuple[Float[Array, " chunks *rows"], Float[Array, " chunks *rows"], Float[Array, " chunks *rows Dv"]]


@implements(public)
@compiled
def chunked_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules,
    query_chunk_size: int | None, key_chunk_size: int | None,
) -> tuple[Out, Lse]:
    """One query chunk at a time; all summaries of its key chunks are kept until they are combined."""
    n, m, dv, dtype = rules.band.n, rules.band.m, value.shape[-1], accumulator(query)
    query_chunk, key_chunk = chunk_sizes(m, dv, query_chunk_size, key_chunk_size)
    query_chunk, key_chunk = min(query_chunk, n), min(key_chunk, m)
    out, lse = jnp.zeros((*query.shape[:-1], dv), query.dtype), jnp.zeros(query.shape[:-1], dtype)

    @jax.checkpoint  # keeps b alone: the gradient computes the summaries again
    def attend(b: Array) -> tuple[Out, Lse]:
        rows = block(b, query_chunk, n)
        q = rules.scale * at(query, rows, -2).astype(dtype)
        first, last = visits(*rules.band.keys(rows.range), key_chunk, m)

        @jax.checkpoint  # keeps c alone: the gradient computes s and p again
        def summary(c: Array) -> Triple:
            cols = block(c, key_chunk, m, once=True)
            k, v = at(key, cols, -2), at(value, cols, -2)  # cut here: cond's gradient is as large as its arguments
            b = bias if bias is None else cut(bias, rows, cols)
            visit = partial(summarize, rules=rules, rows=rows, cols=cols)
            return lax.cond((first <= c) & (c < last), visit, skip, q, k, v, mask, b, seed)

        return combine_all(lax.map(summary, jnp.arange(-(-m // key_chunk))))

    def step(b: Array, results: tuple[Out, Lse]) -> tuple[Out, Lse]:
        (out, lse), rows = results, block(b, query_chunk, n)
        o, lse_i = attend(b)
        return write(out, o, rows, -2), write(lse, lse_i, rows, -1)

    return lax.fori_loop(0, -(-n // query_chunk), step, (out, lse))


def summarize(
    q: Rows, k: Keys, v: Values, mask: Mask, bias: Shift, seed: Seed, rules: Rules, rows: Block, cols: Block
) -> Triple:
    """(m, l, o) of one chunk of keys, by its own maximum."""
    visible = visibility(mask, bias, rules.band, rows, cols)
    s = scores(q, take(k, cols, visible), visible, bias, rows, cols)
    m = lax.stop_gradient(s.max(-1))
    p = jnp.exp(s - finite(m)[..., None])
    l = p.sum(-1)
    p, v = drop(p, seed, rules, rows, cols), take(v, cols, visible)
    return m, l, einsum("...hgqk,...hkd->...hgqd", p, v)


def skip(q: Rows, k: Keys, v: Values, mask: Mask, bias: Shift, seed: Seed) -> Triple:
    """The summary of a hidden chunk, of which nothing is computed: the identity of ⊕."""
    rows = q.shape[:-1]
    return jnp.full(rows, -jnp.inf, q.dtype), jnp.zeros(rows, q.dtype), jnp.zeros((*rows, v.shape[-1]), q.dtype)


def combine_all(summaries: Summaries) -> tuple[Float[Array, "*rows Dv"], Float[Array, "*rows"]]:
    """⊕ over all summaries: bring each to the common maximum, add, divide."""
    m_c, l_c, o_c = summaries
    m = m_c.max(0)
    factor = jnp.exp(m_c - finite(m))
    l, o = (factor * l_c).sum(0), einsum("c...,c...d->...d", factor, o_c)
    return only(l != 0, o / positive(l)[..., None]), m + jnp.log(positive(l))
