"""Safe attention in JAX: naive attention with each row of scores shifted by its maximum."""

from attnlab.call import Rules, implements
from attnlab.safe import safe_attention as public
from attnlab.arrays.jax import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.jax import accumulator, compiled, einsum
from attnlab.dropout.jax import drop
from attnlab.scores.jax import only, scores, take, visibility
from attnlab.arrays.jax_blocks import Block
from attnlab.softmax.jax import finite, positive

import jax.numpy as jnp
from jax.lax import stop_gradient


@implements(public)
@compiled
def safe_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1. The shift cancels, so it needs no gradient."""
    rows, cols = Block(0, rules.band.n), Block(0, rules.band.m)
    visible = visibility(mask, bias, rules.band, rows, cols)
    q = rules.scale * query.astype(accumulator(query))
    k, v = take(key, cols, visible), take(value, cols, visible)

    s = scores(q, k, visible, bias, rows, cols)
    m = stop_gradient(s.max(-1))
    e = jnp.exp(s - finite(m)[..., None])
    l = e.sum(-1)
    p = e / positive(l)[..., None]
    o = einsum("...hgqk,...hkd->...hgqd", drop(p, seed, rules, rows, cols), v)
    return only(l != 0, o).astype(query.dtype), m + jnp.log(positive(l))
