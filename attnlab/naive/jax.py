"""Naive attention in JAX: e^s / Σ e^s, the whole matrix at once."""

from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator, compiled, matmul
from attnlab.core.arrays.jax_blocks import Block
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.jax import drop
from attnlab.core.scores.jax import scores, tile, zero_unless
from attnlab.naive import naive_attention as public

import jax.numpy as jnp


@implements(public)
@compiled
def naive_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Overflow is not repaired: that is this rung's lesson."""
    rows, cols = Block(0, rules.band.n), Block(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.astype(accumulator(x.query))

    s = scores(q, k, b, visible)  # (1.1), (..., Hk, G, N, M): the matrix
    e = jnp.exp(s)  # (1.2)
    seen = visible.queries
    l = jnp.where(seen, e.sum(-1), 1)  # (1.2)
    p = e / l[..., None]  # (1.2)
    o = matmul(drop(p, x.seed, rules, rows, cols), v)  # (1.3), (..., Hk, G, N, Dv)
    return zero_unless(seen, o).astype(x.query.dtype), jnp.where(seen, jnp.log(l), -jnp.inf)
