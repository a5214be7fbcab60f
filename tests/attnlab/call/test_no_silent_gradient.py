"""Where PyTorch has no gradient, asking for one is an error that says what has one, and never a silent 0."""

import pytest
import torch

from attnlab.cache import KVCache, RollingCache
from attnlab.paged import PagedCache, paged_attention
from tests.support import refused

NAMES = "query", "key", "value"


def arrays():
    return {name: torch.randn(1, 2, 3, 4, dtype=torch.float64) for name in NAMES}


def pages(query, key, value):
    return paged_attention(query, key, value, torch.zeros(1, 1, dtype=torch.int32), torch.tensor([3]))


CALLS = {
    "KVCache": lambda query, key, value: KVCache.empty(key, value, capacity=4).attend(query, key, value)[0],
    "RollingCache": lambda query, key, value: RollingCache.empty(key, value, window=2).attend(query, key, value)[0],
    "paged_attention": pages,
}


@pytest.mark.parametrize("learns", NAMES)
@pytest.mark.parametrize("name", CALLS)
def test_a_gradient_is_refused(name, learns):
    x = arrays()
    expected = CALLS[name](**x)
    x[learns].requires_grad_()
    refused(NotImplementedError, rf"^{learns}.* requires a gradient, which {name}.* use tiled", CALLS[name], **x)
    with torch.no_grad():
        torch.testing.assert_close(CALLS[name](**x), expected, rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(CALLS[name](**x), expected, rtol=0, atol=0)


def test_what_a_cache_holds_is_never_part_of_a_graph():
    """So a refused call has written nothing, and what was written under no_grad asks for nothing."""
    x = arrays()
    cache = KVCache.empty(x["key"], x["value"], capacity=9)
    x["key"].requires_grad_()
    with pytest.raises(NotImplementedError):
        cache.attend(**x)
    assert cache.length == 0
    with torch.no_grad():
        cache.attend(**x)
    assert not cache.keys.requires_grad


def test_writing_pages_of_what_learns():
    """The pages keep numbers alone."""
    key, value = (torch.randn(2, 3, 4, requires_grad=True) for _ in range(2))
    cache = PagedCache.empty(key, value, blocks=2, block_size=4)
    with pytest.raises(NotImplementedError, match=r"^key requires a gradient, which PagedCache\.write does not have"):
        cache.write([0, 1, 2], key, value)
    with torch.no_grad():
        cache.write([0, 1, 2], key, value)
    assert not cache.key_pages.requires_grad
