"""The gradient of the Pallas kernel: the equations of ``attnlab.tiled.jax_grad`` in two kernels.

    Δ_i = do_i·o_i − dlse_i,   p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − Δ)
    dq = scale · ds k,   dk = scale · dsᵀ q

dq sums over keys; dk and dv sum over queries. Programs that run at once add to one array in no fixed order, so each
sum gets a kernel in which a single program makes it: p and ds are computed twice, nothing passes between programs,
and the same call gives the same bits every time. Derived in notebooks 10 and 12.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from attnlab.call import Inputs, Rules, Sizes
from attnlab.arrays.jax import Key, Lse, Mask, Offset, Out, Query, Seed, Value
from attnlab.arrays.jax_blocks import Block
from attnlab.softmax.jax import zero_if_empty
from attnlab.kernels.pallas.gpu import kernel_gradient
from attnlab.kernels.sizes import tile_sizes
from attnlab.kernels.pallas.tile import (
    Ref, Tile, Visible, band_of, block_b, dot, drop, kept, launch, load, load_rows, schedule, scores, seen, store,
    visibility, whole, with_mask, with_number, with_table,
)  # fmt: skip

import jax
import jax.numpy as jnp
from jax import Array, ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.lax import fori_loop, platform_dependent


def custom_gradient(core: Callable) -> Callable:
    """Decorator of the kernel's core: the kernels below stand for its derivative."""

    def keep(rules: Rules, sizes: Sizes, x: Inputs) -> tuple[tuple[Out, Lse], tuple]:
        out, lse = function(rules, sizes, x)  # which, differentiated once more, comes here again
        return (out, lse), (x, out, lse)

    def pull(rules: Rules, sizes: Sizes, kept: tuple, grads: tuple[Out, Lse]) -> tuple[Inputs]:
        native = functools.partial(kernel_gradient, rules, sizes)
        return platform_dependent(kept, grads, cuda=native, default=functools.partial(native, interpret=True))

    function = jax.custom_vjp(core, nondiff_argnums=(0, 1))
    function.defvjp(keep, pull)
    return function


def once(gradient: Callable) -> Callable:
    """Decorator of the gradient: it has none of its own, and JAX would say so less clearly."""

    def refuse(*args: Any) -> None:
        raise NotImplementedError("the kernel is not twice differentiable; use safe_attention")

    function = jax.custom_vjp(gradient, nondiff_argnums=(10, 11, 12))
    function.defvjp(lambda *args: (gradient(*args), None), refuse)
    return function


@once
def backward(
    query: Query, key: Key, value: Value, mask: Mask, seed: Seed, offset: Offset,
    out: Out, lse: Lse, dout: Out, dlse: Lse, rules: Rules, sizes: Sizes, interpret: bool = False,
) -> tuple[Query, Key, Value]:
    """dq from a grid of programs by queries, dk and dv from another by keys."""
    block_q, block_k = tile_sizes(query, value, mask, rules, sizes, (64, 64))  # p, dp and ds are alive at once
    delta = (dout.astype(jnp.float32) * out.astype(jnp.float32)).sum(-1) - dlse
    arrays = query, key, value, dout, lse, delta, mask, seed, offset
    dq = by_queries(*arrays, rules, block_q, block_k, interpret)
    dk, dv = by_keys(*arrays, rules, block_q, block_k, interpret)
    return dq, dk, dv


def by_queries(
    query: Query, key: Key, value: Value, dout: Out, lse: Lse, delta: Lse, mask: Mask, seed: Seed, offset: Offset,
    rules: Rules, block_q: int, block_k: int, interpret: bool,
) -> Query:
    """dq: program (b, h) gets the b-th block of queries of head h, and all keys and values that the head reads."""
    (*heads, n, d), (m, dv), group = query.shape, value.shape[-2:], query.shape[-3]
    [dq] = launch(
        functools.partial(query_kernel, rules=rules, d=d, d_v=dv, block_k=block_k),
        (pl.cdiv(n, block_q), math.prod(heads)),
        inputs=[
            (query.reshape(-1, n, d), block_b(block_q, d)),
            (key.reshape(-1, m, d), whole((m,), d, group=group)),
            (value.reshape(-1, m, dv), whole((m,), dv, group=group)),
            (dout.reshape(-1, n, dv), block_b(block_q, dv)),
            (lse.reshape(-1, n), block_b(block_q)),
            (delta.reshape(-1, n), block_b(block_q)),
            with_mask(mask, heads),
            with_number(seed),
            with_number(offset),
            with_table(rules.band, block_q, block_k),
        ],
        outputs=[(ShapeDtypeStruct((math.prod(heads), n, d), query.dtype), block_b(block_q, d))],
        interpret=interpret,
    )
    return dq.reshape(query.shape)


