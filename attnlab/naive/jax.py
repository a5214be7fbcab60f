"""Naive attention in JAX: e^s / Σ e^s, the whole matrix at once."""

from attnlab.call import Rules, implements
from attnlab.naive import naive_attention as public
from attnlab.arrays.jax import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.jax import accumulator, compiled, einsum
from attnlab.dropout.jax import drop
from attnlab.scores.jax import only, scores, sees, take, visibility
from attnlab.arrays.jax_blocks import Block

import jax.numpy as jnp


@implements(public)
@compiled
def naive_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """Overflow is not repaired: that is this rung's lesson."""
    rows, cols = Block(0, rules.band.n), Block(0, rules.band.m)
    visible = visibility(mask, bias, rules.band, rows, cols)
    q = rules.scale * query.astype(accumulator(query))
    k, v = take(key, cols, visible), take(value, cols, visible)

    s = scores(q, k, visible, bias, rows, cols)
    e = jnp.exp(s)
    seen = sees(visible)
    l = jnp.where(seen, e.sum(-1), 1)
    p = e / l[..., None]
    o = einsum("...hgqk,...hkd->...hgqd", drop(p, seed, rules, rows, cols), v)
    return only(seen, o).astype(query.dtype), jnp.where(seen, jnp.log(l), -jnp.inf)
