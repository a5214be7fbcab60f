"""The two turns of ring attention in JAX: forward, and the gradient that takes the place of autodiff's.

All devices run one program, so which of them it is on is data: what its queries see of a block is looked up in a table,
and blocks travel at every step. Each turn is a loop: unrolled, XLA would merge the permutes of the gradient with those
of the forward and keep every block, as plain autodiff of the loop does.
"""

from functools import partial
from typing import Any

from attnlab.core.arrays.jax import Array, Key, Lse, Out, Query, Value
from attnlab.core.arrays.jax import accumulator
from attnlab.core.arrays.jax_blocks import Block, put_block, take_block
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import TRACED, Band
from attnlab.ring.schedule import Schedule, band
from attnlab.softmax.jax import merge
from attnlab.tiled.jax import tiled_attention
from attnlab.tiled.jax_grad import add, backward

import jax
import jax.numpy as jnp
from jax import lax
from jax.lax import fori_loop

AUTO = (None, None)  # block sizes
Blocks = tuple[Array, Array]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def ring_turns(ring: Schedule, scale: float, axis: Any, query: Query, key: Key, value: Value) -> tuple[Out, Lse]:
    """(out, lse) of this device's shards: what its queries see of every block is merged, in the accumulation dtype."""
    q, steps = tokens(ring, lax.axis_index(axis), query).astype(accumulator(query)), ring.devices - 1
    results = jnp.zeros_like(q, shape=(*q.shape[:-1], value.shape[-1])), jnp.full_like(q[..., 0], -jnp.inf)

    def merge_all(step: Array | int, results: tuple[Out, Lse], block: Blocks) -> tuple[Out, Lse]:
        def merge_part(i: Array, results: tuple[Out, Lse]) -> tuple[Out, Lse]:
            (out, lse), (rows, _) = results, place(ring, i)
            rules, x = part_of_step(ring, scale, axis, step, i, (q, *block))
            part = tiled_attention.core(rules, AUTO, x)
            o, l = merge((take_block(out, rows, -2), take_block(lse, rows, -1)), part, double=q.dtype == jnp.float64)
            return put_block(out, o, rows, -2), put_block(lse, l, rows, -1)

        return fori_loop(0, len(ring.runs(0)) ** 2, merge_part, results)

    def step(t: Array, carry: tuple) -> tuple:
        results, block = carry
        return merge_all(t, results, block), pass_on(axis, block)

    results, block = fori_loop(0, steps, step, (results, (key, value)))
    out, lse = merge_all(steps, results, block)
    index = lax.axis_index(axis)
    return tokens(ring, index, out).astype(query.dtype), tokens(ring, index, lse[..., None], -jnp.inf)[..., 0]


def keep(ring: Schedule, scale: float, axis: Any, *shards: Array) -> tuple[tuple[Out, Lse], tuple]:
    """The results, and what the gradient needs."""
    results = ring_turns(ring, scale, axis, *shards)
    return results, (*shards, *results)


def second_turn(ring: Schedule, scale: float, axis: Any, kept: tuple, cotangents: tuple[Out, Lse]) -> tuple:
    """dq, dk and dv of this device's shards; dk and dv travel with their block, and once more to be home."""
    (query, key, value, out, lse), (dout, dlse) = kept, cotangents
    index, dtype, steps = lax.axis_index(axis), lse.dtype, ring.devices - 1
    q, dout, dlse = (tokens(ring, index, x) for x in (query, dout, dlse[..., None]))
    q, results = q.astype(dtype), (out, lse, dout, dlse[..., 0])

    def add_all(step: Array | int, sums: tuple, block: Blocks) -> tuple:
        wide = q, *(x.astype(dtype) for x in block)

        def add_part(i: Array, sums: tuple) -> tuple:
            (rows, cols), (rules, x) = place(ring, i), part_of_step(ring, scale, axis, step, i, wide)
            *grads, _ = backward(rules, AUTO, x, *(take_block(y, rows, -2 + (y.ndim < q.ndim)) for y in results), None)
            return tuple(add(total, grad, part) for total, grad, part in zip(sums, grads, (rows, cols, cols)))

        return fori_loop(0, len(ring.runs(0)) ** 2, add_part, sums)

    def step(t: Array, carry: tuple) -> tuple:
        sums, block = carry
        dq, *travelers = add_all(t, sums, block)
        return (dq, *pass_on(axis, travelers)), pass_on(axis, block)

    sums = tuple(jnp.zeros_like(x, dtype) for x in (q, key, value))
    sums, block = fori_loop(0, steps, step, (sums, (key, value)))
    dq, *travelers = add_all(steps, sums, block)
    dk, dv = pass_on(axis, travelers) if steps else travelers
    return dq.astype(query.dtype), dk.astype(key.dtype), dv.astype(value.dtype)


