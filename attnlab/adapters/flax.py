"""attnlab in flax: the ``attention_fn`` of ``nnx.MultiHeadAttention`` and of ``linen.MultiHeadDotProductAttention``.

    from attnlab.adapters.flax import dot_product_attention

    layer = nnx.MultiHeadAttention(num_heads, features, attention_fn=dot_product_attention, decode=False, rngs=rngs)

flax itself is not imported.
"""

from typing import Any

from attnlab.core.arrays.jax import Array
from attnlab.tiled import tiled_attention

import jax
import jax.numpy as jnp

__all__ = ["dot_product_attention"]


def dot_product_attention(
    query: Array, key: Array, value: Array, bias: Array | None = None, mask: Array | None = None,
    broadcast_dropout: bool = True, dropout_rng: Array | None = None, dropout_rate: float = 0.0,
    deterministic: bool = False, dtype: Any = None, precision: Any = None, module: Any = None,
    force_fp32_for_softmax: bool = False, qk_attn_weights_einsum: Any = None, attn_weights_value_einsum: Any = None,
    is_causal: bool = False,
) -> Array:
    """Tiled attention as flax's layers call theirs: query (..., N, Hq, D), key (..., M, Hk, D), value (..., M, Hk, Dv).

    ``mask``: booleans, or numbers that are not 0 where a key is visible, (..., H, N, M); ``bias`` is added to the
    scores. ``is_causal``: from the top left, as in flax. Where it drops, each head of each example has a mask of its
    own, whatever ``broadcast_dropout`` says; softmax is always in float32 at least, and ``precision`` is JAX's default.
    Returns (..., N, Hq, Dv); 0 for a query that sees no key, where flax gives the mean of the values. Raises ValueError
    for ``sow_weights`` and for einsums of one's own.
    """
    if module is not None:
        raise ValueError("sow_weights asks for the weights, which attnlab never holds; use flax's own attention_fn")
    if qk_attn_weights_einsum is not None or attn_weights_value_einsum is not None:
        raise ValueError("an einsum is given, and attnlab has none that it could replace; use flax's own attention_fn")
    rate = 0.0 if deterministic else dropout_rate
    seed = jax.random.bits(dropout_rng, (), "uint32") if rate else None
    dtype = jnp.result_type(query, key, value) if dtype is None else dtype
    query, key, value = (jnp.moveaxis(x.astype(dtype), -2, -3) for x in (query, key, value))
    mask = None if mask is None else mask.astype(bool)
    options = dict(causal=is_causal, offset=0, mask=mask, bias=bias, dropout=rate, seed=seed)
    return jnp.moveaxis(tiled_attention(query, key, value, **options), -3, -2)
