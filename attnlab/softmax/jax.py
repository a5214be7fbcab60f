"""Softmax, ⊕ and merge, in JAX."""

from collections.abc import Sequence
from functools import partial, reduce

from attnlab.core.arrays.jax import accumulator
from attnlab.core.shapes import Float

import jax
import jax.numpy as jnp
from jax import Array, lax

Triple = tuple[Float[Array, "*rows"], Float[Array, "*rows"], Float[Array, "*rows Dv"]]


@jax.jit
def naive_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """e^x / Σ e^x."""
    e = jnp.exp(x)
    l = e.sum(-1, keepdims=True, dtype=accumulator(x))
    empty = (x == -jnp.inf).all(-1, keepdims=True)
    return (e.astype(l.dtype) / jnp.where(empty, 1, l)).astype(x.dtype)


@jax.jit
def safe_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """e^{x − m} / Σ e^{x − m}: three passes over x."""
    m = lax.stop_gradient(x.max(-1, keepdims=True, initial=-jnp.inf))
    e = jnp.exp(x - zero_if_empty(m))
    l = e.sum(-1, keepdims=True, dtype=accumulator(x))
    return (e.astype(l.dtype) / one_if_empty(l)).astype(x.dtype)


@jax.jit
def online_softmax(x: Float[Array, "*rows n"]) -> Float[Array, "*rows n"]:
    """Two passes: one for m and l together, one to write p."""

    def step(ml: tuple[Array, Array], x_k: Array) -> tuple[tuple[Array, Array], None]:
        m, l = ml
        m_next = jnp.maximum(m, lax.stop_gradient(x_k))
        shift = zero_if_empty(m_next)
        alpha, p = (jnp.exp(y - shift).astype(l.dtype) for y in (m, x_k))
        return (m_next, alpha * l + p), None

    empty = jnp.full(x.shape[:-1], -jnp.inf, x.dtype), jnp.zeros(x.shape[:-1], accumulator(x))
    (m, l), _ = lax.scan(step, empty, jnp.moveaxis(x, -1, 0))
    e = jnp.exp(x - zero_if_empty(m)[..., None])
    return (e.astype(l.dtype) / one_if_empty(l)[..., None]).astype(x.dtype)


def combine(a: Triple, b: Triple) -> Triple:
    """The operator ⊕ on (m, l, o). The result o / l does not depend on m, so no gradient goes through it."""
    (m_a, l_a, o_a), (m_b, l_b, o_b) = a, b
    m = lax.stop_gradient(jnp.maximum(m_a, m_b))
    alpha, beta = jnp.exp(m_a - zero_if_empty(m)), jnp.exp(m_b - zero_if_empty(m))
    return m, alpha * l_a + beta * l_b, alpha[..., None] * o_a + beta[..., None] * o_b


def zero_if_empty(m: Array) -> Array:
    """The maximum to subtract: m, or 0 where nothing was seen yet, as −∞ − (−∞) is NaN."""
    return jnp.where(m == -jnp.inf, 0, m)


def one_if_empty(l: Array) -> Array:
    """The sum to divide by: l, or 1 where no weight was seen. After the shift every other l is at least 1."""
    return jnp.where(l == 0, 1, l)


@partial(jax.jit, static_argnames="double")
def merge(*parts: Sequence[Array], double: bool) -> tuple[Array, Array]:
    """See :func:`attnlab.merge`: ⊕ with m = lse and l = 1, then normalized again."""
    dtype = jnp.float64 if double else jnp.float32
    m, l, o = reduce(combine, [part(out, lse, dtype) for out, lse in parts])
    return (o / one_if_empty(l)[..., None]).astype(parts[0][0].dtype), m + jnp.log(one_if_empty(l))


def part(out: Array, lse: Array, dtype: type) -> Triple:
    """A normalized result as a triple (m, l, o) = (lse, 1, out); an empty part has o = 0."""
    out = jnp.where(lse[..., None] == -jnp.inf, 0, out).astype(dtype)
    return lse.astype(dtype), jnp.ones(lse.shape, dtype), out


@jax.jit
def unmarked(out: Array, lse: Array) -> tuple[Array, Array]:
    """A part with lse −∞ in rows without keys, where FlashAttention 2 has +∞ beside an out of 0."""
    return out, jnp.where((lse == jnp.inf) & (out == 0).all(-1), -jnp.inf, lse)
