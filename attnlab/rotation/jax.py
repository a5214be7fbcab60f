"""Rotary positions, in JAX, which has no 64-bit integers by default: a turn is counted in 2³² parts."""

import math
from functools import partial
from typing import Any

from attnlab.core.arrays.jax import accumulator
from attnlab.core.shapes import Float, Int32, UInt32
from attnlab.rotation import frequencies
from attnlab.rotation.scaling import Kind, magnitude

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def rotary(x: Float[Array, "*rows N D"], positions: Any, kind: Kind) -> Float[Array, "*rows N D"]:
    """See :func:`attnlab.rotary`."""
    positions = jnp.arange(x.shape[-2]) if positions is None else jnp.asarray(positions)
    return _rotary(x, positions.astype(jnp.int32), kind)


@partial(jax.jit, static_argnames="kind")
def _rotary(x: Float[Array, "*rows N D"], positions: Int32[Array, "..."], kind: Kind) -> Float[Array, "*rows N D"]:
    positions = positions.reshape((*[1] * (x.ndim - 1 - positions.ndim), *positions.shape))
    angle = angles(positions, kind, accumulator(x))
    cos, sin = (magnitude(kind) * y for y in (jnp.cos(angle), jnp.sin(angle)))
    turned, rest = x[..., : kind.size].astype(angle.dtype), x[..., kind.size :]
    a, b = (turned[..., ::2], turned[..., 1::2]) if kind.interleaved else jnp.split(turned, 2, -1)
    pair = a * cos - b * sin, b * cos + a * sin
    turned = jnp.stack(pair, -1).reshape(turned.shape) if kind.interleaved else jnp.concatenate(pair, -1)
    return jnp.concatenate([turned.astype(x.dtype), rest], -1)


def angles(positions: Int32[Array, "*positions"], kind: Kind, dtype: type) -> Float[Array, "*positions half"]:
    """position · frequency in radians, from −π to π."""
    words = np.array(frequencies(kind), np.uint64).reshape((*[1] * positions.ndim, -1))
    if dtype == jnp.float64:  # 64-bit numbers are allowed
        wrapped = positions.astype(jnp.int64)[..., None].astype(jnp.uint64) * words  # modulo one turn, 2⁶⁴
        return wrapped.astype(jnp.int64).astype(dtype) * (2 * math.pi / 2**64)
    high, low = (words >> 32).astype(np.uint32), words.astype(np.uint32)
    p = positions.astype(jnp.uint32)[..., None]
    carry = product_high(p, low) - jnp.where(positions[..., None] < 0, low, 0)  # p − 2³² was meant where p is negative
    wrapped = p * high + carry  # modulo one turn, 2³²
    return wrapped.astype(jnp.int32).astype(dtype) * (2 * math.pi / 2**32)


def product_high(a: UInt32[Array, "*a"], b: UInt32[np.ndarray, "*b"]) -> UInt32[Array, "..."]:
    """The upper 32 of the 64 bits of a · b, by schoolbook multiplication of halves."""
    a_high, a_low, b_high, b_low = a >> 16, a & 0xFFFF, b >> 16, b & 0xFFFF
    middle = a_high * b_low + (a_low * b_low >> 16)
    return a_high * b_high + (middle >> 16) + (a_low * b_high + (middle & 0xFFFF) >> 16)
