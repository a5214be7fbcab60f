"""Ring and tree attention in JAX, in shard_map over an axis of a mesh.

A part is computed by the loops, on a GPU as well: cuDNN hands out no lse to merge it by. They read keys and values in
half precision, a tile at a time; the query is widened: out has its dtype, and parts are rounded once, at the end.
"""

from typing import Any

from attnlab.core.arrays.jax import Lse, Out
from attnlab.core.arrays.jax import accumulator, vary_over_same_axes
from attnlab.core.bundle import Inputs, Rules
from attnlab.ring.jax_turns import ring_turns
from attnlab.ring.schedule import Schedule
from attnlab.softmax.jax import merge, one_if_empty, zero_if_empty
from attnlab.tiled.jax import tiled_attention

import jax.numpy as jnp
from jax import Array, lax


def devices(axis_name: Any) -> int:
    """How many devices an axis of the mesh has."""
    if axis_name is None:
        raise ValueError("axis_name is None; JAX arrays need it, an axis of the mesh of jax.shard_map")
    try:
        return lax.axis_size(axis_name)
    except NameError:
        raise ValueError(f"axis_name is {axis_name!r}; call inside jax.shard_map over a mesh with that axis") from None


def refused(words: str, axis_name: Any) -> None:
    """The other devices need not be told: one program, traced once, serves all."""


def ring_attention(ring: Schedule, scale: float, x: Inputs, axis_name: Any) -> tuple[Out, Lse]:
    """(out, lse) of this device's queries, with a gradient of its own."""
    x, _ = vary_over_same_axes((x, lax.axis_index(axis_name)))
    if 0 in x.query.shape[:-1]:
        out = jnp.zeros_like(x.query, shape=(*x.query.shape[:-1], x.value.shape[-1]))
        return out, jnp.full(out.shape[:-1], -jnp.inf, accumulator(out))
    return ring_turns(ring, scale, axis_name, x.query, x.key, x.value)


def tree_attention(form: str, rules: Rules, x: Inputs, axis_name: Any) -> tuple[Out, Lse]:
    """(out, lse) of all devices' keys: what this device's give, reduced over the axis."""
    x, _ = vary_over_same_axes((x, lax.axis_index(axis_name)))
    wide = x._replace(query=x.query.astype(accumulator(x.query)))
    out, lse = tiled_attention.core(rules, (None, None), wide)
    out, lse = (doubling if form == "doubling" else one_maximum_and_sums)(out, lse, axis_name)
    return out.astype(x.query.dtype), lse


def one_maximum_and_sums(out: Out, lse: Lse, axis_name: Any) -> tuple[Out, Lse]:
    """⊕ over the devices by two all-reduces: m = max lse, then Σ e^{lse − m} and Σ e^{lse − m} out in one."""
    m = lax.pmax(lax.stop_gradient(lse), axis_name)
    weight = jnp.exp(lse - zero_if_empty(m))[..., None]
    sums = lax.psum(jnp.concatenate([weight * out, weight], -1), axis_name)
    l = one_if_empty(sums[..., -1])
    return sums[..., :-1] / l[..., None], m + jnp.log(l)


def doubling(out: Out, lse: Lse, axis_name: Any) -> tuple[Out, Lse]:
    """⊕ over the devices in log₂ P exchanges with a partner at distance 1, 2, 4, …, the lower device's part first.

    Where P is no power of two, those beyond the largest one hand theirs to a partner and get the result back.
    """
    size, index, double = lax.axis_size(axis_name), lax.axis_index(axis_name), lse.dtype == jnp.float64
    power = 2 ** (size.bit_length() - 1)
    beyond = [(rank, rank - power) for rank in range(power, size)]

    def exchange(part: tuple[Out, Lse], pairs: list[tuple[int, int]]) -> tuple[Out, Lse]:
        return tuple(lax.ppermute(x, axis_name, pairs) for x in part)

    def choose(condition: Array, a: tuple[Out, Lse], b: tuple[Out, Lse]) -> tuple[Out, Lse]:
        return tuple(jnp.where(condition, x, y) for x, y in zip(a, b))

    part, distance = (out, lse), 1
    if beyond:
        o, l = exchange(part, beyond)
        part = merge(part, (o, jnp.where(index + power < size, l, -jnp.inf)), double=double)
    while distance < power:
        theirs = exchange(part, [(rank, rank ^ distance) for rank in range(power)])
        upper = index & distance != 0
        part = merge(choose(upper, theirs, part), choose(upper, part, theirs), double=double)
        distance *= 2
    return choose(index < power, part, exchange(part, [(low, high) for high, low in beyond])) if beyond else part


def take(x: Array, index: list[int], axis: int) -> Array:
    """Rows of x along an axis, 0 where the index is −1."""
    rows = jnp.asarray([i if i >= 0 else x.shape[axis] for i in index], jnp.int32)
    return jnp.take(x, rows, axis, mode="fill", fill_value=0)


def join(parts: list[Array], axis: int) -> Array:
    """The parts, one after the other."""
    return jnp.concatenate(parts, axis)
