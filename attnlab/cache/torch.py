"""Caches in PyTorch: the steps are those of in_place.py."""

from typing import Any

from attnlab.cache.checks import check_known_rows
from attnlab.cache.in_place import InPlace, cut_to, values_of_latent
from attnlab.core.arrays import torch as arrays
from attnlab.softmax.torch import merge
from attnlab.tiled.torch import tiled_attention

import torch
from torch import Tensor as Array

__all__ = ["cut_to", "empty_slots", "extend", "positions", "roll", "select_rows", "values_of_latent"]

STEPS = InPlace(
    lambda count, like: torch.arange(count, device=like.device), Array.to, lambda parts: torch.stack(list(parts)),
    torch.where, arrays, merge, tiled_attention.core,
)  # fmt: skip
extend, roll, positions = torch.no_grad()(STEPS.extend), torch.no_grad()(STEPS.roll), STEPS.positions


def empty_slots(like: Array, dtype: str, keys: tuple[int, ...], values: tuple[int, ...]) -> tuple[Array, Array, int]:
    """Empty slots of these shapes, and the length 0."""
    kind = getattr(torch, dtype)
    return like.new_zeros(keys, dtype=kind), like.new_zeros(values, dtype=kind), 0


@torch.no_grad()
def select_rows(x: Array, rows: Any) -> Array:
    """Rows of the first axis, copied."""
    check_known_rows(rows.tolist(), len(x))
    return x.index_select(0, torch.as_tensor(rows, device=x.device).long())
