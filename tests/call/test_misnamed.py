"""A call with another library's name for an argument is told ours."""

import importlib
import inspect
import re

import numpy as np
import pytest

import attnlab
from attnlab.misnamed import NAMES

MISNAMED = {
    "is_causal": "causal=True.*offset=0", "attn_mask": "mask for booleans.*bias", "dropout_p": "dropout and an integer",
    "dropout_rng": "seed", "softmax_scale": "scale", "enable_gqa": "no such switch", "key_padding_mask": "mask=~",
    "window_size": "window=", "alibi_slopes": "bias", "q": "query", "softcap": "no such option",
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
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'casual'$"):
        attnlab.safe_attention(x, x, x, casual=True)
    with pytest.raises(TypeError, match=r"missing .* 'value'$"):
        attnlab.safe_attention(x, x, causal=True)


def test_what_we_call_it_exists():
    """A hint names an argument of ours, and no name that needs a hint is one."""
    ours = set(inspect.signature(attnlab.tiled_attention).parameters)
    assert not ours & set(NAMES)
    for hint in NAMES.values():
        assert ours & set(re.findall(r"\w+", hint)), hint
