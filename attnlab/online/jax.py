"""Online attention in JAX: lazy attention with a running maximum."""

from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator, compiled, zeros
from attnlab.core.arrays.jax_blocks import Block
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.jax import drop
from attnlab.core.scores.jax import scores, tile, zero_unless
from attnlab.online import online_attention as public
from attnlab.softmax.jax import Triple, one_if_empty, zero_if_empty

import jax.numpy as jnp
from jax import Array
from jax.lax import fori_loop, stop_gradient


@implements(public)
@compiled
def online_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """When the maximum moves, what was summed before shrinks by e^{m − m'}."""
    q, rows = x.query.astype(accumulator(x.query)), Block(0, rules.band.n)
    m, l = jnp.full_like(q[..., 0], -jnp.inf), jnp.zeros_like(q[..., 0])
    o = zeros(q, x.value.shape[-1])

    def step(j: Array, carry: Triple) -> Triple:
        m, l, o = carry
        cols = Block(j, 1)
        k, v, b, visible = tile(rules, x, rows, cols)
        s = scores(q, rules.scale * k, b, visible)  # (..., Hk, G, N, 1): one key
        m_next = jnp.maximum(m, stop_gradient(s[..., 0]))  # (4.7)
        shift = zero_if_empty(m_next)
        alpha, p = jnp.exp(m - shift), jnp.exp(s - shift[..., None])
        l = alpha * l + p[..., 0]  # (4.8)
        o = alpha[..., None] * o + drop(p, x.seed, rules, rows, cols) * v[..., None, :, :]  # (4.9)
        return m_next, l, o

    m, l, o = fori_loop(0, rules.band.m, step, (m, l, o))
    return zero_unless(l != 0, o / one_if_empty(l)[..., None]).astype(x.query.dtype), m + jnp.log(one_if_empty(l))
