"""Lazy attention in JAX: one key at a time, the division at the end."""

from attnlab.call import Rules, implements
from attnlab.lazy import lazy_attention as public
from attnlab.arrays.jax import Bias, Key, Lse, Mask, Out, Query, Seed, Value
from attnlab.arrays.jax import accumulator, compiled
from attnlab.dropout.jax import drop
from attnlab.scores.jax import only, scores, sees, take, visibility
from attnlab.arrays.jax_blocks import Block

import jax.numpy as jnp
from jax import Array
from jax.lax import fori_loop


@implements(public)
@compiled
def lazy_attention(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, rules: Rules
) -> tuple[Out, Lse]:
    """Overflow is not repaired, as in naive attention."""
    dtype = accumulator(query)
    q, rows = query.astype(dtype), Block(0, rules.band.n)
    l, seen = jnp.zeros(q.shape[:-1], dtype), jnp.zeros(q.shape[:-1], bool)
    o = jnp.zeros((*q.shape[:-1], value.shape[-1]), dtype)

    def step(j: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        l, o, seen = carry
        cols = Block(j, 1)
        visible = visibility(mask, bias, rules.band, rows, cols)
        k, v = rules.scale * take(key, cols, visible), take(value, cols, visible)
        e = jnp.exp(scores(q, k, visible, bias, rows, cols))
        l = l + e[..., 0]
        o = o + drop(e, seed, rules, rows, cols) * v[..., None, :, :]
        return l, o, seen | sees(visible)

    l, o, seen = fori_loop(0, rules.band.m, step, (l, o, seen))
    l = jnp.where(seen, l, 1)
    return only(seen, o / l[..., None]).astype(query.dtype), jnp.where(seen, jnp.log(l), -jnp.inf)