def by_keys(
    query: Query, key: Key, value: Value, dout: Out, lse: Lse, delta: Lse, mask: Mask, seed: Seed, offset: Offset,
    rules: Rules, block_q: int, block_k: int, interpret: bool,
) -> tuple[Key, Value]:
    """dk and dv: program (b, h) gets the b-th block of keys of key head h and all queries of the heads that read it."""
    (*heads, group, n, d), (m, dv) = query.shape, value.shape[-2:]
    dk, dv = launch(
        functools.partial(key_kernel, rules=rules, d=d, d_v=dv, block_q=block_q),
        (pl.cdiv(m, block_k), math.prod(heads)),
        inputs=[
            (query.reshape(-1, group, n, d), whole((group, n), d)),
            (key.reshape(-1, m, d), block_b(block_k, d)),
            (value.reshape(-1, m, dv), block_b(block_k, dv)),
            (dout.reshape(-1, group, n, dv), whole((group, n), dv)),
            (lse.reshape(-1, group, n), whole((group, n))),
            (delta.reshape(-1, group, n), whole((group, n))),
            with_mask(mask, heads),
            with_number(seed),
            with_number(offset),
            with_table(rules.band, block_k, block_q, by_keys=True),
        ],
        outputs=[
            (ShapeDtypeStruct((math.prod(heads), m, d), key.dtype), block_b(block_k, d)),
            (ShapeDtypeStruct((math.prod(heads), m, dv), value.dtype), block_b(block_k, dv)),
        ],
        interpret=interpret,
    )
    return dk.reshape(key.shape), dv.reshape(value.shape)


def query_kernel(
    q_ref: Ref, k_ref: Ref, v_ref: Ref, do_ref: Ref, lse_ref: Ref, delta_ref: Ref, mask_ref: Ref, seed_ref: Ref,
    offset_ref: Ref, table_ref: Ref, dq_ref: Ref, *, rules: Rules, d: int, d_v: int, block_k: int,
) -> None:
    """The forward kernel's loop over keys once more; dq stays on chip and is written once."""
    b, h, band = pl.program_id(0), pl.program_id(1), band_of(rules, offset_ref)
    block_q, width = dq_ref.shape
    rows = Block(b * block_q, block_q)
    inside = rows.positions < rules.band.n
    q, do = load(q_ref, d, inside), load(do_ref, d_v, inside)
    lse, delta = load_rows(lse_ref, rows, rules.band.n), load_rows(delta_ref, rows, rules.band.n)

    def key_block(turn: Array, dq: Array) -> Array:
        cols = Block(nth(turn) * block_k, block_k)
        visible = visibility(mask_ref, band, rows, cols)
        k = load(k_ref.at[pl.ds(cols.start, block_k)], d, seen(visible, 0))
        v = load(v_ref.at[pl.ds(cols.start, block_k)], d_v, seen(visible, 0))
        keep = kept(seed_ref, h, rules.dropout, rows, cols)
        _, ds = tile(q, k, v, do, lse, delta, visible, keep, rules)
        return dq + dot("qk,kd->qd", ds.astype(k.dtype), k)

    first, last, nth = schedule(band, table_ref, b, block_q, block_k)
    dq = fori_loop(first, last, key_block, jnp.zeros((block_q, width), jnp.float32))
    store(dq_ref, d, rules.scale * dq, inside)


def key_kernel(
    q_ref: Ref, k_ref: Ref, v_ref: Ref, do_ref: Ref, lse_ref: Ref, delta_ref: Ref, mask_ref: Ref, seed_ref: Ref,
    offset_ref: Ref, table_ref: Ref, dk_ref: Ref, dv_ref: Ref, *, rules: Rules, d: int, d_v: int, block_q: int,
) -> None:
    """For each head of the group, the tiles of queries that see the keys; dk and dv stay on chip, written once."""
    b, h, group, band = pl.program_id(0), pl.program_id(1), q_ref.shape[0], band_of(rules, offset_ref)
    block_k = dk_ref.shape[0]
    cols = Block(b * block_k, block_k)
    inside = cols.positions < rules.band.m
    k, v = load(k_ref, d, inside), load(v_ref, d_v, inside)

    def query_block(turn: Array, sums: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
        (dk, dv), rows = sums, Block(nth(turn) * block_q, block_q)
        part = g, pl.ds(rows.start, block_q)
        visible = visibility(mask_ref, band, rows, cols, head=(g,))
        q, do = load(q_ref.at[part], d, seen(visible, 1)), load(do_ref.at[part], d_v, seen(visible, 1))
        lse, delta = (load_rows(x.at[part], rows, rules.band.n) for x in (lse_ref, delta_ref))
        keep = kept(seed_ref, h * group + g, rules.dropout, rows, cols)
        p, ds = tile(q, k, v, do, lse, delta, visible, keep, rules)
        dv += dot("qk,qd->kd", p.astype(do.dtype), do)
        return dk + dot("qk,qd->kd", ds.astype(q.dtype), q), dv

    first, last, nth = schedule(band, table_ref, b, block_k, block_q, by_keys=True)
    zeros = jnp.zeros(dk_ref.shape, jnp.float32), jnp.zeros(dv_ref.shape, jnp.float32)

    def head(g: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        return fori_loop(first, last, functools.partial(query_block, g=g), sums)

    dk, dv = fori_loop(0, group, head, zeros)
    store(dk_ref, d, rules.scale * dk, inside)
    store(dv_ref, d_v, dv, inside)


def tile(
    q: Array, k: Array, v: Array, do: Array, lse: Array, delta: Array, visible: Visible, keep: Visible, rules: Rules
) -> tuple[Tile, Tile]:
    """p after dropout, for dv; ds, for dq and dk."""
    s = scores(q, k, visible, rules.scale)
    p = jnp.exp(s - zero_if_empty(lse)[:, None])
    dp = drop(dot("qd,kd->qk", do, v), keep, rules.dropout)
    ds = p * (dp - delta[:, None])
    return drop(p, keep, rules.dropout), ds if visible is None else jnp.where(visible, ds, 0)
