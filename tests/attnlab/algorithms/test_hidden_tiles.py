"""A mask costs where it hides a part of a tile: hidden tiles are neither read nor computed, whole ones not masked."""

import math
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab import chunked_attention, tiled_attention

VISIBLE, M, D = 100, 4096, 8
ATTENTION = {
    "chunked": lambda *x, **options: chunked_attention(*x, query_chunk_size=64, key_chunk_size=256, **options),
    "tiled": lambda *x, **options: tiled_attention(*x, block_q=64, block_k=256, **options),
}
HIDING = {
    "mask": lambda m: {"mask": torch.arange(m) < VISIBLE},
    "mask, causal": lambda m: {"mask": torch.arange(m) < VISIBLE, "causal": True, "offset": M},
    "segments": lambda m: {"segments": (torch.zeros(1, dtype=torch.int32), (torch.arange(m) >= VISIBLE).int())},
    "unsorted segments": lambda m: {
        "segments": (torch.arange(100) % 2 * 9, torch.where(torch.arange(m) < VISIBLE, 9, 5))},
    "bias": lambda m: {"bias": torch.where(torch.arange(m) < VISIBLE, 0.5, -math.inf)[None]},
}


class Counted(TorchDispatchMode):
    """Counts PyTorch's matrix products, their numbers, and those that operations write to memory of their own."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        product = operation.overloadpacket.__name__ in ("bmm", "baddbmm", "baddbmm_")
        self.seen["products"] += product
        self.seen["of products"] += result.numel() if product else 0
        given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.seen["numbers"] += result.numel() * (result.untyped_storage().data_ptr() not in given)
        return result


def arrays(m, kind=torch.float16):
    """100 queries of two heads, which share m keys of size D; values of another size."""
    random = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=random).to(kind) for shape in ((2, 100, D), (1, m, D), (1, m, 5))]


def counted(function, x, gradient=False, **options):
    """What one call counts, or the call and its gradient."""
    leaves = [y.clone().requires_grad_(gradient) for y in x]
    with Counted() as mode:
        out = function(*leaves, **options)
        if gradient:
            torch.autograd.grad(out, leaves, torch.ones_like(out))
    return mode.seen


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("rule", HIDING)
@pytest.mark.parametrize("algorithm", ATTENTION)
def test_hidden_tiles_are_not_multiplied(algorithm, rule, gradient):
    """A cache of 4096 slots of which 100 are filled takes the products of one that has room for 256."""
    long, short = (counted(ATTENTION[algorithm], arrays(m), gradient, **HIDING[rule](m)) for m in (M, 256))
    assert long["products"] == short["products"] > 0


@pytest.mark.parametrize("rule", ["mask", "mask, causal"])
def test_hidden_tiles_are_not_copied(rule):
    """Not even to float32."""
    long, short = (counted(ATTENTION["tiled"], arrays(m), **HIDING[rule](m)) for m in (M, 256))
    assert long["numbers"] == short["numbers"]


@pytest.mark.parametrize("rule", ["mask", "bias"])
@pytest.mark.parametrize("algorithm", ATTENTION)
def test_a_tile_ends_where_a_mask_or_bias_ends_it(algorithm, rule):
    """100 keys of a cache cost what 100 keys cost, though tiles have 256."""
    query, key, value = arrays(M)
    whole = counted(ATTENTION[algorithm], (query, key, value), **HIDING[rule](M))
    alone = counted(ATTENTION[algorithm], (query, key[:, :VISIBLE], value[:, :VISIBLE]))
    assert whole["of products"] == alone["of products"]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("algorithm", ATTENTION)
def test_a_mask_that_hides_nothing_in_a_tile_masks_nothing(algorithm, gradient):
    """Neither keys, values nor scores."""
    function, x = ATTENTION[algorithm], arrays(512, torch.float32)
    plain = counted(function, x, gradient)
    assert counted(function, x, gradient, mask=torch.ones(512, dtype=torch.bool)) == plain
    partial = counted(function, x, gradient, mask=torch.arange(512) != 300)
    assert partial["numbers"] > plain["numbers"], "the count sees what is masked"
