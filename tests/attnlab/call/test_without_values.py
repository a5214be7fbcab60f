"""PyTorch's meta and fake tensors: shapes come out, or a sentence that says who looks at numbers."""

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from attnlab.paged import paged_attention
from tests.attnlab.call.test_default_device import ARRAYS, CALLS, PAGES

NAMES = [name for name in CALLS if name != "pages"]  # whose table is on a device
LOOKS = {"cache": "KVCache.attend", "rolling cache": "RollingCache.attend"}


def shapes(name, *x):
    if name in LOOKS:
        with pytest.raises(NotImplementedError, match=rf"^{LOOKS[name]} looks at numbers, and a meta or fake tensor"):
            CALLS[name](*x)
        return None
    out = CALLS[name](*x)
    return out.shape, out.dtype


def expected(name):
    out = CALLS[name](*ARRAYS)
    return None if name in LOOKS else (out.shape, out.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_meta_tensors(name):
    assert shapes(name, *(x.to("meta") for x in ARRAYS)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_fake_tensors(name):
    with FakeTensorMode() as mode:
        found = shapes(name, *map(mode.from_tensor, ARRAYS))
    assert found == expected(name)


def test_pages():
    with pytest.raises(NotImplementedError, match=r"^paged_attention looks at numbers"):
        paged_attention(*(x.to("meta") for x in (*ARRAYS, *PAGES)))
