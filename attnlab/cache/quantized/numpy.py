"""Quantized keys and values in NumPy."""

from typing import Any

from attnlab.cache.quantized import Quantized
from attnlab.core.arrays.numpy import accumulator, quiet

import numpy as np
from numpy import ndarray as Array


@quiet
def quantize(x: Array, bits: int, axis: int, group: int) -> tuple[Array, Array, Array]:
    """See :func:`attnlab.cache.quantize`: codes, step, low."""
    y = grouped(x.astype(accumulator(x), copy=False), axis, group)
    lowest, highest = y.min(axis, keepdims=True), y.max(axis, keepdims=True)
    low = lowest.astype(np.float16)
    step = half_above((highest - low) / (2**bits - 1))
    step = np.where(step <= 0, np.float16(1), step)
    codes = np.clip(np.round((y - low) / step), 0, 2**bits - 1)
    codes = np.where(np.isnan(codes), 0, codes).astype(np.uint8)
    codes = codes.reshape((*x.shape[:-1], x.shape[-1] * bits // 8, 8 // bits))
    packed = np.bitwise_or.reduce(codes << np.arange(0, 8, bits, dtype=np.uint8), -1)
    return packed, step.squeeze(axis), low.squeeze(axis)


def half_above(x: Array) -> Array:
    """The least number of half precision that is not below x: rounded down, a step would leave the highest out."""
    near = x.astype(np.float16)
    return np.where(near < x, (near.view(np.int16) + np.int16(1)).view(np.float16), near)


def dequantize(q: Quantized, dtype: Any) -> Array:
    """See :func:`attnlab.cache.dequantize`."""
    codes = q.codes[..., None] >> np.arange(0, 8, q.bits, dtype=np.uint8) & np.uint8(2**q.bits - 1)
    codes = codes.reshape((*q.codes.shape[:-1], q.codes.shape[-1] * 8 // q.bits))
    y = grouped(codes, q.axis, codes.shape[q.axis] // max(q.step.shape[q.axis], 1))
    step, low = (np.expand_dims(z, q.axis).astype(np.float32) for z in (q.step, q.low))
    return (y * step + low).reshape(codes.shape).astype(np.float32 if dtype is None else dtype)


def grouped(x: Array, axis: int, group: int) -> Array:
    """x with ``axis`` cut into groups, which become that axis; their number stands before it."""
    at = x.ndim + axis
    return x.reshape((*x.shape[:at], x.shape[at] // max(group, 1), group, *x.shape[at + 1 :]))
