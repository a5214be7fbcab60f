"""The gradient of tiled attention in NumPy: recompute p from lse, one tile at a time.

    Δ_i = do_i·o_i − dlse_i,   p = e^{s − lse},   dv = pᵀ do,   dp = do vᵀ,   ds = p ∘ (dp − Δ)
    dq = scale · ds k,   dk = scale · dsᵀ q

Δ stands for the row sum Σ_j p_ij dp_ij, so a tile needs no other tile. Derived in notebook 10.
"""

import numpy as np
from numpy import ndarray as Array

from attnlab.arguments import check_float, check_kind
from attnlab.call import Inputs, Rules, Sizes, prepare
from attnlab.signature import Segments, Window
from attnlab.arrays.numpy import Key, Keys, Lse, Out, Query, Rows, Tile, Value
from attnlab.arrays.numpy import accumulator, matmul, quiet
from attnlab.dropout.numpy import drop
from attnlab.scores.numpy import hidden, look, only, read, scores, sees
from attnlab.softmax.numpy import zero_if_empty
from attnlab.geometry import blocks, gradient_tile_sizes


def tiled_attention_backward(
    query: Array, key: Array, value: Array, out: Array, lse: Array, dout: Array, *, dlse: Array | None = None,
    causal: bool = False, window: Window = None, offset: int | None = None, mask: Array | None = None,
    bias: Array | None = None, segments: Segments = None, scale: float | None = None, dropout: float = 0.0,
    seed: int | None = None,
    block_q: int | None = None, block_k: int | None = None, block_mask: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Gradients (dq, dk, dv) of :func:`tiled_attention`, from its result and the gradient of its result.

    ``out`` (..., Hq, N, Dv) and ``lse`` (..., Hq, N) are what the forward call returned, ``dout`` and
    ``dlse`` the gradients of a loss by them (``dlse`` None: the loss does not use lse). The options are
    those of the forward call. Returns arrays of the shapes and dtypes of query, key and value.
    Source: FlashAttention (Dao et al. 2022), algorithm 4. Extra memory: two numbers a query and a few
    tiles; in half precision also dq in float32. Raises as :func:`tiled_attention`.
    """
    rules, sizes, x = prepare(
        "numpy", query, key, value, causal=causal, window=window, offset=offset, mask=mask, bias=bias,
        segments=segments, scale=scale, dropout=dropout, seed=seed, block_q=block_q, block_k=block_k,
        block_mask=block_mask,
    )  # fmt: skip
    shapes = {"out": (*query.shape[:-1], value.shape[-1]), "lse": query.shape[:-1]}
    shapes |= {"dout": shapes["out"], "dlse": shapes["lse"]}
    dlse = np.broadcast_to(lse.dtype.type(0), shapes["dlse"]) if dlse is None else dlse
    for name, given in {"out": out, "lse": lse, "dout": dout, "dlse": dlse}.items():
        check_kind(name, given, "numpy")
        check_float(name, given)
        if given.shape != shapes[name]:
            raise ValueError(f"{name} has shape {given.shape}; with this query and value it must be {shapes[name]}")
    rows, dv = x.query.shape[:-1], (value.shape[-1],)
    out, dout, lse, dlse = out.reshape(rows + dv), dout.reshape(rows + dv), lse.reshape(rows), dlse.reshape(rows)
    dq, dk, dv = backward(rules, sizes, x, out, lse, dout, dlse)
    return dq.reshape(query.shape), dk.reshape(key.shape), dv.reshape(value.shape)


@quiet
def backward(
    rules: Rules, sizes: Sizes, x: Inputs, out: Out, lse: Lse, dout: Out, dlse: Lse
) -> tuple[Query, Key, Value]:
    """For each tile of keys, all tiles of queries that see it: dk and dv stay on chip, dq is added to."""
    block_q, block_k = gradient_tile_sizes(rules.heads, *sizes, packed=x.query_segments is not None)
    dtype = accumulator(x.query)
    dq, dk, dv = np.zeros(x.query.shape, dtype), np.empty_like(x.key), np.empty_like(x.value)
    delta = np.empty(lse.shape, dtype)
    for rows in blocks(rules.band.n, block_q):
        delta[..., rows] = (dout[..., rows, :].astype(dtype) * out[..., rows, :]).sum(-1) - dlse[..., rows]  # (10.2)

    for cols in blocks(rules.band.m, block_k):
        dk_j = np.zeros(x.key[..., cols, :].shape, dtype)
        dv_j = np.zeros(x.value[..., cols, :].shape, dtype)
        for rows in rules.band.query_blocks(cols, block_q):
            visible = look(rules, x, rows, cols)
            if hidden(visible):
                continue
            k, v, b = read(x, rows, cols, visible)
            q = only(sees(visible), rules.scale * x.query[..., rows, :].astype(dtype, copy=False))
            do = only(sees(visible), dout[..., rows, :].astype(dtype, copy=False))
            s = scores(q, k, b, visible)
            s -= zero_if_empty(lse[..., rows])[..., None]
            p = np.exp(s, out=s)  # (10.1)
            dp = drop(matmul(do, v.swapaxes(-1, -2)), x.seed, rules, rows, cols)  # (10.8)
            dp -= delta[..., rows, None]  # (10.3)
            dp *= p
            ds = dp if visible is None else np.where(visible, dp, 0)
            dv_j += matmul_rows(drop(p, x.seed, rules, rows, cols), do)  # (10.8)
            dk_j += matmul_rows(ds, q)  # (10.5)
            dq[..., rows, :] += rules.scale * matmul(ds, k)  # (10.5)
        dk[..., cols, :], dv[..., cols, :] = dk_j, dv_j
    return dq.astype(x.query.dtype, copy=False), dk, dv


def matmul_rows(a: Tile, b: Rows) -> Keys:
    """Σ over the group's query rows of aᵀ b: what each key receives from all queries that read it."""
    *heads, g, r, c = a.shape
    a, b = a.reshape((*heads, g * r, c)), b.reshape((*heads, g * r, b.shape[-1]))
    return a.swapaxes(-1, -2) @ b
