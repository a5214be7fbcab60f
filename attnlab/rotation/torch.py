"""Rotary positions, in PyTorch."""

import math
from typing import Any

from attnlab.core.arrays.torch import accumulator
from attnlab.core.shapes import Float
from attnlab.core.torch_operator import constant
from attnlab.rotation import frequencies
from attnlab.rotation.scaling import Kind, magnitude

import torch
from torch import Tensor as Array


def rotary(x: Float[Array, "*rows N D"], positions: Any, kind: Kind) -> Float[Array, "*rows N D"]:
    """See :func:`attnlab.rotary`."""
    n, device = x.shape[-2], x.device
    positions = torch.arange(n, device=device) if positions is None else torch.as_tensor(positions, device=device)
    angle, (_, factor) = angles(positions, kind, accumulator(x)), constants(*kind)
    cos, sin = (y if factor == 1 else factor * y for y in (angle.cos(), angle.sin()))
    turned, rest = x[..., : kind.size], x[..., kind.size :]
    a, b = (turned[..., ::2], turned[..., 1::2]) if kind.interleaved else turned.chunk(2, -1)
    pair = a * cos - b * sin, b * cos + a * sin
    turned = (torch.stack(pair, -1).flatten(-2) if kind.interleaved else torch.cat(pair, -1)).to(x.dtype)
    return torch.cat([turned, rest], -1) if kind.size < x.shape[-1] else turned


def angles(positions: Array, kind: Kind, dtype: torch.dtype) -> Float[Array, "*positions half"]:
    """position · frequency in radians, from −π to π."""
    turns = torch.tensor(constants(*kind)[0], device=positions.device)
    wrapped = positions.long()[..., None] * turns  # modulo one turn, 2⁶⁴
    return wrapped.to(dtype) * (2 * math.pi / 2**64)


@constant
def constants(*fields: Any) -> tuple[list[int], float]:
    """The frequencies of a ``Kind``, the same bits as signed integers, and its factor.

    torch.compile could not follow decimal fractions, nor hand over a named tuple.
    """
    kind = Kind(*fields)
    return [word - 2**64 if word >= 2**63 else word for word in frequencies(kind)], magnitude(kind)
