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
    "window_size": "window=", "alibi_slopes": "bias", "q": "query", "softcap": "no such", "algorithm": "no such option",
}  # fmt: skip


@pytest.mark.parametrize("name", MISNAMED)
def test_a_name_of_another_library(name):
    """Of the package's function and of the library's own; and of nothing but an unknown name."""
    x = np.zeros((3, 3), np.float32)
    own = importlib.import_module("attnlab.safe.numpy").safe_attention
    for call in (attnlab.attention, attnlab.safe_attention, own):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; attnlab has {MISNAMED[name]}"):
            call(x, x, x, **{name: None})


def test_a_call_that_cannot_be_bound_says_what_is_taken():
    """But for one that lacks an argument: Python says which."""
    x = np.zeros((3, 3), np.float32)
    takes = "takes query, key, value, causal=, window=.*return_lse="
    refused(TypeError, f"'haphazard'; it {takes}$", attnlab.safe_attention, x, x, x, haphazard=True)
    refused(TypeError, rf"\(\) takes 3 positional.*; it {takes}", attnlab.tiled_attention, x, x, x, True)
    refused(TypeError, r"missing .* 'value'$", attnlab.safe_attention, x, x, causal=True)
    refused(TypeError, "capacity=, dtype=$", attnlab.cache.KVCache.empty, x, x, 5)


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
    ("ring_attention", "process_group", "group"),
    ("tree_attention", "causal", "no such switch"), ("tree_attention", "attn_mask", "mask, boolean"),
]  # fmt: skip


@pytest.mark.parametrize(("room", "name", "hint"), IN_ROOMS)
def test_a_name_that_a_room_lacks(room, name, hint):
    """As of the six."""
    needed = [p for p in inspect.signature(ROOMS[room]).parameters.values() if p.default is p.empty]
    said = f"unexpected keyword argument '{name}'; attnlab has {hint}"
    refused(TypeError, said, ROOMS[room], *[np.zeros((3, 3), np.float32)] * len(needed), **{name: None})


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
    (lambda: attnlab.chunked_attention(x, x, x, chunk=0), r"did you mean query_chunk_size or key_chunk_size\?"),
    (lambda: attnlab.naive_attention(x, x, x, block_q=2), "'block_q'; it takes query, .*, return_lse=$"),
    (lambda: attnlab.safe_softmax(x, axis=0), "no such option: it is over the last axis"),
    (lambda: attnlab.attention(x, x, x, True), "method is True; .*options are given by name"),
    (lambda: attnlab.attention(x, x, x, ["tiled"]), r"method is \['tiled'\]; it must be one of naive"),
    (lambda: attnlab.attention(x, x, x, window=range(99)), "window is range"),
    (lambda: attnlab.tiled_attention(x, x[:, :4], x[:, :4]), "if axes are .batch, length, heads, size., swap 1 and 2"),
    (lambda: attnlab.tiled_attention(x, x, x, mask=PADDED), r"give mask\[:, None, None, :\]"),
    (lambda: attnlab.tiled_attention(x, x, x, bias=PADDED.astype("f")), r"give bias\[:, None, None"),
    (lambda: attnlab.tiled_attention(x, x, x, mask=np.ones((2, 5, 5), bool)), r"heads, give mask\[:, None\]"),
    (lambda: attnlab.tiled_attention(x, x, x, bias=x > 0), "booleans are a mask"),
    (lambda: attnlab.tiled_attention(x, x.astype(float), x), r"key.astype\(query.dtype\)"),
    (lambda: attnlab.tiled_attention([1.0], x, x), "query is of type list; .*numpy.asarray converts it"),
    (lambda: attnlab.rotary(x, [0, 1, 2, 3, 4]), "positions is of type list; .*numpy.asarray converts it"),
    (lambda: attnlab.merge([x, x[..., 0]], [x, x[..., 0]]), r"each a tuple \(out, lse\)"),
    (lambda: attnlab.dropout_mask(1, 5, 0.5), "shape is 5; it needs at least 2 axes"),
    (lambda: attnlab.ring.Cluster(x), "devices is a NumPy array; it must be an integer"),
    (lambda: attnlab.measure.attention_bytes("flash", "numpy", [8]), "method is 'flash'; it must be one of naive"),
    (lambda: attnlab.linear.hedgehog_loss(x, x, "elu"), r"hedgehog is of type str; .* Hedgehog\(query, key\)"),
    (lambda: attnlab.costs.forward("flash", 8, 8, 4, 4, block_q=0, block_k=1), "block_q is 0; it must be at least 1"),
    (lambda: attnlab.costs.on_chip_elements("tiled", 1, 1, 1, 1), "method is 'tiled'; it must be one of flash, flash2"),
    (lambda: attnlab.PagedCache, r"did you mean attnlab\.paged\.PagedCache\?"),
    (lambda: exec("from attnlab import PagedCache"), r"did you mean attnlab\.paged\.PagedCache\?"),
    (lambda: attnlab.tiled_attention(x, x.tolist(), x), "numpy.asarray converts it"),
    (lambda: attnlab.tiled_attention(x.astype(int), x, x), "convert it to one of them"),
    (lambda: attnlab.tiled_atention, "did you mean tiled_attention"),
    (lambda: attnlab.flash_attention, "did you mean tiled_attention"),
])  # fmt: skip
def test_an_error_says_what_to_do(call, way):
    with pytest.raises((TypeError, ValueError, AttributeError, ImportError, KeyError), match=way):
        call()
