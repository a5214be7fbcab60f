"""Tiled attention in JAX: the online fold, a tile of keys at a time for a tile of queries."""

from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator, compiled, scaled, weigh, zeros
from attnlab.core.arrays.jax_blocks import (
    band_at, block, known_tiles, put_block, take_rows, schedule, skip_hidden, squeeze_heads,
)
from attnlab.core.arrays.jax_once import backward_only
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.jax import drop
from attnlab.core.scores.jax import scores, shown, tile, zero_unless
from attnlab.softmax.jax import Triple, one_if_empty, zero_if_empty
from attnlab.tiled import tiled_attention as public
from attnlab.tiled.jax_grad import flash_gradient, tiled_attention_backward

import jax.numpy as jnp
from jax import Array
from jax.core import min_dim
from jax.lax import fori_loop, stop_gradient

__all__ = ["tiled_attention", "tiled_attention_backward"]

LONGEST = 2048  # keys of a tile for one query: XLA copies them
UNCUT = 2**16  # the same in half precision, where nothing is hidden: XLA cuts 16-bit numbers one by one


@implements(public)
@backward_only
@compiled
@flash_gradient
def tiled_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Each tile of queries reads the keys it sees once; its (m, l, o) stay on chip until the division."""
    uncut = x.key.dtype.itemsize == 2 and known_tiles(rules.band, x)
    block_q, block_k = rules.tile_sizes(sizes, longest=UNCUT if uncut else LONGEST)
    block_q, block_k = min_dim(block_q, rules.band.n), min_dim(block_k, rules.band.m)
    dtype, dv, query = accumulator(x.query), x.value.shape[-1], squeeze_heads(x.query, rules.heads)
    out, lse = zeros(x.query, dv), jnp.zeros_like(x.query[..., 0], dtype)

    def query_block(b: Array, results: tuple[Out, Lse]) -> tuple[Out, Lse]:
        (out, lse), rows = results, block(b, block_q, rules.band.n, once=rules.band.block_mask is not None)
        q, factor = scaled(take_rows(query, rules.heads, rows), rules.scale)  # (..., Hk, G, Bq, D), read once
        m, l = jnp.full_like(q[..., 0], -jnp.inf, dtype), jnp.zeros_like(q[..., 0], dtype)
        o = zeros(q, dv, dtype)

        def key_block(turn: Array, carry: Triple) -> Triple:
            (m, l, o), cols = carry, block(nth(turn), block_k, rules.band.m, once=True)
            k, v, b, visible = tile(rules, x, rows, cols, narrow=True)
            s = scores(q, k, b, visible, factor)  # (8.1), (..., Hk, G, Bq, Bk): a tile, on chip
            m_next = jnp.maximum(m, stop_gradient(s.max(-1)))  # (8.2)
            shift = zero_if_empty(m_next)
            alpha, p = jnp.exp(m - shift), jnp.exp(s - shift[..., None])  # (8.5); alpha ≤ 1: old sums shrink
            l = alpha * l + p.sum(-1)  # (8.5)
            p = drop(p, x.seed, rules, rows, cols)
            return m_next, l, alpha[..., None] * o + weigh(p, v)  # (8.5); o stays on chip

        found = schedule(band_at(rules.band, x.offset), b, block_q, block_k)
        first, last, nth = skip_hidden(found, shown(x, rows, block_k))
        m, l, o = fori_loop(first, last, key_block, (m, l, o))
        o = zero_unless(l != 0, o / one_if_empty(l)[..., None])  # (8.3), written once
        return put_block(out, o, rows, -2), put_block(lse, m + jnp.log(one_if_empty(l)), rows, -1)

    return fori_loop(0, -(-rules.band.n // block_q), query_block, (out, lse))
