"""Attention under the signature of PyTorch's own: one import to swap the two."""

from attnlab.call import missing
from attnlab.tiled import tiled_attention

try:
    import torch
    from torch import Tensor as Array
except ModuleNotFoundError as error:
    raise missing("torch") from error

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Array, key: Array, value: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Array:
    """Tiled attention as ``torch.nn.functional.scaled_dot_product_attention`` is called, with its meaning.

    query (..., Hq, L, E), key (..., H, S, E), value (..., H, S, Ev), PyTorch tensors. Returns (..., Hq, L, Ev).
    Batch axes broadcast, and heads too; with ``enable_gqa`` H divides Hq instead. ``attn_mask`` broadcasts to
    (..., Hq, L, S): boolean, True = attend, or floats, added to the scaled scores. ``is_causal`` is aligned to the
    top left: query i sees key j iff j <= i. ``dropout_p`` > 0 always drops, by a seed drawn from PyTorch's default
    generator; for a seed of your own, lse, a window or alignment to the bottom right see
    :func:`attnlab.tiled_attention`. A row of which everything is hidden gives 0. Raises ValueError for a mask beside
    is_causal, and as tiled_attention, whose algorithm and extra memory this is.
    """
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask is given and is_causal is True; only one of the two may be")
    kept = 3 if enable_gqa else 2  # axes that do not broadcast
    batch = torch.broadcast_shapes(*(x.shape[:-kept] for x in (query, key, value)))
    query, key, value = (x.expand(*batch, *x.shape[-kept:]) for x in (query, key, value))
    boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    return tiled_attention(
        query, key, value, causal=is_causal, offset=0, mask=attn_mask if boolean else None,
        bias=None if boolean else attn_mask, scale=scale, dropout=dropout_p,
        seed=int(torch.randint(2**32, ())) if dropout_p > 0 else None,
    )  # fmt: skip
