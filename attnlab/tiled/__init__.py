"""Tiled attention: the online fold, a tile of keys at a time for a tile of queries.
Differs from online: a tile of keys for a key, one ⊕ a tile, and a tile of queries on chip.

    for each tile:  m' = max(m, rowmax s),  p = e^{s − m'},  l' = l·e^{m − m'} + rowsum p,  o' = o·e^{m − m'} + p·v

with the tile on chip and one division at the end. The gradient is FlashAttention's: p is recomputed
from lse, and Δ = rowsum(do ∘ o) stands for the row that the softmax needs. Derived in notebooks 08 and 10.
Extra memory: a few tiles, whatever N and M, and lse; in the gradient also Δ.
"""

from typing import Any, Never, Unpack

from attnlab.core.dispatch import Array, dispatch, dispatches, dispatches_gradient
from attnlab.core.signature import Array as Kind, Options


@dispatches("block_q", "block_k", "block_mask")
def tiled_attention(query: Array, key: Array, value: Array, *more: Never, **options: Unpack[Options]) -> Any:
    """Attention tile by tile with a running maximum and sum: FlashAttention's algorithm.

    Right for any finite scores and lengths. Source: FlashAttention (Dao et al. 2022), algorithms 1, 2 and
    4, in the loop order of FlashAttention-2 (queries outside, one division at the end). Extra memory, in
    blocks of Bq queries (times G = Hq / Hk rows) and Bk keys: Bq·Bk + Bq·(D + 2Dv + 2) elements, in JAX
    another Bq·Bk, whatever N and M, and N for lse; the gradient adds Δ, N more, and for half precision a float32 dq.
    By default block_k = 512 and block_q = 512 / G, fewer beyond 8 key heads (batch included), and half of
    it in the gradient. For one query without a window block_k = 4096 in the forward, in JAX 2048, fewer
    beyond 8 key heads. For half precision it stays 512 in NumPy, where a tile is widened; in JAX it is 65,536 where no
    array or offset is given that may hide keys. With segments both are 256 at most, and so in NumPy and PyTorch in a
    causal call of 257 to 2,048 queries and keys. There the tile of one query has up to 2¹⁹ scores if that's all of
    them, without mask, bias, segments and dropout.
    JAX multiplies bfloat16 as it is and accumulates in float32; weights are rounded, but not those of a few rows.
    ``block_mask``: boolean (⌈N / block_q⌉, ⌈M / block_k⌉), True = attend, for all heads alike; needs both
    block sizes. Hidden tiles are neither loaded nor computed, forward and backward (block-sparse
    FlashAttention, algorithm 5); under jax.jit it is a constant.
    Tiles that a mask or bias hides for every head and batch element are skipped, too, except in the kernels: a
    cache is as long as what's filled. In NumPy and JAX that takes a byte a key; under jax.vmap of the mask all examples
    take as many steps as the longest.
    In NumPy each thread of a large call works on some of the heads, and a small call on one thread; meanwhile
    every product of NumPy's in this process uses one thread, and as many as before afterwards.
    On a GPU a kernel runs in place of the loops. PyTorch: ours, if Triton 3.6 or newer is there, but for a bias,
    float64, head sizes above 256 and block sizes that are no multiples of 16; its tiles are then no larger
    than the block sizes. JAX: cuDNN's, for half precision, N = M, D = Dv ≤ 128, a multiple of 8, causal or
    not, and no other option. No forward-mode derivative and no second one: use safe_attention for these.
    The gradient recomputes the weights as e^(score - lse), so it inherits the rounding of lse: in float32 a
    relative error of about 6e-8 times the magnitude of the row's largest score. Where a bias of -1e6 or
    below covers a whole row, hide the row by a mask or use safe_attention.
    """
    return dispatch(tiled_attention, (query, key, value, *more), options)


@dispatches_gradient("block_q", "block_k", "block_mask")
def tiled_attention_backward(
    query: Kind, key: Kind, value: Kind, out: Kind, lse: Kind, dout: Kind, *, dlse: Kind | None = None,
    **options: Unpack[Options],
) -> tuple[Kind, ...]:
    """Gradients (dq, dk, dv) of :func:`tiled_attention`, with a bias (dq, dk, dv, dbias), from its result.

    ``out`` (..., Hq, N, Dv) and ``lse`` (..., Hq, N) are what the forward call returned, ``dout`` and
    ``dlse`` the gradients of a loss by them (``dlse`` None: the loss does not use lse). The options are
    those of the forward call. Returns arrays of the shapes and dtypes of query, key, value and bias. Every
    exact algorithm has this gradient: any of the six may have given out and lse.
    Source: FlashAttention (Dao et al. 2022), algorithm 4. Extra memory: two numbers a query and a few
    tiles; in half precision also dq in float32. Raises as :func:`tiled_attention`.
    """
    return dispatch(tiled_attention_backward, (query, key, value, out, lse, dout), {"dlse": dlse, **options})
