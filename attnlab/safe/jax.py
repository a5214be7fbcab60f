"""Safe attention in JAX: naive attention with each row of scores shifted by its maximum."""

from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator, compiled, matmul
from attnlab.core.arrays.jax_blocks import Block
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.jax import drop
from attnlab.core.scores.jax import scores, tile, zero_unless
from attnlab.safe import safe_attention as public
from attnlab.softmax.jax import one_if_empty, zero_if_empty

import jax.numpy as jnp
from jax.lax import stop_gradient


@implements(public)
@compiled
def safe_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """After the shift every row with a visible key has l ≥ 1. The shift cancels, so it needs no gradient."""
    rows, cols = Block(0, rules.band.n), Block(0, rules.band.m)
    k, v, b, visible = tile(rules, x, rows, cols)
    q = rules.scale * x.query.astype(accumulator(x.query))

    s = scores(q, k, b, visible)  # (..., Hk, G, N, M): the matrix
    m = stop_gradient(s.max(-1))  # (2.3), one a row
    e = jnp.exp(s - zero_if_empty(m)[..., None])  # (2.7)
    l = e.sum(-1)  # (2.3)
    p = e / one_if_empty(l)[..., None]  # (2.3)
    o = matmul(drop(p, x.seed, rules, rows, cols), v)  # (..., Hk, G, N, Dv)
    return zero_unless(l != 0, o).astype(x.query.dtype), m + jnp.log(one_if_empty(l))
