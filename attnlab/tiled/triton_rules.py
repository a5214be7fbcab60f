"""Which calls the Triton kernels take over on a GPU, and in which tiles. To ask needs no Triton."""

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from attnlab.call import Inputs, Rules, Sizes
from attnlab.tiled.kernel_rules import padded, refusal, tile


def serves(query: Any, value: Any, bias: Any, block_q: int | None, block_k: int | None) -> bool:
    """Whether a PyTorch call goes to the kernel; any mask and any rules will do."""
    return query.is_cuda and installed() and refusal(query, value, bias, block_q, block_k) is None


@functools.cache
def installed() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None


def kernel_on_gpu(core: Callable) -> Callable:
    """Decorator of the plain core: on a GPU the kernel takes its place, gradient included, where it serves the call."""

    @functools.wraps(core)
    def function(rules: Rules, sizes: Sizes, x: Inputs) -> Any:
        on_gpu = serves(x.query, x.value, x.bias, *sizes)
        attend = importlib.import_module("attnlab.tiled.triton").kernel if on_gpu else core
        return attend(rules, sizes, x)

    return function


def tiles(
    query: Any, value: Any, mask: Any, rules: Rules, block_q: int | None, block_k: int | None, rows: int
) -> dict[str, int]:
    """Sizes of a kernel: ``rows`` queries by 64 keys where registers and 96 KiB of shared memory hold them.

    Heads beyond 128 and float32 halve both; a mask and dropout, which need registers of their own, halve the rows.
    A tile is no longer than its array needs, and divides the block that the caller gave.
    """
    head = max(query.shape[-1], value.shape[-1])
    shrink = (2 if head > 128 else 1) * (2 if query.dtype.itemsize == 4 else 1)
    rows //= 1 if mask is None and rules.dropout == 0 else 2
    return {
        "BLOCK_Q": tile(rows // shrink, rules.band.n, block_q),
        "BLOCK_K": tile(64 // shrink, rules.band.m, block_k),
        "D": padded(query.shape[-1]),
        "DV": padded(value.shape[-1]),
        "num_warps": 4 if head <= 64 else 8,
        "num_stages": 2,  # one tile of keys is on its way while the last one is worked on
    }
