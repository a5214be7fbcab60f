"""Lazy attention in JAX: one key at a time, the division at the end."""

from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator, compiled, zeros
from attnlab.core.arrays.jax_blocks import Block
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements
from attnlab.core.dropout.jax import drop
from attnlab.core.scores.jax import scores, tile, zero_unless
from attnlab.lazy import lazy_attention as public

import jax.numpy as jnp
from jax import Array
from jax.lax import fori_loop


@implements(public)
@compiled
def lazy_attention(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[Out, Lse]:
    """Overflow is not repaired, as in naive attention."""
    q, rows = x.query.astype(accumulator(x.query)), Block(0, rules.band.n)
    l, seen = jnp.zeros_like(q[..., 0]), jnp.zeros_like(q[..., 0], bool)
    o = zeros(q, x.value.shape[-1])

    def step(j: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        l, o, seen = carry
        cols = Block(j, 1)
        k, v, b, visible = tile(rules, x, rows, cols)
        e = jnp.exp(scores(q, rules.scale * k, b, visible))  # (4.1), (..., Hk, G, N, 1): one key
        l = l + e[..., 0]  # (4.2)
        o = o + drop(e, x.seed, rules, rows, cols) * v[..., None, :, :]  # (4.2), undivided
        return l, o, seen | visible.queries

    l, o, seen = fori_loop(0, rules.band.m, step, (l, o, seen))
    l = jnp.where(seen, l, 1)
    return zero_unless(seen, o / l[..., None]).astype(x.query.dtype), jnp.where(seen, jnp.log(l), -jnp.inf)
