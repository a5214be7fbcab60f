"""attnlab in the models of Hugging Face transformers.

    from attnlab.adapters import transformers as adapter

    adapter.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="attnlab")

Windows, chunks, padding and packed documents come as the mask that transformers makes for SDPA.
"""

from typing import Any

from attnlab.core.arrays.torch import Array
from attnlab.core.dispatch import library_missing
from attnlab.core.torch_operator import draw_seed
from attnlab.tiled import tiled_attention

import torch
try:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
except ModuleNotFoundError as error:
    raise library_missing("transformers") from error

__all__ = ["HARMLESS", "attention", "register"]

HARMLESS = {
    "sliding_window",  # is in the mask
    "position_ids", "seq_idx", "cache_position", "use_cache", "num_items_in_batch", "return_dict",
    "output_hidden_states", "output_router_logits",
}  # fmt: skip
"""Arguments that reach the attention of some models and change nothing in it."""

PACKED = "attnlab takes packed documents by position_ids that begin at 0 in each"
UNKNOWN = f"if it changes nothing in attention, add it to {__name__}.HARMLESS"
WAYS_OUT = {
    "softcap": "attnlab caps no scores; use attn_implementation='eager'",
    "output_attentions": "attnlab never holds the weights; use attn_implementation='eager'",
    "cache": "generate_batch has a cache of its own kind; use generate",
    **dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"), PACKED),
}


def register(name: str = "attnlab") -> None:
    """Make ``attn_implementation=name`` known to transformers: the attention and, without which padding would be
    attended to, the mask."""
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, sdpa_mask)


def attention(
    module: torch.nn.Module, query: Array, key: Array, value: Array, attention_mask: Array | None,
    scaling: float | None = None, dropout: float = 0.0, is_causal: bool | None = None,
    position_bias: Array | None = None, s_aux: Array | None = None, **others: Any,
) -> tuple[Array, None]:
    """Tiled attention as the models of transformers call theirs; the weights are never held, so None for them.

    query (B, Hq, N, D), key (B, Hk, M, D), value (B, Hk, M, Dv). ``attention_mask``: boolean or added, (B, 1, N, M);
    where there is none and N > 1 a decoder's is causal from the top left, as a static cache has empty slots at its
    end. ``position_bias``: added to the scores. ``s_aux``: a learned sink per head, a key of that score and value 0.
    Returns (B, N, Hq, Dv). Raises ValueError for an argument that would change the result and isn't served.
    """
    for name, given in others.items():
        if given is not None and given is not False and name not in HARMLESS:
            raise ValueError(f"{name} is given, which this attention does not serve: {WAYS_OUT.get(name, UNKNOWN)}")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    bias, mask = position_bias, attention_mask
    if mask is not None and mask.dtype != torch.bool:
        bias, mask = mask if bias is None else bias + mask, None
    out, lse = tiled_attention(
        query, key, value, causal=query.shape[2] > 1 and attention_mask is None and is_causal, offset=0, mask=mask,
        bias=bias, scale=scaling, dropout=dropout,
        seed=draw_seed() if dropout else None, return_lse=True,
    )  # fmt: skip
    if s_aux is not None:  # merge with a part of lse s_aux and value 0
        above = torch.where(lse == -torch.inf, lse, lse - s_aux[:, None])  # a sink may be −∞, too
        out = (out * torch.sigmoid(above)[..., None]).to(out.dtype)
    return out.transpose(1, 2).contiguous(), None
