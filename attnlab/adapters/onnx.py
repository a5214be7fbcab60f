"""attnlab as ONNX's operator ``Attention``, opsets 23 to 25, on arrays of NumPy, JAX or PyTorch.

    from attnlab.adapters.onnx import attention

    Y, present_key, present_value, _ = attention(Q, K, V, past_key=past_key, past_value=past_value, is_causal=1)

onnx itself is not imported.
"""

import importlib
from typing import Any

from attnlab.core.dispatch import library_of
from attnlab.core.other_names import ends_at_call
from attnlab.tiled import tiled_attention

__all__ = ["attention"]

Array = Any


@ends_at_call
def attention(
    Q: Array, K: Array, V: Array, attn_mask: Array | None = None, past_key: Array | None = None,
    past_value: Array | None = None, nonpad_kv_seqlen: Array | None = None, *, is_causal: int = 0,
    kv_num_heads: int | None = None, left_window_size: int = -1, q_num_heads: int | None = None,
    qk_matmul_output_mode: int | None = None, right_window_size: int = -1, scale: float | None = None,
    softcap: float = 0.0, softmax_precision: int | None = None,
) -> tuple[Array, Array, Array, Array | None]:
    """(Y, present_key, present_value, qk_matmul_output) as the operator has them; tiled attention computes Y.

    Q (B, Hq, N, D), K (B, Hk, M, D) and V (B, Hk, M, Dv); or (B, N, Hq·D) and so on, with both numbers of heads.
    ``attn_mask``: boolean, True = attend, or added after the cap, broadcasting to (B, Hq, N, total); what a shorter
    one leaves over is hidden. ``is_causal`` and windows count from query 0 at key P, where P keys are past; where
    ``nonpad_kv_seqlen`` (B,) is given, the last query stands at the last of so many keys; and else it's the top left.
    A row that sees nothing gives 0. The fourth result is made, N·total, only where ``qk_matmul_output_mode`` is given:
    scaled and capped scores for 0 and 1, those with masks for 2, weights for 3. A soft cap holds N·total scores, too.
    Softmax is in float32 at least, whatever ``softmax_precision`` says. Raises ValueError and TypeError as
    tiled_attention, and for one past without the other, or with nonpad_kv_seqlen.
    """
    kind = library_of("Q", Q)
    xp: Any = importlib.import_module("jax.numpy" if kind == "jax" else kind)
    here = {"device": Q.device} if kind == "torch" else {}
    if (past_key is None) != (past_value is None):
        raise ValueError("only one of past_key and past_value is given; they are used together")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise ValueError("past_key and nonpad_kv_seqlen are given; a cache is either inside or outside")
    flat = Q.ndim == 3
    if flat:
        if q_num_heads is None or kv_num_heads is None:
            raise ValueError("Q has 3 axes; it then needs q_num_heads and kv_num_heads")
        heads = zip((Q, K, V), (q_num_heads, kv_num_heads, kv_num_heads))
        Q, K, V = (x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2) for x, count in heads)
    if past_key is not None:
        K, V = xp.concatenate((past_key, K), axis=2), xp.concatenate((past_value, V), axis=2)
    n, m = Q.shape[2], K.shape[2]
    mask = bias = None
    if attn_mask is not None:
        boolean = "bool" in str(attn_mask.dtype)
        rest = xp.full_like(attn_mask[..., :1], False if boolean else -xp.inf)
        attn_mask = xp.concatenate([attn_mask, *[rest] * (m - attn_mask.shape[-1])], axis=-1)
        mask, bias = (attn_mask, None) if boolean else (None, attn_mask)
    rules: dict[str, Any] = {}
    if nonpad_kv_seqlen is None:
        past = 0 if past_key is None else past_key.shape[2]
        rules |= {"causal": bool(is_causal), "window": (left_window_size, right_window_size), "offset": past}
    else:  # each example has a diagonal of its own
        count = nonpad_kv_seqlen.reshape(-1, 1, 1, 1)
        near = xp.arange(m, **here) - xp.arange(n, **here)[:, None] - (count - n)
        seen = (xp.arange(m, **here) < count) & ((near <= 0) | (not is_causal))
        seen = seen & ((near >= -left_window_size) | (left_window_size < 0))
        seen = seen & ((near <= right_window_size) | (right_window_size < 0))
        mask = seen if mask is None else seen & mask
    scores: Any = None
    if softcap or qk_matmul_output_mode is not None:
        grouped = Q.reshape(Q.shape[0], K.shape[1], -1, n, Q.shape[3])
        grouped = grouped * (Q.shape[3] ** -0.5 if scale is None else scale)
        scores = (grouped @ K[:, :, None].swapaxes(-1, -2)).reshape(*Q.shape[:3], m)
        scores = softcap * xp.tanh(scores / softcap) if softcap else scores
    options = {"scale": scale, "bias": bias}
    if softcap:
        options = {"scale": 0.0, "bias": scores if bias is None else scores + bias}
    Y = tiled_attention(Q, K, V, mask=mask, **rules, **options)
    product = scores
    if qk_matmul_output_mode in (2, 3):
        one = xp.broadcast_to(xp.eye(m, dtype=V.dtype, **here), (*V.shape[:2], m, m))
        product = tiled_attention(Q, K, one, mask=mask, **rules, **options)
        if qk_matmul_output_mode == 2:
            visible = tiled_attention(Q, K, one, mask=mask, **rules, scale=0.0) > 0
            product = xp.where(visible, scores if bias is None else scores + bias, -xp.inf)
    Y = Y.swapaxes(1, 2).reshape(Y.shape[0], n, -1) if flat else Y
    return Y, K, V, None if qk_matmul_output_mode is None else product
