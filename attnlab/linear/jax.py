"""Linear attention in JAX: loops that write in place; the gradient computes each chunk once more, from its state."""

import functools
import math
from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.jax import Key, Keys, Out, Query, Rows, Values, accumulator, computed_again, einsum
from attnlab.core.arrays.jax_blocks import Block, block, put_block, take_block
from attnlab.core.shapes import Bool, Float
from attnlab.linear import Hedgehog, LinearInputs, LinearOptions, spans

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import min_dim
from jax.lax import fori_loop

State = tuple[Float[Array, "*batch Hk F Dv"], Float[Array, "*batch Hk F"]]
Sums = tuple[Float[Array, "*batch Hk G R Dv"], Float[Array, "*batch Hk G R"]]
QueryFeatures = Float[Array, "*batch Hk G R F"]
KeyFeatures = Float[Array, "*batch Hk C F"]
KeyMask = Bool[Array, "..."] | None


def linear_attention(options: LinearOptions, x: LinearInputs) -> tuple[Out, State]:
    """See :func:`attnlab.linear.linear_attention`. What a function of features closes over becomes an input."""
    if isinstance(options.features, tuple):
        tiles = (y[..., :1, :].astype(accumulator(y)) for y in (x.query, x.key))
        maps, learned = zip(*(jax.closure_convert(phi, tile) for phi, tile in zip(options.features, tiles)))
        if any(learned):
            options, x = options._replace(features=maps), x._replace(hedgehog=learned)
    return (_quadratic if options.form == "quadratic" else _compiled)(options, x)


@functools.partial(jax.jit, static_argnums=0)
def _quadratic(options: LinearOptions, x: LinearInputs) -> tuple[Out, State]:
    """All weights at once, N × M of them."""
    q, (k, v) = queries(options, x.hedgehog, x.query), keys(options, x.hedgehog, x.key, x.value, x.mask)
    sums, state = chunk(q, k, v, start(options, x), options.causal)
    return divide(*sums).astype(x.query.dtype), state


