"""The exchange of heads for tokens on torch.distributed: an all-to-all whose gradient is the one that takes back."""

from functools import partial
from typing import Any

from attnlab.core.arrays.torch import Array
from attnlab.ring.heads import HEADS, check_heads

import torch
import torch.distributed as dist
from torch.autograd import Function


class Exchange(Function):
    """x (..., X, ...) with axis ``cut`` in parts, one a rank, and what arrives joined along ``join``."""

    @staticmethod
    def forward(ctx: Any, x: Array, cut: int, join: int, group: Any) -> Array:
        ctx.back = join, cut, group
        parts = torch.stack(x.chunk(dist.get_world_size(group), cut))
        arrived = torch.empty_like(parts)
        dist.all_to_all_single(arrived, parts, group=group)
        return torch.cat(list(arrived), join)

    @staticmethod
    def backward(ctx: Any, dx: Array) -> tuple:
        return Exchange.apply(dx, *ctx.back), None, None, None


def exchange(group: Any = None) -> partial:
    """The exchange that attnlab.ring.heads.by_heads takes, in a process group, None for the default one."""
    return partial(_exchange, group=group)


def _exchange(x: Array, cut: int, join: int, group: Any) -> Array:
    if cut == HEADS:
        check_heads(x.shape[HEADS], dist.get_world_size(group))
    return Exchange.apply(x, cut, join, group)
