"""The gradient of tiled attention in JAX: recompute p from lse, one tile at a time.

    D_i = do_i·o_i − dlse_i,   p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − D)
    dq = scale · ds k,   dk = scale · dsᵀ q,   dbias = ds

D stands for the row sum Σ_j p_ij dp_ij, so a tile needs no other tile. FlashAttention (Dao et al. 2022),
algorithm 4; derived in notebook 10.
"""

from collections.abc import Callable
from typing import Any

from attnlab.call import Rules
from attnlab.arrays.jax import Bias, Key, Lse, Mask, Out, Query, Rows, Seed, Tile, Value, Visible
from attnlab.arrays.jax import accumulator, einsum
from attnlab.dropout.jax import drop
from attnlab.scores.jax import cut, only, scores, sees, take, visibility
from attnlab.arrays.jax_blocks import Block, at, block, in_order, schedule, write
from attnlab.softmax.jax import finite
from attnlab.tiled.pallas_gpu import gradient_on_gpu, kernel_on_gpu
from attnlab.geometry import gradient_tile_sizes

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jax.lax import dynamic_update_slice, fori_loop

Sums = tuple[Array, Array, Array, Array | None]


def flash_gradient(forward: Callable) -> Callable:
    """Decorator of the tiled core: ``backward`` takes the place of the derivative of its loops."""

    def keep(*args: Any) -> tuple[tuple[Array, Array], tuple]:
        arrays, static = jax.tree.map(lambda x: x.value, args[:6]), args[6:]
        out, lse = forward(*arrays, *static)
        bias = args[4]  # its gradient may be as large as N×M: computed only if asked for
        wanted = bias.value if bias is not None and bias.perturbed else None
        return (out, lse), (*arrays, out, lse, wanted)

    forward = kernel_on_gpu(forward)
    function = jax.custom_vjp(forward, nondiff_argnums=(6, 7, 8))
    function.defvjp(keep, gradient_on_gpu(backward), symbolic_zeros=True)
    return function


def backward(
    rules: Rules, block_q: int | None, block_k: int | None, kept: tuple, grads: tuple[Any, Any]
) -> tuple[Array, Array, Array, None, Array | None, None]:
    """For each tile of keys, all tiles of queries that see it: dk and dv stay on chip, dq is added to."""
    *arrays, wanted = kept
    query, key, value, *_ = arrays
    arrays += [jnp.zeros(g.shape, g.dtype) if isinstance(g, SymbolicZero) else g for g in grads]
    arrays = [x if x is None else in_order(x) for x in arrays]
    block_q, block_k = gradient_tile_sizes(rules.heads, block_q, block_k)
    block_q, block_k = min(block_q, rules.band.n), min(block_k, rules.band.m)
    dtype = accumulator(query)

    def key_block(c: Array, sums: Sums) -> Sums:
        (dq, dk, dv, dbias), cols = sums, block(c, block_k, rules.band.m, once=True)

        def query_block(turn: Array, sums: Sums) -> Sums:
            return tile(*arrays, rules, block(nth(turn), block_q, rules.band.n, once=True), cols, sums)

        dk_j, dv_j = (jnp.zeros((*x.shape[:-2], x.shape[-1], block_k), dtype) for x in (key, value))
        first, last, nth = schedule(rules.band, c, block_k, block_q, by_keys=True)
        dq, dk_j, dv_j, dbias = fori_loop(first, last, query_block, (dq, dk_j, dv_j, dbias))
        return dq, add(dk, dk_j.mT, cols), add(dv, dv_j.mT, cols), dbias

    dq, dk, dv = jnp.zeros(query.shape, dtype), jnp.zeros_like(key), jnp.zeros_like(value)
    dbias = None if wanted is None else jnp.zeros(wanted.shape, dtype)
    dq, dk, dv, dbias = fori_loop(0, -(-rules.band.m // block_k), key_block, (dq, dk, dv, dbias))
    return dq.astype(query.dtype), dk, dv, None, dbias if wanted is None else dbias.astype(wanted.dtype), None


def tile(
    query: Query, key: Key, value: Value, mask: Mask, bias: Bias, seed: Seed, out: Out, lse: Lse, dout: Out, dlse: Lse,
    rules: Rules, rows: Block, cols: Block, sums: Sums,
) -> Sums:
    """What one tile adds to dq, to dk and dv of its keys, and to dbias."""
    dq, dk_j, dv_j, dbias = sums
    visible = visibility(mask, bias, rules.band, rows, cols)
    q, do = rules.scale * take_rows(query, rows, visible), take_rows(dout, rows, visible)
    k, v = take(key, cols, visible), take(value, cols, visible)
    s = scores(q, k, visible, bias, rows, cols)
    p = jnp.exp(s - finite(at(lse, rows, -1))[..., None])
    dp = drop(einsum("...hgqd,...hkd->...hgqk", do, v), seed, rules, rows, cols)
    delta = (do * at(out, rows, -2)).sum(-1) - at(dlse, rows, -1)
    ds = p * (dp - delta[..., None])
    ds = ds if visible is None else jnp.where(visible, ds, 0)
    dv_j += sum_rows(do, drop(p, seed, rules, rows, cols))
    dk_j += sum_rows(q, ds)
    dq = add(dq, rules.scale * einsum("...hgqk,...hkd->...hgqd", ds, k), rows)
    return dq, dk_j, dv_j, dbias if dbias is None else add_tile(dbias, ds, rows, cols)


def sum_rows(x: Rows, weights: Tile) -> Array:
    """What each key receives from all queries that read it, xᵀ · weights: transposed, as a CPU multiplies faster so."""
    return einsum("...hdgq,...hgqk->...hdk", jnp.moveaxis(x, -1, -3), weights)


def take_rows(x: Query | Out, rows: Block, visible: Visible) -> Rows:
    """A tile of q or do in the accumulation dtype; queries that see no key of the tile become 0."""
    return only(sees(visible), at(x, rows, -2).astype(accumulator(x)))


def add(x: Array, new: Array, part: Block) -> Array:
    """x with ``new`` added to a block of its positions."""
    return write(x, at(x, part, -2) + new, part, -2)


def add_tile(dbias: Array, ds: Tile, rows: Block, cols: Block) -> Array:
    """dbias with a tile added; what bias broadcasts over is summed."""
    ds = ds.sum([axis for axis in range(ds.ndim) if dbias.shape[axis] == 1], keepdims=True)
    i, j = (part.start if size > 1 else 0 for part, size in zip((rows, cols), dbias.shape[-2:]))
    return dynamic_update_slice(dbias, cut(dbias, rows, cols) + ds, (*[0] * (ds.ndim - 2), i, j))
