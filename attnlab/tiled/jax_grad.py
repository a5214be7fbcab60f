"""The gradient of tiled attention in JAX: recompute p from lse, one tile at a time.

    Δ_i = do_i·o_i − dlse_i,   p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − Δ)
    dq = scale · ds k,   dk = scale · dsᵀ q,   dbias = ds

Δ stands for the row sum Σ_j p_ij dp_ij, so a tile needs no other tile. FlashAttention (Dao et al. 2022),
algorithm 4; derived in notebook 10.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from attnlab.core.arrays.jax import Bias, Key, Lse, Out, Query, Rows, Tile, Value
from attnlab.core.arrays.jax import accumulator, as_data, einsum, vary_over_same_axes, zeros
from attnlab.core.arrays.jax_blocks import (
    Block, band_at, block, put_block, take_rows, schedule, skip_hidden, squeeze_heads, take_block,
)
from attnlab.core.arrays.jax_once import no_second_derivative
from attnlab.core.bundle import Inputs, Rules, Sizes
from attnlab.core.dispatch import implements, run_gradient
from attnlab.core.dropout.jax import drop
from attnlab.core.scores.jax import over_tile, scores, shown, tile, zero_unless
from attnlab.kernels.cudnn import gradient_on_gpu, kernel_on_gpu
from attnlab.softmax.jax import zero_if_empty
from attnlab.tiled import tiled_attention_backward as public

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import min_dim
from jax.custom_derivatives import SymbolicZero
from jax.lax import dynamic_update_slice, fori_loop

Sums = tuple[Array, Array, Array, Array | None]


def flash_gradient(core: Callable) -> Callable:
    """Decorator of the tiled core: ``backward`` takes the place of the derivative of its loops."""

    def keep(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[tuple[Out, Lse], tuple]:
        arrays = jax.tree.map(lambda leaf: leaf.value, x)
        # The gradient of a bias may be as large as N×M: computed only if asked for
        wanted = arrays.bias if x.bias is not None and x.bias.perturbed else None
        out, lse = forward(rules, sizes, arrays)
        return (out, lse), (arrays, out, lse, wanted)

    forward = kernel_on_gpu(core)
    function = jax.custom_vjp(forward, nondiff_argnums=(0, 1))
    function.defvjp(keep, gradient_on_gpu(pullback), symbolic_zeros=True)
    return function


def pullback(rules: Rules, sizes: Sizes, kept: tuple, cotangents: tuple[Any, Any]) -> tuple[Inputs]:
    """The gradients in the places of the arrays that have one."""
    x, out, lse, wanted = kept
    dout, dlse = (jnp.zeros(dy.shape, dy.dtype) if isinstance(dy, SymbolicZero) else dy for dy in cotangents)
    dq, dk, dv, dbias = backward(rules, sizes, x, out, lse, dout, dlse, wanted)
    return (no_second_derivative(Inputs(dq, dk, dv, bias=dbias)),)


def backward(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse, wanted: Bias
) -> tuple[Query, Key, Value, Bias]:
    """For each tile of keys, all tiles of queries that see it: dk and dv stay on chip, dq is added to."""
    results = tuple(squeeze_heads(y, rules.heads) for y in (x.query, out, lse, dout, dlse))
    block_q, block_k = rules.gradient_tile_sizes(sizes)
    block_q, block_k = min_dim(block_q, rules.band.n), min_dim(block_k, rules.band.m)
    dtype = accumulator(x.query)

    def key_block(c: Array, sums: Sums) -> Sums:
        (dq, dk, dv, dbias), cols = sums, block(c, block_k, rules.band.m, once=True)

        def query_block(turn: Array, sums: Sums) -> Sums:
            return add_tile(rules, x, results, block(nth(turn), block_q, rules.band.n, once=True), cols, sums)

        dk_j, dv_j = (zeros(y.mT, block_k, dtype) for y in (x.key, x.value))
        found = schedule(band_at(rules.band, x.offset), c, block_k, block_q, by_keys=True)
        first, last, nth = skip_hidden(found, shown(x, cols, block_q, -2))
        dq, dk_j, dv_j, dbias = fori_loop(first, last, query_block, (dq, dk_j, dv_j, dbias))
        return dq, add(dk, dk_j.mT, cols), add(dv, dv_j.mT, cols), dbias

    dq, dk, dv = jnp.zeros_like(x.query, dtype), jnp.zeros_like(x.key), jnp.zeros_like(x.value)
    dbias = None if wanted is None else jnp.zeros_like(wanted, dtype)
    dq, dk, dv, dbias = fori_loop(0, -(-rules.band.m // block_k), key_block, (dq, dk, dv, dbias))
    return dq.astype(x.query.dtype), dk, dv, dbias if wanted is None else dbias.astype(wanted.dtype)


def add_tile(rules: Rules, x: Inputs, results: tuple[Array, ...], rows: Block, cols: Block, sums: Sums) -> Sums:
    """What one tile adds to dq, to dk and dv of its keys, and to dbias."""
    dq, dk_j, dv_j, dbias = sums
    q, out, lse, do, dlse = (take_rows(y, rules.heads, rows, axis) for y, axis in zip(results, (-2, -2, -1, -2, -1)))
    k, v, b, visible = tile(rules, x, rows, cols)
    q = zero_unless(visible.queries, rules.scale * q.astype(dq.dtype))
    do = zero_unless(visible.queries, do.astype(dq.dtype))
    s = scores(q, k, b, visible)
    p = jnp.exp(s - zero_if_empty(lse)[..., None])  # (10.1)
    dp = drop(einsum("...hgqd,...hkd->...hgqk", do, v), x.seed, rules, rows, cols)  # (10.8)
    delta = (do * out.astype(do.dtype)).sum(-1) - dlse  # (10.2)
    ds = p * (dp - delta[..., None])  # (10.3)
    ds = ds if visible.pairs is None else jnp.where(visible.pairs, ds, 0)
    dv_j += sum_rows(do, drop(p, x.seed, rules, rows, cols))  # (10.8)
    dk_j += sum_rows(q, ds)  # (10.5)
    dq = add(dq, rules.scale * einsum("...hgqk,...hkd->...hgqd", ds, k), rows)  # (10.5)
    return dq, dk_j, dv_j, dbias if dbias is None else add_to_bias(dbias, ds, rows, cols)


def sum_rows(x: Rows, weights: Tile) -> Array:
    """What each key receives from all queries that read it, xᵀ · weights: this order is faster on a CPU."""
    return einsum("...hdgq,...hgqk->...hdk", jnp.moveaxis(x, -1, -3), weights)


def add(x: Array, new: Array, part: Block) -> Array:
    """x with ``new`` added to a block of its positions."""
    return put_block(x, take_block(x, part, -2).astype(new.dtype) + new, part, -2)


def add_to_bias(dbias: Array, ds: Tile, rows: Block, cols: Block) -> Array:
    """dbias with a tile added; what bias broadcasts over is summed."""
    ds = ds.sum([axis for axis in range(ds.ndim) if dbias.shape[axis] == 1], keepdims=True)
    i, j = (part.start if size != 1 else 0 for part, size in zip((rows, cols), dbias.shape[-2:]))
    return dynamic_update_slice(dbias, over_tile(dbias, rows, cols) + ds, (*[0] * (ds.ndim - 2), i, j))


@implements(public, run_gradient)
def tiled_attention_backward(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse | None
) -> tuple[Array, ...]:
    """Run the loops of JAX's own gradient, compiled as a core is."""
    dlse = jnp.zeros_like(lse) if dlse is None else dlse
    if 0 in (*lse.shape, x.key.shape[-2]):
        grads = jax.tree.map(jnp.zeros_like, (x.query, x.key, x.value, x.bias))
    else:
        grads = compiled_gradient(rules, sizes, as_data(x), out, lse, dout, dlse)
    return tuple(grad for grad in grads if grad is not None)


@partial(jax.jit, static_argnums=(0, 1))
def compiled_gradient(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse
) -> tuple[Query, Key, Value, Bias]:
    """dq, dk, dv and, where there is a bias, dbias."""
    x, out, lse, dout, dlse = vary_over_same_axes((x, out, lse, dout, dlse))
    return backward(rules, sizes, x, out, lse, dout, dlse, x.bias)
