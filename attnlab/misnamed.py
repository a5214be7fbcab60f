"""Names that other libraries give to the arguments: an error for an unknown one says what it is called here."""

from typing import Any

CAUSAL = "causal=True, aligned to the bottom right; with offset=0 as well, to the top left as there"
MASK = "mask for booleans (True = attend), bias for numbers that are added"
PADDING = "mask=~key_padding_mask[:, None, None, :]: True = attend"
DROPOUT = "dropout and an integer seed"
SEED = "seed, an integer"
WINDOW = "window=(left, right)"
LENGTHS = "a mask of (B, 1, 1, M), or segments"
NAMES = {
    "is_causal": CAUSAL,
    **dict.fromkeys(("attn_mask", "attention_mask", "score_mod", "mask_mod"), MASK),
    "key_padding_mask": PADDING,
    **dict.fromkeys(("attn_bias", "attention_bias", "alibi_slopes"), "bias, broadcasting to (..., Hq, N, M)"),
    **dict.fromkeys(("dropout_p", "dropout_rate", "attn_dropout"), DROPOUT),
    **dict.fromkeys(("dropout_rng", "dropout_key", "dropout_seed", "generator", "rng"), SEED),
    **dict.fromkeys(("softmax_scale", "sm_scale", "scaling"), "scale"),
    "enable_gqa": "no such switch: Hk key heads that divide Hq query heads are grouped by themselves",
    **dict.fromkeys(("window_size", "local_window_size", "sliding_window"), WINDOW),
    **dict.fromkeys(("return_residual", "return_attn_probs", "return_softmax_lse", "return_aux"), "return_lse"),
    **dict.fromkeys(("query_seq_lengths", "key_value_seq_lengths", "seqused_k", "cache_seqlens"), LENGTHS),
    **dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k", "segment_ids"), "segments"),
    **dict.fromkeys(("softcap", "logits_soft_cap"), "no such option: bias = cap * tanh(s / cap) - s, which is N x M"),
    "q": "query", "k": "key", "v": "value",
}  # fmt: skip
"""Sources: torch.nn.functional, torch.nn, jax.nn, flax.linen, flash_attn, FlexAttention, transformers."""


def named_as_here(error: TypeError, given: dict[str, Any]) -> TypeError:
    """The error of a call that Python could not bind, with our name for an argument that came by another."""
    known = [name for name in given if name in NAMES and f"'{name}'" in str(error)]
    return TypeError(f"{error}; attnlab has {NAMES[known[0]]}") if known else error
