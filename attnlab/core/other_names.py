"""Errors of a call: they say what it takes instead, an unknown name of another library too, and end at the call."""

import contextlib
import difflib
import dis
import functools
import inspect
import re
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

Public = TypeVar("Public", bound=Callable)
Rows = tuple[tuple[str, str], ...]  # names elsewhere, and what we have instead

LIBRARIES = {"numpy", "jax", "jaxtyping", "torch"}  # their decorators stand between functions of ours

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
    ("algorithm attn_implementation implementation backend",
     "no such option: it is the method of attnlab.attention, or another of the six"),
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
    ("axis dim", "no such option: it is over the last axis"),
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


def in_other_words(error: TypeError, public: Callable, args: tuple, given: dict[str, Any]) -> bool:
    """Whether Python could not bind a call; then the error also says what we call that option, or what there is."""
    signature = inspect.signature(public)
    with contextlib.suppress(TypeError):
        signature.bind(*args, **given)
        return False
    ours = {name: p.kind for name, p in signature.parameters.items() if name not in ("self", "cls", "options")}
    if "missing" in (words := str(error)):
        return True
    more = "it takes " + ", ".join(f"{name}=" if kind is kind.KEYWORD_ONLY else name for name, kind in ours.items())
    if name := "unexpected" in words and next((name for name in given if f"'{name}'" in words), ""):
        beyond = () if "bias" in ours else (BY_FUNCTION.get(public.__name__, ()), BEYOND_THE_SIX)
        near = [x for x in ours if len(name) > 2 and name in x] or difflib.get_close_matches(name, ours, 1)
        known = hints({*ours}, *beyond, OF_THE_SIX, *() if near else (ONLY_THE_SIX,))
        meant = f"did you mean {' or '.join(near)}?" if near else more
        more = f"attnlab has {known[name]}" if name in known else meant
    error.args = (f"{words}; {more}",)
    return True


def shorten(error: Exception, packages: set[str], refused: bool) -> None:
    """Leave out the frames of ``packages`` if they raised the error themselves, or ``refused`` to take the arguments.

    What they didn't foresee keeps them all.
    """
    walked, rest, tried = [], None, error.__traceback__
    while tried:
        walked.append(tried)
        tried = tried.tb_next
    homes = [at.tb_frame.f_globals.get("__name__", "").partition(".")[0] for at in walked]
    raised = walked[-1].tb_frame.f_code.co_code[walked[-1].tb_lasti] == dis.opmap["RAISE_VARARGS"]
    if refused or (homes[-1] in packages and raised) or hasattr(error, "ends_at_call"):
        error.ends_at_call = True  # at that of ours further out, too
        for home, at in reversed([*zip(homes, walked)]):
            if home not in packages | LIBRARIES:
                rest = TracebackType(rest, at.tb_frame, at.tb_lasti, at.tb_lineno)
        error.__traceback__ = rest


def ends_at_call(public: Public) -> Public:
    """Decorator of a public function, or of a class for its methods: an error shows the line that calls, none of ours.

    If it is about an argument that isn't taken, it says what is.
    """
    if isinstance(public, type):
        for name, method in [*vars(public).items()]:
            function = getattr(method, "__func__", method)  # of a class method
            own = name == "__init__" and "__dataclass_fields__" not in vars(public)
            if inspect.isfunction(function) and (own or name[0] != "_"):
                ended = ends_at_call(function)
                setattr(public, name, ended if method is function else type(method)(ended))
        return public

    @functools.wraps(public)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return public(*args, **kwargs)
        except Exception as error:
            if (torch := sys.modules.get("torch")) and torch.compiler.is_compiling():
                raise
            refused = isinstance(error, TypeError) and in_other_words(error, public, args, kwargs)
            shorten(error, {"attnlab", public.__module__.partition(".")[0]}, refused)
            raise

    return called


def errors_end_at_calls(room: str) -> None:
    """Decorate all functions and classes that the module ``room`` lists in its ``__all__``."""
    names = vars(sys.modules[room])
    for name in names["__all__"]:
        if inspect.isfunction(names[name]) or isinstance(names[name], type):
            names[name] = ends_at_call(names[name])
            setattr(sys.modules[names[name].__module__], name, names[name])  # where pickle looks for it
