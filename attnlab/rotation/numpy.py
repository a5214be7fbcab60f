"""Rotary positions, in NumPy."""

import math
from typing import Any

import numpy as np
from numpy import ndarray as Array

from attnlab.core.arrays.numpy import accumulator
from attnlab.core.shapes import Float
from attnlab.rotation import frequencies
from attnlab.rotation.scaling import Kind, magnitude


def rotary(x: Float[Array, "*rows N D"], positions: Any, kind: Kind) -> Float[Array, "*rows N D"]:
    """See :func:`attnlab.rotary`."""
    positions = np.arange(x.shape[-2]) if positions is None else np.asarray(positions)
    angle = angles(positions, kind, accumulator(x))
    cos, sin = (magnitude(kind) * y for y in (np.cos(angle), np.sin(angle)))
    turned, rest = x[..., : kind.size], x[..., kind.size :]
    a, b = (turned[..., ::2], turned[..., 1::2]) if kind.interleaved else np.split(turned, 2, -1)
    pair = a * cos - b * sin, b * cos + a * sin
    turned = np.stack(pair, -1).reshape(turned.shape) if kind.interleaved else np.concatenate(pair, -1)
    return np.concatenate([turned.astype(x.dtype), rest], -1)


def angles(positions: Array, kind: Kind, dtype: type) -> Float[Array, "*positions half"]:
    """position · frequency in radians, from −π to π."""
    turns = np.array(frequencies(kind), np.uint64)
    wrapped = positions.astype(np.int64)[..., None].view(np.uint64) * turns  # modulo one turn, which is 2⁶⁴
    return (wrapped.view(np.int64) * (2 * math.pi / 2**64)).astype(dtype)
