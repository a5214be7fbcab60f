"""Rotary positions, in PyTorch."""

import math
from typing import Any

from attnlab.arrays.torch import accumulator
from attnlab.rotation import frequencies
from attnlab.torch_operator import constant
from attnlab.typing import Float

import torch
from torch import Tensor as Array

__all__ = ["rotary"]


def rotary(x: Float[Array, "*rows N D"], positions: Any, base: float) -> Float[Array, "*rows N D"]:
    """See :func:`attnlab.rotary`."""
    positions = torch.arange(x.shape[-2]) if positions is None else torch.as_tensor(positions)
    angle = angles(positions.to(x.device), x.shape[-1], base, accumulator(x))
    cos, sin = angle.cos(), angle.sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def angles(positions: Array, size: int, base: float, dtype: torch.dtype) -> Float[Array, "*positions half"]:
    """position · frequency in radians, from −π to π."""
    turns = torch.tensor(signed(size, base), device=positions.device)
    wrapped = positions.long()[..., None] * turns  # modulo one turn, 2⁶⁴
    return wrapped.to(dtype) * (2 * math.pi / 2**64)


@constant
def signed(size: int, base: float) -> list[int]:
    """The frequencies, the same bits as signed integers. torch.compile could not follow decimal fractions."""
    return [word - 2**64 if word >= 2**63 else word for word in frequencies(size, base)]
