"""Online attention in JAX: lazy attention with a running maximum."""

from attnlab.call import Rules, implements
from attnlab.online import online_attention as public
from attnlab.arrays.jax import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.jax import accumulator, compiled
from attnlab.dropout.jax import drop
from attnlab.scores.jax import only, scores, take, visibility
from attnlab.arrays.jax_blocks import Block
from attnlab.softmax.jax import Triple, finite, positive

import jax.numpy as jnp
from jax import Array
from jax.lax import fori_loop, stop_gradient


@implements(public)
@compiled
def online_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """When the maximum moves, what was summed before shrinks by e^{m − m'}."""
    dtype = accumulator(query)
    q, rows = query.astype(dtype), Block(0, rules.band.n)
    m, l = jnp.full(q.shape[:-1], -jnp.inf, dtype), jnp.zeros(q.shape[:-1], dtype)
    o = jnp.zeros((*q.shape[:-1], value.shape[-1]), dtype)

    def step(j: Array, carry: Triple) -> Triple:
        m, l, o = carry
        cols = Block(j, 1)
        visible = visibility(mask, bias, rules.band, rows, cols)
        k, v = rules.scale * take(key, cols, visible), take(value, cols, visible)
        s = scores(q, k, visible, bias, rows, cols)
        m_next = jnp.maximum(m, stop_gradient(s[..., 0]))
        shift = finite(m_next)
        alpha, p = jnp.exp(m - shift), jnp.exp(s - shift[..., None])
        l = alpha * l + p[..., 0]
        o = alpha[..., None] * o + drop(p, seed, rules, rows, cols) * v[..., None, :, :]
        return m_next, l, o

    m, l, o = fori_loop(0, rules.band.m, step, (m, l, o))
    return only(l != 0, o / positive(l)[..., None]).astype(query.dtype), m + jnp.log(positive(l))
