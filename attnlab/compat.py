"""Attention under the signature of PyTorch's own: one import to swap the two."""

from attnlab.core.arguments import check_kind, check_probability
from attnlab.core.arrays.torch import Array
from attnlab.core.other_names import ends_at_call
from attnlab.core.torch_operator import draw_seed
from attnlab.tiled import tiled_attention

import torch

__all__ = ["scaled_dot_product_attention"]


@ends_at_call
def scaled_dot_product_attention(
    query: Array, key: Array, value: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Array:
    """Tiled attention as ``torch.nn.functional.scaled_dot_product_attention`` is called, with its meaning.

    query (..., Hq, L, E), key (..., H, S, E), value (..., H, S, Ev), PyTorch tensors. Returns (..., Hq, L, Ev).
    Batch axes broadcast, and heads too; with ``enable_gqa`` H divides Hq instead. ``attn_mask`` broadcasts to
    (..., Hq, L, S): boolean, True = attend, or floats, added to the scaled scores. ``is_causal`` is aligned to the
    top left: query i sees key j iff j <= i. ``dropout_p`` > 0 always drops, by a seed drawn from PyTorch's default
    generator (not under torch.func); for a seed of your own, lse, a window or alignment to the bottom right see
    :func:`attnlab.tiled_attention`. A row of which everything is hidden gives 0. Raises ValueError for a mask beside
    is_causal, and as tiled_attention, whose algorithm and extra memory this is.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_kind(name, x, "torch")
        if x.ndim < 2:
            raise ValueError(f"{name} has shape {tuple(x.shape)}; it must have at least 2 axes, (..., length, size)")
    if attn_mask is not None:
        check_kind("attn_mask", attn_mask, "torch")
        if not (attn_mask.dtype == torch.bool or attn_mask.is_floating_point()):
            raise TypeError(f"attn_mask has dtype {attn_mask.dtype}; it must be boolean (True = attend) or float")
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask is given and is_causal is True; only one of the two may be")
    dropout_p = check_probability("dropout_p", dropout_p)
    heads = [x.shape[-3] if x.ndim > 2 else 1 for x in (query, key)]
    if not enable_gqa and 1 not in heads and heads[0] != heads[1]:
        raise ValueError(f"key has {heads[1]} heads, query has {heads[0]}; enable_gqa=True groups them")
    kept = 3 if enable_gqa else 2  # axes that do not broadcast
    batch = torch.broadcast_shapes(*(x.shape[:-kept] for x in (query, key, value)))
    query, key, value = (x.expand(*batch, *x.shape[-kept:]) for x in (query, key, value))
    boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    if dropout_p > 0 and torch._C._are_functorch_transforms_active():
        raise ValueError(f"dropout_p is {dropout_p} under torch.func, where PyTorch gives no seed; draw it "
                         "outside, and call attnlab.tiled_attention(..., dropout=, seed=)")  # fmt: skip
    return tiled_attention(
        query, key, value, causal=is_causal, offset=0, mask=attn_mask if boolean else None,
        bias=None if boolean else attn_mask, scale=scale, dropout=dropout_p,
        seed=draw_seed() if dropout_p > 0 else None,
    )  # fmt: skip