def _in_steps(options: LinearOptions, x: LinearInputs) -> tuple[Out, State]:
    """The recurrent and the chunked form, written in place. XLA copies what enters a loop with a new axis of size 1,
    so a group of one query gets its axis when it is read."""
    shape, alike = (*x.query.shape[:-1], x.value.shape[-1]), x.query.shape[-3] == 1
    whole = x.query[..., 0, :, :] if alike else x.query
    step, size = steps(options)
    ahead, alone, aligned = spans(options, x.query.shape[-2], x.key.shape[-2])

    def tokens(cols: Block) -> tuple[KeyFeatures, Values]:
        kept = None if cols.first is None else jnp.expand_dims(cols.positions >= cols.first, range(x.key.ndim - 2))
        if x.mask is not None:
            mask = take_block(x.mask, cols, -1) if x.mask.shape[-1] != 1 else x.mask
            kept = mask if kept is None else mask & kept
        return keys(options, x.hedgehog, take_block(x.key, cols, -2), take_block(x.value, cols, -2), kept)

    def seen(rows: Block) -> QueryFeatures:
        q = take_block(whole, rows, -2)
        return queries(options, x.hedgehog, q[..., None, :, :] if alike else q)

    def put(out: Array, sums: Sums, rows: Block) -> Array:
        found = divide(*sums)
        return put_block(out, found[..., 0, :, :] if alike else found, rows, -2)

    def absorb_block(b: Array, state: State) -> State:
        return absorb(state, *tokens(block(b, min_dim(size, ahead), ahead, once=True)))

    def read_block(b: Array, out: Array) -> Array:
        rows = block(b, min_dim(size, alone), alone, once=True)
        return put(out, read(seen(rows), state), rows)

    def both(b: Array, carry: tuple[Array, State]) -> tuple[Array, State]:
        (out, state), part = carry, block(b, min_dim(size, aligned), aligned, once=True)
        rows, cols = moved(part, alone), moved(part, ahead)
        sums, state = step(seen(rows), *tokens(cols), state)
        return put(out, sums, rows), state

    out = jnp.zeros((*whole.shape[:-1], shape[-1]), x.query.dtype)
    state = start(options, x)
    state = fori_loop(0, -(-ahead // size), absorb_block, state) if ahead else state
    out = fori_loop(0, -(-alone // size), read_block, out) if alone else out
    out, state = fori_loop(0, -(-aligned // size), both, (out, state)) if aligned else (out, state)
    return out.reshape(shape), state


def _scanned(options: LinearOptions, x: LinearInputs) -> tuple[Out, State]:
    """The same by scans over copies cut into chunks, for the gradient: what a step computed is computed again."""
    step, size = steps(options)
    ahead, alone, aligned = spans(options, x.query.shape[-2], x.key.shape[-2])
    mask = jnp.ones((1,) * (x.key.ndim - 2) + (x.key.shape[-2],), bool)
    mask = mask if x.mask is None else mask & x.mask

    def stack(y: Array, axis: int, first: int, count: int) -> Array:
        """The tokens from ``first`` on, filled up with zeros: (chunks, …)."""
        y = jnp.moveaxis(jax.lax.slice_in_dim(y, first, first + count, axis=axis % y.ndim), axis, 0)
        chunks = -(-count // size)
        y = jnp.pad(y, [(0, chunks * size - count)] + [(0, 0)] * (y.ndim - 1)).reshape((chunks, size, *y.shape[1:]))
        return jnp.moveaxis(y, 1, axis)

    def tokens(first: int, count: int) -> tuple[Array, Array, Array]:
        return stack(x.key, -2, first, count), stack(x.value, -2, first, count), stack(mask, -1, first, count)

    def absorb_block(state: State, part: tuple) -> tuple[State, None]:
        return absorb(state, *keys(options, x.hedgehog, *part)), None

    def read_block(state: State, q: Rows) -> tuple[State, Array]:
        return state, divide(*read(queries(options, x.hedgehog, q), state))

    def both(state: State, part: tuple) -> tuple[State, Array]:
        q, *part = part
        sums, state = step(queries(options, x.hedgehog, q), *keys(options, x.hedgehog, *part), state)
        return state, divide(*sums)

    walks = [
        (absorb_block, ahead, tokens(0, ahead)),
        (read_block, alone, stack(x.query, -2, 0, alone)),
        (both, aligned, (stack(x.query, -2, alone, aligned), *tokens(ahead, aligned))),
    ]
    state, outs = start(options, x), []
    for turn, count, parts in walks:  # a scan over no chunks gives what it was given
        state, found = jax.lax.scan(jax.checkpoint(turn), state, parts)
        if found is not None:
            found = jnp.moveaxis(found, 0, -3)  # (..., chunks, C, Dv)
            outs.append(found.reshape((*found.shape[:-3], -1, found.shape[-1]))[..., :count, :])
    return jnp.concatenate(outs, -2).astype(x.query.dtype), state


_compiled = computed_again(_in_steps, _scanned)


def steps(options: LinearOptions) -> tuple[Callable, int]:
    """What is done with some tokens, and with how many at a time."""
    return (token, 1) if options.form == "recurrent" else (chunk, options.chunk)


def moved(part: Block, by: int) -> Block:
    """A block further on in a longer axis."""
    return Block(part.start + by, part.size, part.first if part.first is None else part.first + by)


def start(options: LinearOptions, x: LinearInputs) -> State:
    """The state that came in, or that of no keys."""
    none = x.key[..., :0, :], x.value[..., :0, :], None
    return sum_keys(*keys(options, x.hedgehog, *none)) if x.state is None else x.state


def token(q: QueryFeatures, k: KeyFeatures, v: Values, state: State) -> tuple[Sums, State]:
    """The recurrent form, a token at a time: the key joins the state, then the query reads it."""
    state = absorb(state, k, v)
    return read(q, state), state


def chunk(q: QueryFeatures, k: KeyFeatures, v: Values, state: State, causal: bool = True) -> tuple[Sums, State]:
    """The chunked form: weights within the chunk, where j ≤ i if causal, and the state for all that came before it."""
    a = einsum("...hgqf,...hkf->...hgqk", q, k)  # (..., Hk, G, C, C)
    a = jnp.tril(a, a.shape[-1] - a.shape[-2]) if causal else a
    numerator, denominator = read(q, state)
    return (numerator + einsum("...hgqk,...hkd->...hgqd", a, v), denominator + a.sum(-1)), absorb(state, k, v)


def read(q: QueryFeatures, state: State) -> Sums:
    """What queries see of a state: φ(q) U and φ(q)·Z."""
    u, z = state
    return einsum("...hgqf,...hfd->...hgqd", q, u), einsum("...hgqf,...hf->...hgq", q, z)


def absorb(state: State, k: KeyFeatures, v: Values) -> State:
    """The state with more keys: a sum, so any order and grouping will do."""
    (u, z), (more_u, more_z) = state, sum_keys(k, v)
    return u + more_u, z + more_z


def sum_keys(k: KeyFeatures, v: Values) -> State:
    """The state of some keys, U = Σ φ(k) vᵀ and Z = Σ φ(k)."""
    return einsum("...kf,...kd->...fd", k, v), k.sum(-2)


def divide(numerator: Float[Array, "*rows Dv"], denominator: Float[Array, "*rows"]) -> Float[Array, "*rows Dv"]:
    """The mean of the values by their weights; 0, and no gradient, where the weights sum to 0."""
    empty = denominator == 0
    return jnp.where(empty[..., None], 0, numerator / jnp.where(empty, 1, denominator)[..., None])


def queries(options: LinearOptions, hedgehog: Any, q: Rows) -> QueryFeatures:
    """φ(q) of some queries, in the accumulation dtype."""
    return maps(options, hedgehog)[0](options.scale * q.astype(accumulator(q)))


def keys(options: LinearOptions, hedgehog: Any, k: Keys, v: Values, kept: KeyMask) -> tuple[KeyFeatures, Values]:
    """φ(k) and v of some keys; of keys that the mask leaves out, which may hold NaN, both are 0."""
    k, v = k.astype(accumulator(k)), v.astype(accumulator(v))
    phi = maps(options, hedgehog)[1]
    if kept is None:
        return phi(k), v
    kept = kept[..., None]
    return jnp.where(kept, phi(jnp.where(kept, k, 0)), 0), jnp.where(kept, v, 0)


def maps(options: LinearOptions, hedgehog: Any) -> tuple[Callable, Callable]:
    """φ for queries and φ for keys; ``hedgehog``: its weights, or what two functions close over."""
    if options.features == "hedgehog":
        return tuple(lambda x, w=w: both_signs(jnp.matmul(x, w.astype(x.dtype), precision="highest")) for w in hedgehog)
    if isinstance(options.features, str):
        return (FEATURES[options.features],) * 2
    return options.features if hedgehog is None else tuple(
        lambda x, phi=phi, c=c: phi(x, *c) for phi, c in zip(options.features, hedgehog)
    )


def elu(x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
    """elu(x) + 1: x + 1 above 0, e^x below."""
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.where(x > 0, 0, x)))  # elu(x) + 1 cancels where e^x is small


def taylor(x: Float[Array, "*rows D"]) -> Float[Array, "*rows F"]:
    """1, x and the products x_i x_j for i ≤ j, the squares divided by √2: φ(q)·φ(k) = 1 + q·k + (q·k)² / 2."""
    i, j = jnp.triu_indices(x.shape[-1])
    factor = jnp.where(i == j, math.sqrt(0.5), 1).astype(x.dtype).reshape((*[1] * (x.ndim - 1), -1))
    return jnp.concatenate([jnp.ones_like(x[..., :1]), x, factor * x[..., i] * x[..., j]], -1)


def both_signs(y: Float[Array, "*rows f"]) -> Float[Array, "*rows F"]:
    """e^y and e^{−y}."""
    return jnp.concatenate([jnp.exp(y), jnp.exp(-y)], -1)


FEATURES = {"elu": elu, "relu": jax.nn.relu, "taylor": taylor, "exp": jnp.exp}


def hedgehog_loss(query: Query, key: Key, hedgehog: Hedgehog, causal: bool) -> Array:
    """See :func:`attnlab.linear.hedgehog_loss`."""
    (n, d), m = query.shape[-2:], key.shape[-2]
    q, k = query.astype(accumulator(query)), key.astype(accumulator(key))
    first = max(n - m, 0) if causal and m else n * (m == 0)  # queries before it see no key
    visible, q = jnp.tri(n, m, m - n if causal else m, dtype=bool)[first:], q[..., first:, :]
    s = jnp.where(visible, einsum("...hgqd,...hkd->...hgqk", q, k) / math.sqrt(d), -jnp.inf)
    phi_q, phi_k = maps(LinearOptions("quadratic", causal, 1.0, 1, "hedgehog"), hedgehog)
    a = jnp.where(visible, einsum("...hgqf,...hkf->...hgqk", phi_q(q), phi_k(k)), 0)
    log_a = jnp.log(jnp.where(visible, a, 1)) - jnp.log(a.sum(-1, keepdims=True))
    return -(jax.nn.softmax(s) * log_a).sum(-1).mean()
