"""A call with another library's name for an argument is told ours."""

import importlib
import inspect
import re

import numpy as np
import pytest

import attnlab
from attnlab.core.other_names import BEYOND_THE_SIX, BY_FUNCTION, OF_THE_SIX, ONLY_THE_SIX, hints
from tests.support import refused

MISNAMED = {
    "is_causal": "causal=True.*offset=0", "attn_mask": "mask for booleans.*bias", "dropout_p": "dropout and an integer",
    "dropout_rng": "seed", "softmax_scale": "scale", "enable_gqa": "no such switch", "key_padding_mask": "mask=~",
    "window_size": "window=", "alibi_slopes": "bias", "q": "query", "softcap": "no such option", "algorithm": "method",
}  # fmt: skip


@pytest.mark.parametrize("name", MISNAMED)
def test_a_name_of_another_library(name):
    """Of the package's function and of the library's own; and of nothing but an unknown name."""
    x = np.zeros((3, 3), np.float32)
    own = importlib.import_module("attnlab.safe.numpy").safe_attention
    for call in (attnlab.attention, attnlab.safe_attention, own):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; attnlab has {MISNAMED[name]}"):
            call(x, x, x, **{name: None})


def test_other_unknown_names_and_errors_stay_as_they_are():
    x = np.zeros((3, 3), np.float32)
    refused(TypeError, r"unexpected keyword argument 'haphazard'$", attnlab.safe_attention, x, x, x, haphazard=True)
    refused(TypeError, r"missing .* 'value'$", attnlab.safe_attention, x, x, causal=True)


def test_what_we_call_it_exists():
    """A hint names an argument of ours, and no name that needs a hint is one."""
    ours = {name for f in (attnlab.tiled_attention, attnlab.attention) for name in inspect.signature(f).parameters}
    for names, hint in OF_THE_SIX:
        assert not ours & {*names.split()}
        assert ours & set(re.findall(r"\w+", hint)), hint


ROOMS = {
    "rotary": attnlab.rotary, "attend": attnlab.cache.KVCache.attend, "paged_attention": attnlab.paged.paged_attention,
    "linear_attention": attnlab.linear.linear_attention, "delta_attention": attnlab.linear.delta_attention,
    "ring_attention": attnlab.ring.ring_attention,
    "tree_attention": attnlab.ring.tree_attention,
}  # fmt: skip
IN_ROOMS = [
    ("rotary", "theta", "base"), ("rotary", "position_ids", "positions"), ("rotary", "n", "positions"),
    ("rotary", "rope_scaling", "scaling"), ("rotary", "rotary_dim", "size"), ("rotary", "is_neox", "interleaved"),
    ("attend", "causal", "no such switch: every query sees the keys"), ("attend", "softmax_scale", "scale"),
    ("attend", "window", "RollingCache.empty"), ("attend", "bias", "no such option here: tiled_attention"),
    ("rotary", "rope_scaling", "scaling"), ("rotary", "rotary_dim", "size"), ("paged_attention", "kv_layout", "layout"),
    ("paged_attention", "cache_seqlens", "lengths"), ("paged_attention", "is_causal", "no such switch"),
    ("paged_attention", "window_size", "window="), ("paged_attention", "mask", "no such option"),
    ("linear_attention", "is_causal", "causal=True, aligned to the bottom right$"), ("linear_attention", "q", "query"),
    ("delta_attention", "g", "log_decay, the logarithm"), ("delta_attention", "initial_state", "state"),
    ("linear_attention", "initial_state", "state"), ("linear_attention", "cu_seqlens", "no such option: call it for"),
    ("ring_attention", "mask", "no such option here"), ("ring_attention", "segments", "no such option: call it"),
    ("ring_attention", "causal_", None), ("ring_attention", "process_group", "group"),
    ("tree_attention", "causal", "no such switch"), ("tree_attention", "attn_mask", "mask, boolean"),
]  # fmt: skip


@pytest.mark.parametrize(("room", "name", "hint"), IN_ROOMS)
def test_a_name_that_a_room_lacks(room, name, hint):
    """As of the six; another unknown name is Python's error."""
    said = f"unexpected keyword argument '{name}'" + (f"; attnlab has {hint}" if hint else r"(\.|$)")
    refused(TypeError, said, ROOMS[room], *[np.zeros((3, 3), np.float32)] * 5, **{name: None})


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_calls_it_exists(room):
    """A hint for a name of another library names an argument or says that there is none; no name is an argument."""
    ours = set(inspect.signature(ROOMS[room]).parameters)
    assert not any(ours & {*names.split()} for names, _ in BY_FUNCTION[room])
    known = hints(ours, BY_FUNCTION[room], BEYOND_THE_SIX, OF_THE_SIX, ONLY_THE_SIX)
    assert {hint for _, hint in BY_FUNCTION[room]} <= {*known.values()}
    assert not ours & known.keys()
    for hint in known.values():
        first = re.findall(r"\w+", hint)[0]
        assert first in ours | {"no", "cache", "RollingCache"}, hint


x, PADDED = np.zeros((2, 6, 5, 4), np.float32), np.ones((2, 5), bool)


@pytest.mark.parametrize(("call", "way"), [
    (lambda: attnlab.tiled_attention(x, x, x, casual=True), "did you mean causal"),
    (lambda: attnlab.tiled_attention(x, x, x, True), "takes 3 arrays, and options by their names: causal=True"),
    (lambda: attnlab.tiled_attention(x, x[:, :4], x[:, :4]), "if axes are .batch, length, heads, size., swap 1 and 2"),
    (lambda: attnlab.tiled_attention(x, x, x, mask=PADDED), r"give mask\[:, None, None, :\]"),
    (lambda: attnlab.tiled_attention(x, x.tolist(), x), "numpy.asarray converts it"),
    (lambda: attnlab.tiled_attention(x.astype(int), x, x), "convert it to one of them"),
    (lambda: attnlab.tiled_atention, "did you mean tiled_attention"),
    (lambda: attnlab.flash_attention, "did you mean tiled_attention"),
])  # fmt: skip
def test_an_error_says_what_to_do(call, way):
    with pytest.raises((TypeError, ValueError, AttributeError), match=way):
        call()
