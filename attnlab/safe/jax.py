"""Safe attention in JAX: naive attention with each row of scores shifted by its maximum."""

from attnlab.call import Inputs, Rules, Sizes, implements
from attnlab.safe import safe_attention as public
from attnlab.arrays.jax import Lse, Out
from attnlab.arrays.jax import accumulator, compiled, einsum
from attnlab.dropout.jax import drop
from attnlab.scores.jax import only, scores, tile
from attnlab.arrays.jax_blocks import Block
from attnlab.softmax.jax import finite, positive

import jax.numpy as jnp
from jax.lax import stop_gradient


@implements(public)
@compiled
def safe_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1. The shift cancels, so it needs no gradient."""
    rows, cols = Block(0, rules.band.n), Block(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.astype(accumulator(x.query))

    s = scores(q, k, b, visible)
    m = stop_gradient(s.max(-1))
    e = jnp.exp(s - finite(m)[..., None])
    l = e.sum(-1)
    p = e / positive(l)[..., None]
    o = einsum("...hgqk,...hkd->...hgqd", drop(p, x.seed, rules, rows, cols), v)
    return only(l != 0, o).astype(x.query.dtype), m + jnp.log(positive(l))
