"""Errors of a call: an unknown name of another library says what it is called here, and they end at the call."""

import difflib
import dis
import functools
import inspect
import re
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable)
Rows = tuple[tuple[str, str], ...]  # names elsewhere, and what we have instead

OF_THE_SIX: Rows = (
    ("is_causal", "causal=True, aligned to the bottom right; with offset=0 as well, to the top left as there"),
    ("attn_mask attention_mask score_mod mask_mod",
     "mask for booleans (True = attend), bias for numbers that are added"),
    ("key_padding_mask", "mask=~key_padding_mask[:, None, None, :]: True = attend"),
    ("attn_bias attention_bias alibi_slopes", "bias, broadcasting to (..., Hq, N, M)"),
    ("dropout_p dropout_rate attn_dropout", "dropout and an integer seed"),
    ("dropout_rng dropout_key dropout_seed generator rng", "seed, an integer"),
    ("softmax_scale sm_scale scaling", "scale"),
    ("enable_gqa", "no such switch: Hk key heads that divide Hq query heads are grouped by themselves"),
    ("window_size local_window_size sliding_window", "window=(left, right)"),
    ("return_residual return_attn_probs return_softmax_lse return_aux", "return_lse"),
    ("query_seq_lengths key_value_seq_lengths seqused_k cache_seqlens", "a mask of (B, 1, 1, M), or segments"),
    ("cu_seqlens cu_seqlens_q cu_seqlens_k segment_ids", "segments"),
    ("softcap logits_soft_cap", "no such option: bias = cap * tanh(s / cap) - s, which is N x M"),
    ("algorithm attn_implementation implementation backend", "method of attnlab.attention, or another of the six"),
    ("q", "query"), ("k", "key"), ("v", "value"),
)  # fmt: skip
"""Sources: torch.nn.functional, torch.nn, jax.nn, flax.linen, flash_attn, FlexAttention, transformers."""

BEYOND_THE_SIX: Rows = (
    ("attn_mask attention_mask", "mask, boolean, True = attend"),
    ("initial_state", "state"), ("output_final_state", "return_state"),
    ("process_group cp_group", "group"), ("axis", "axis_name"),
)  # fmt: skip
"""What the other functions say before that, if they have it."""

ONLY_THE_SIX: Rows = (
    ("cu_seqlens segments segment_ids", "no such option: call it for each document"),
    ("mask attn_mask attention_mask bias attn_bias alibi_slopes dropout dropout_p window window_size return_lse",
     "no such option here: tiled_attention takes it"),
)  # fmt: skip
"""What they say if nothing else is true."""

ALWAYS = ("causal is_causal", "no such switch: every query sees the keys up to its own")
BY_FUNCTION: dict[str, Rows] = {
    "rotary": (
        ("theta rope_theta", "base"),
        ("rope_scaling scaling_factor rope_parameters", "scaling, a dict as in config.json"),
        ("rotary_dim rot_dim partial_rotary_factor", "size, the dimensions that are rotated"),
        ("is_neox_style is_neox rotary_interleaved", "interleaved, True as in GPT-J"),
        ("position_ids pos n seq_len length", "positions, 0 to N - 1 by default"),
        ("cos sin freqs freqs_cis", "no such option: it finds the angles from positions and base"),
    ),
    "attend": (
        ALWAYS,
        ("window window_size", "RollingCache.empty(..., window=...)"),
        ("offset cache_position", "cache.length, which counts by itself"),
        ("cache_seqlens cu_seqlens seq_lens", "lengths in a KVCache, where rows differ"),
    ),
    "paged_attention": (
        ALWAYS,
        ("kv_layout", "layout, 'heads' or 'tokens', by what comes first in a page"),
        ("k_cache key_cache", "key_pages"), ("v_cache value_cache", "value_pages"),
        ("page_table block_tables", "block_table"),
        ("cache_seqlens cu_seqlens seq_lens context_lens", "lengths, new tokens included"),
        ("mask bias dropout segments", "no such option: keys are those of the table, up to lengths"),
    ),
    "linear_attention": (
        ("is_causal", "causal=True, aligned to the bottom right"),
        ("feature_map kernel feature_fn", "features"),
        ("normalize", "no such switch: weights are always divided by their sum"),
        ("attn_mask attention_mask", "mask, boolean, True = the key takes part"),
        ("key_padding_mask", "mask=~key_padding_mask[:, None, None, :]: True = the key takes part"),
    ),
    "delta_attention": (
        ALWAYS,
        ("g gate decay", "log_decay, the logarithm of the decay"),
        ("attn_mask attention_mask", "mask, boolean, True = the token takes part"),
        ("cu_seqlens segments", "log_decay = -inf at the first token of each sequence"),
        ("scale features", "no such option: map and scale query and key before the call"),
    ),
    "ring_attention": (("is_causal", "causal=True, by position in the sequence"),),
    "tree_attention": (("causal is_causal", "no such switch: every query sees every key that mask leaves"),),
}  # fmt: skip
"""What one of them says before all that."""


def hints(parameters: set[str], *tables: Rows) -> dict[str, str]:
    """{another library's name: what a function with these ``parameters`` has instead}. The first true row wins."""
    ours, found = parameters | {"no", "cache", "RollingCache"}, dict[str, str]()
    for names, hint in (row for rows in tables for row in rows):
        if set(re.findall(r"\w+", hint)[:1]) <= ours:
            found = {name: hint for name in names.split() if name not in parameters} | found
    return found


def with_our_name(error: TypeError, given: dict[str, Any], ours: list[str]) -> TypeError:
    """The error of a call that Python could not bind, with our name for an argument that came by another."""
    known = {name: hint for names, hint in OF_THE_SIX for name in names.split()}
    for name in given:
        if f"'{name}'" in str(error):
            close = difflib.get_close_matches(name, ours, 1)
            hint = f"attnlab has {known[name]}" if name in known else f"did you mean {close[0]}?" if close else ""
            return TypeError(f"{error}; {hint}" if hint else str(error))
    return error


def shorten(error: Exception, *packages: str) -> None:
    """Leave out the frames below the call if attnlab raised the error itself, or one of ``packages``.

    What they didn't foresee keeps them all.
    """
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    ours = frame.f_globals.get("__name__", "").partition(".")[0] in ("attnlab", *packages)
    if ours and frame.f_code.co_code[frame.f_lasti] == dis.opmap["RAISE_VARARGS"]:
        error.__traceback__ = None


def suggests_our_names(function: Function) -> Function:
    """Decorator of a public function beyond the six: errors end at its call, and say what it has for other names."""
    ours = set(inspect.signature(function).parameters)
    known = hints(ours, BY_FUNCTION.get(function.__name__, ()), BEYOND_THE_SIX, OF_THE_SIX, ONLY_THE_SIX)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name in known:
                where = f"{function.__qualname__}() got an unexpected keyword argument"
                raise TypeError(f"{where} '{name}'; attnlab has {known[name]}")
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            shorten(error)
            raise

    return called
