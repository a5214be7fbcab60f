"""Names that other libraries give to the arguments: an error for an unknown one says what it is called here."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable)

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
    **dict.fromkeys(("cu_seqlens", "cu_seqlens_q", "cu_seqlens_k", "segment_ids"), "segments"),
    **dict.fromkeys(("softcap", "logits_soft_cap"), "no such option: bias = cap * tanh(s / cap) - s, which is N x M"),
    "q": "query", "k": "key", "v": "value",
}  # fmt: skip
"""Sources: torch.nn.functional, torch.nn, jax.nn, flax.linen, flash_attn, FlexAttention, transformers."""


def named_as_here(error: TypeError, given: dict[str, Any]) -> TypeError:
    """The error of a call that Python could not bind, with our name for an argument that came by another."""
    known = [name for name in given if name in NAMES and f"'{name}'" in str(error)]
    return TypeError(f"{error}; attnlab has {NAMES[known[0]]}") if known else error


NONE = "no such option"
ALWAYS = "no such switch: every query sees the keys up to its own"
WEIGHTS = f"{NONE} here: tiled_attention takes it"
APART = f"{NONE}: call it for each document"
OF_ROOMS: dict[str, dict[str, str]] = {
    "rotary": {
        **dict.fromkeys(("theta", "rope_theta"), "base"),
        **dict.fromkeys(("rope_scaling", "scaling_factor", "rope_parameters"), "scaling, a dict as in config.json"),
        **dict.fromkeys(("rotary_dim", "rot_dim", "partial_rotary_factor"), "size, the dimensions that are rotated"),
        **dict.fromkeys(("is_neox_style", "is_neox", "rotary_interleaved"), "interleaved, True as in GPT-J"),
        **dict.fromkeys(("position_ids", "pos", "n", "seq_len", "length"), "positions, 0 to N - 1 by default"),
        **dict.fromkeys(("cos", "sin", "freqs", "freqs_cis"), f"{NONE}: it finds the angles from positions and base"),
    },
    "attend": {
        **dict.fromkeys(("causal", "is_causal"), ALWAYS),
        **dict.fromkeys(("window", "window_size"), "RollingCache.empty(..., window=...)"),
        **dict.fromkeys(("bias", "attn_bias", "dropout", "dropout_p", "segments"), WEIGHTS),
        **dict.fromkeys(("offset", "cache_position"), "cache.length, which counts by itself"),
        **dict.fromkeys(("cache_seqlens", "cu_seqlens", "seq_lens"), "lengths in a KVCache, where rows differ"),
    },
    "paged_attention": {
        "kv_layout": "layout, 'heads' or 'tokens', by what comes first in a page",
        **dict.fromkeys(("causal", "is_causal"), ALWAYS),
        **dict.fromkeys(("k_cache", "key_cache"), "key_pages"),
        **dict.fromkeys(("v_cache", "value_cache"), "value_pages"),
        **dict.fromkeys(("page_table", "block_tables"), "block_table"),
        **dict.fromkeys(("cache_seqlens", "cu_seqlens", "seq_lens", "context_lens"), "lengths, new tokens included"),
        **dict.fromkeys(("mask", "bias", "dropout", "segments"), f"{NONE}: keys are those of the table, up to lengths"),
    },
    "linear_attention": {
        "is_causal": "causal=True, aligned to the bottom right",
        **dict.fromkeys(("feature_map", "kernel", "feature_fn"), "features"),
        "initial_state": "state",
        "output_final_state": "return_state",
        "normalize": "no such switch: weights are always divided by their sum",
        **dict.fromkeys(("attn_mask", "attention_mask"), "mask, boolean, True = the key takes part"),
        "key_padding_mask": "mask=~key_padding_mask[:, None, None, :]: True = the key takes part",
        **dict.fromkeys(("cu_seqlens", "segments"), APART),
        **dict.fromkeys(("window", "window_size", "bias", "dropout", "dropout_p", "return_lse"), WEIGHTS),
    },
    "delta_attention": {
        **dict.fromkeys(("g", "gate", "decay"), "log_decay, the logarithm of the decay"),
        "initial_state": "state",
        "output_final_state": "return_state",
        **dict.fromkeys(("causal", "is_causal"), "no such switch: it is always causal"),
        **dict.fromkeys(("attn_mask", "attention_mask"), "mask, boolean, True = the token takes part"),
        **dict.fromkeys(("cu_seqlens", "segments"), "log_decay = -inf at the first token of each sequence"),
        **dict.fromkeys(("scale", "features"), "no such option: map and scale query and key before the call"),
    },
    "ring_attention": {
        "is_causal": "causal=True, by position in the sequence",
        **dict.fromkeys(("process_group", "cp_group"), "group"),
        "axis": "axis_name",
        **dict.fromkeys(("cu_seqlens", "segments", "segment_ids"), APART),
        **dict.fromkeys(("mask", "attn_mask", "bias", "alibi_slopes", "dropout", "dropout_p"), f"{NONE} in a ring"),
    },
    "tree_attention": {
        **dict.fromkeys(("process_group", "cp_group"), "group"),
        "axis": "axis_name",
        **dict.fromkeys(("causal", "is_causal"), "no such switch: every query sees every key that mask leaves"),
        **dict.fromkeys(("bias", "cu_seqlens", "segments", "dropout", "dropout_p", "window"), f"{NONE} in a tree"),
        **dict.fromkeys(("attn_mask", "attention_mask"), "mask, boolean, True = attend"),
    },
}  # fmt: skip
"""What the functions beyond the six say of names, and of arguments that only the six have."""


def hinted(function: Function) -> Function:
    """Decorator of a public function beyond the six: an argument by a name that it lacks is told what it has."""
    ours = set(inspect.signature(function).parameters)
    hints = {name: hint for name, hint in NAMES.items() if set(re.findall(r"\w+", hint)[:1]) <= ours | {"no"}}
    hints |= OF_ROOMS[function.__name__]
    hints = {name: hint for name, hint in hints.items() if name not in ours}

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name in hints:
                where = f"{function.__qualname__}() got an unexpected keyword argument"
                raise TypeError(f"{where} '{name}'; attnlab has {hints[name]}")
        return function(*args, **kwargs)

    return called
