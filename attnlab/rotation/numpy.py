"""Rotary positions, in NumPy."""

import math
from typing import Any

import numpy as np
from numpy import ndarray as Array

from attnlab.arrays.numpy import accumulator
from attnlab.rotation import frequencies
from attnlab.typing import Float

__all__ = ["rotary"]


def rotary(x: Float[Array, "*rows N D"], positions: Any, base: float) -> Float[Array, "*rows N D"]:
    """See :func:`attnlab.rotary`."""
    positions = np.arange(x.shape[-2]) if positions is None else np.asarray(positions)
    angle = angles(positions, x.shape[-1], base, accumulator(x))
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def angles(positions: Array, size: int, base: float, dtype: type) -> Float[Array, "*positions half"]:
    """position · frequency in radians, from −π to π."""
    turns = np.array(frequencies(size, base), np.uint64)
    wrapped = positions.astype(np.int64)[..., None].view(np.uint64) * turns  # modulo one turn, which is 2⁶⁴
    return (wrapped.view(np.int64) * (2 * math.pi / 2**64)).astype(dtype)
