"""Quantized keys and values in JAX."""

from functools import partial
from typing import Any

from attnlab.cache.quantized import Quantized
from attnlab.core.arrays.jax import accumulator

import jax
import jax.numpy as jnp
from jax import Array

jax.tree_util.register_dataclass(Quantized, ["codes", "step", "low"], ["bits", "axis"])


@partial(jax.jit, static_argnums=(1, 2, 3))
def quantize(x: Array, bits: int, axis: int, group: int) -> tuple[Array, Array, Array]:
    """See :func:`attnlab.cache.quantize`: codes, step, low."""
    y = grouped(jax.lax.stop_gradient(x).astype(accumulator(x)), axis, group)
    lowest, highest = y.min(axis, keepdims=True), y.max(axis, keepdims=True)
    low = lowest.astype(jnp.float16)
    step = half_above((highest - low) / (2**bits - 1))
    step = jnp.where(step <= 0, 1, step)
    codes = jnp.clip(jnp.round((y - low) / step), 0, 2**bits - 1)
    codes = jnp.where(jnp.isnan(codes), 0, codes).astype(jnp.uint8)
    codes = codes.reshape((*x.shape[:-1], x.shape[-1] * bits // 8, 8 // bits))
    packed = (codes << jnp.arange(0, 8, bits, dtype=jnp.uint8)).sum(-1, dtype=jnp.uint8)
    return packed, step.squeeze(axis), low.squeeze(axis)


def half_above(x: Array) -> Array:
    """The least number of half precision that is not below x: rounded down, a step would leave the highest out."""
    near = x.astype(jnp.float16)
    return jnp.where(near < x, (near.view(jnp.int16) + 1).view(jnp.float16), near)


@partial(jax.jit, static_argnums=1)
def dequantize(q: Quantized, dtype: Any) -> Array:
    """See :func:`attnlab.cache.dequantize`."""
    codes = q.codes[..., None] >> jnp.arange(0, 8, q.bits, dtype=jnp.uint8) & jnp.uint8(2**q.bits - 1)
    codes = codes.reshape((*q.codes.shape[:-1], q.codes.shape[-1] * 8 // q.bits))
    y = grouped(codes, q.axis, codes.shape[q.axis] // max(q.step.shape[q.axis], 1))
    step, low = (jnp.expand_dims(z, q.axis).astype(jnp.float32) for z in (q.step, q.low))
    return (y * step + low).reshape(codes.shape).astype(jnp.float32 if dtype is None else dtype)


def grouped(x: Array, axis: int, group: int) -> Array:
    """x with ``axis`` cut into groups, which become that axis; their number stands before it."""
    at = x.ndim + axis
    return x.reshape((*x.shape[:at], x.shape[at] // max(group, 1), group, *x.shape[at + 1 :]))
