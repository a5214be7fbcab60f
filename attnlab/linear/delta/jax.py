"""The delta rule in JAX: a loop that writes in place; the gradient computes each chunk once more, from its state."""

from collections.abc import Callable

from attnlab.core.arrays.jax import Out, Values, accumulator, computed_again, einsum
from attnlab.core.arrays.jax_blocks import Block, block, put_block, take_block
from attnlab.core.shapes import Bool, Float
from attnlab.linear.delta import Rule, Tokens

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import fori_loop
from jax.lax.linalg import triangular_solve

State = Float[Array, "*batch Hk F Dv"]
Queries = Float[Array, "*batch Hk G C F"]
Keys = Float[Array, "*batch Hk C F"]
Each = Float[Array, "*batch Hk C"]
AXES = Tokens(-2, -2, -2, -1, -1, -1)


def delta_attention(rule: Rule, x: Tokens, state: State | None) -> tuple[Out, State]:
    """See :func:`attnlab.linear.delta_attention`."""
    if state is None:
        state = jnp.zeros((*x.key.shape[:-2], x.key.shape[-1], x.value.shape[-1]), accumulator(x.query))
    return _compiled(rule, x, state)


def _in_steps(rule: Rule, x: Tokens, state: State) -> tuple[Out, State]:
    """Chunk by chunk, written in place. A group of one query loses its axis: XLA copies what enters a loop with one."""
    n, shape = x.key.shape[-2], (*x.query.shape[:-1], x.value.shape[-1])
    if n == 0:
        return jnp.zeros(shape, x.query.dtype), state
    step, size = steps(rule, n)
    x = x._replace(query=x.query[..., 0, :, :]) if shape[-3] == 1 else x
    out = jnp.zeros((*x.query.shape[:-1], shape[-1]), x.query.dtype)

    def turn(b: Array, carry: tuple[Array, State]) -> tuple[Array, State]:
        (out, state), part = carry, block(b, size, n, once=True)
        kept = None if part.first is None else jnp.expand_dims(part.positions >= part.first, range(x.key.ndim - 2))
        rows, state = step(*wide(taken(x, part), kept), state, rule.erase)
        return put_block(out, rows.reshape((*out.shape[:-2], size, shape[-1])), part, -2), state

    out, state = fori_loop(0, -(-n // size), turn, (out, state))
    return out.reshape(shape), state


def _scanned(rule: Rule, x: Tokens, state: State) -> tuple[Out, State]:
    """The same by a scan over copies cut into chunks, for the gradient: what a step computed is computed again."""
    n = x.key.shape[-2]
    if n == 0:
        return _in_steps(rule, x, state)
    step, size = steps(rule, n)

    def stack(y: Array, axis: int) -> Array:
        """The tokens filled up with zeros: (chunks, …)."""
        y = jnp.moveaxis(y, axis, 0)
        y = jnp.pad(y, [(0, -n % size)] + [(0, 0)] * (y.ndim - 1)).reshape((-1, size, *y.shape[1:]))
        return jnp.moveaxis(y, 1, axis)

    def turn(state: State, part: Tokens) -> tuple[State, Array]:
        rows, state = step(*wide(part, None), state, rule.erase)
        return state, rows

    mask = jnp.ones((1,) * (x.key.ndim - 2) + (n,), bool)
    x = x._replace(mask=mask if x.mask is None else mask & x.mask)
    parts = Tokens(*(None if y is None else stack(y, axis) for y, axis in zip(x, AXES)))
    state, out = jax.lax.scan(jax.checkpoint(turn), state, parts)
    out = jnp.moveaxis(out, 0, -3)  # (..., chunks, C, Dv)
    return out.reshape((*out.shape[:-3], -1, out.shape[-1]))[..., :n, :].astype(x.query.dtype), state


_compiled = computed_again(_in_steps, _scanned)


def steps(rule: Rule, n: int) -> tuple[Callable, int]:
    """What is done with some tokens, and with how many at a time."""
    return token if rule.form == "recurrent" else chunk, min(rule.steps(n), n)


def taken(x: Tokens, part: Block) -> Tokens:
    """Some of the tokens; a mask that all share stays whole."""
    def one(y: Array | None, axis: int) -> Array | None:
        return y if y is None or (axis == -1 and y.shape[-1] == 1) else take_block(y, part, axis)

    return Tokens(*map(one, x, AXES))


def token(q: Queries, k: Keys, v: Values, b: Each, g: Each, state: State, erase: bool) -> tuple[Out, State]:
    """The definition, for one token: decay, look up what is stored under the key, write the error, read."""
    state = jnp.exp(g)[..., None] * state
    error = v - einsum("...cf,...fd->...cd", k, state) if erase else v
    state = state + einsum("...cf,...cd->...fd", k, b[..., None] * error)
    return einsum("...hgcf,...hfd->...hgcd", q, state), state


def chunk(q: Queries, k: Keys, v: Values, b: Each, g: Each, state: State, erase: bool) -> tuple[Out, State]:
    """Some tokens at once: their errors W by one triangular system, then weights within the chunk as for values W."""
    b = b[..., None]
    decay, since = weights(g), jnp.exp(g.cumsum(-1))[..., None]  # G_ij and γ_i
    w = b * (v - since * einsum("...cf,...fd->...cd", k, state)) if erase else b * v
    if erase:
        a = b * decay * einsum("...if,...jf->...ij", k, k)  # its diagonal is read as 1
        # As Wᵀ (I + A)ᵀ: the solver wants columns, and XLA would turn all values round before the loop to give it some.
        w = triangular_solve(a, w.mT, lower=True, transpose_a=True, unit_diagonal=True).mT
    scores = einsum("...hgif,...hjf->...hgij", q, k) * decay[..., None, :, :]
    out = since[..., None, :, :] * einsum("...hgcf,...hfd->...hgcd", q, state)
    out += einsum("...hgij,...hjd->...hgid", scores, w)
    return out, since[..., -1:, :] * state + einsum("...cf,...cd->...fd", decay[..., -1, :, None] * k, w)


def weights(g: Each) -> Float[Array, "*batch Hk C C"]:
    """G_ij = a_{j+1} … a_i for j ≤ i, else 0: a sum of logarithms over (j, i], see the NumPy version."""
    c = g.shape[-1]
    sums = jnp.where(jnp.tri(c, k=-1, dtype=bool), g[..., :, None], 0).cumsum(-2)
    return jnp.where(jnp.tri(c, dtype=bool), jnp.exp(sums), 0)


def wide(x: Tokens, counted: Bool[Array, "*ones C"] | None) -> tuple[Queries, Keys, Values, Each, Each]:
    """Query, key, value, beta and log decay in the accumulation dtype; nothing of what is masked or counted before."""
    dtype = accumulator(x.query)
    q, k, v = (y.astype(dtype) for y in x[:3])
    q = q if q.ndim > k.ndim else q[..., None, :, :]
    b = jnp.ones(k.shape[:-1], dtype) if x.beta is None else x.beta.astype(dtype)
    g = jnp.zeros(k.shape[:-1], dtype) if x.log_decay is None else x.log_decay.astype(dtype)
    kept = x.mask if counted is None else counted if x.mask is None else x.mask & counted
    if kept is None:
        return q, k, v, b, g
    k, v = (jnp.where(kept[..., None], y, 0) for y in (k, v))
    return q, k, v, jnp.where(kept, b, 0), jnp.where(kept, g, 0)


def positive(log_decay: Float[Array, "*batch Hk N"]) -> bool:
    """Whether a decay would grow; unknown, and so no, where it is traced."""
    return not isinstance(log_decay, jax.core.Tracer) and bool((log_decay > 0).any())
