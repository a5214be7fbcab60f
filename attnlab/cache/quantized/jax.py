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
    low = y.min(axis, keepdims=True).astype(jnp.float16)
    from_low = y - low.astype(y.dtype)
    step = half_above(from_low.max(axis, keepdims=True) / (2**bits - 1))
    step = jnp.where(step <= 0, 1, step)
    codes = jnp.clip(jnp.round(from_low / step.astype(y.dtype)), 0, 2**bits - 1)
    codes = jnp.where(jnp.isnan(codes), 0, codes).astype(jnp.uint8)
    codes = codes.reshape((*x.shape[:-1], x.shape[-1] * bits // 8, 8 // bits))
    packed = (codes << shifts(bits, codes.ndim)).sum(-1, dtype=jnp.uint8)
    return packed, step.squeeze(axis), low.squeeze(axis)


def half_above(x: Array) -> Array:
    """The least number of half precision that is not below x: rounded down, a step would leave the highest out."""
    near = x.astype(jnp.float16)
    return jnp.where(near.astype(x.dtype) < x, (near.view(jnp.int16) + 1).view(jnp.float16), near)


@partial(jax.jit, static_argnums=1)
def dequantize(q: Quantized, dtype: Any) -> Array:
    """See :func:`attnlab.cache.dequantize`."""
    codes = q.codes[..., None] >> shifts(q.bits, q.codes.ndim + 1) & jnp.uint8(2**q.bits - 1)
    codes = codes.reshape((*q.codes.shape[:-1], q.codes.shape[-1] * 8 // q.bits))
    y = grouped(codes, q.axis, codes.shape[q.axis] // max(q.step.shape[q.axis], 1))
    step, low = (jnp.expand_dims(z, q.axis).astype(jnp.float32) for z in (q.step, q.low))
    return (y.astype(jnp.float32) * step + low).reshape(codes.shape).astype(jnp.float32 if dtype is None else dtype)


def shifts(bits: int, axes: int) -> Array:
    """Where each number of a byte begins: on the last of so many axes."""
    return jnp.arange(0, 8, bits, dtype=jnp.uint8).reshape((*[1] * (axes - 1), -1))


def grouped(x: Array, axis: int, group: int) -> Array:
    """x with ``axis`` cut into groups, which become that axis; their number stands before it."""
    at = x.ndim + axis
    return x.reshape((*x.shape[:at], x.shape[at] // max(group, 1), group, *x.shape[at + 1 :]))