ring_turns.defvjp(keep, second_turn)


def pass_on(axis: Any, arrays: Any) -> Any:
    """Send every device's arrays on to the next one."""
    size = lax.axis_size(axis)
    return tuple(lax.ppermute(x, axis, [(rank, (rank + 1) % size) for rank in range(size)]) for x in arrays)


def place(ring: Schedule, i: Array) -> tuple[Block, Block]:
    """The slots of the i-th pair of a run of queries and a run of keys."""
    runs = len(ring.runs(0))
    size = ring.size // runs
    return Block(i // runs * size, size), Block(i % runs * size, size)


def part_of_step(
    ring: Schedule, scale: float, axis: Any, step: Array | int, i: Array, arrays: tuple
) -> tuple[Rules, Inputs]:
    """The rules of the i-th part of a step, and its queries, keys and values."""
    index = lax.axis_index(axis)
    holder, (rows, cols) = (index - step) % ring.devices, place(ring, i)
    x = Inputs(*(take_block(y, part, -2) for y, part in zip(arrays, (rows, cols, cols))))
    if (shown := filled_slots(ring, holder)) is not None:
        x = x._replace(mask=take_block(shown, cols, 0).reshape((1,) * (x.query.ndim - 1) + (-1,)))
    seen = Band(rows.size, cols.size)
    if (ring.left, ring.right) != (None, None):
        x, seen = x._replace(offset=diagonals(ring)[index, holder, i]), Band(rows.size, cols.size, 0, 0, TRACED)
    return Rules(scale, seen, x.query.shape[:-2]), x


def diagonals(ring: Schedule) -> Array:
    """Between which diagonals a device's i-th part of a holder's block is visible: (devices, devices, parts, 2)."""
    ranks, size = range(ring.devices), ring.size
    pairs = [
        [[band(a, b, ring.left, ring.right) for a in ring.runs(rank) for b in ring.runs(holder)] for holder in ranks]
        for rank in ranks
    ]

    def ends(seen: Band | None) -> tuple[int, int]:
        if seen is None:
            return size, -size
        return -size if seen.low is None else seen.low, size if seen.high is None else seen.high

    return jnp.asarray([[[ends(seen) for seen in parts] for parts in row] for row in pairs], jnp.int32)


def filled_slots(ring: Schedule, rank: Array) -> Array | None:
    """Which slots of a device hold tokens, None if all of all devices do."""
    counts = [[run.count for run in ring.runs(device)] for device in range(ring.devices)]
    if sum(map(sum, counts)) == ring.devices * ring.size:
        return None
    size = ring.size // len(counts[0])
    slots = jnp.arange(ring.size)
    return slots % size < jnp.asarray(counts, jnp.int32)[rank][slots // size]


def tokens(ring: Schedule, rank: Array, x: Array, padding: float = 0.0) -> Array:
    """x (..., C, D) with its padding replaced: it may hold NaN."""
    shown = filled_slots(ring, rank)
    return x if shown is None else jnp.where(shown[:, None], x, padding)
