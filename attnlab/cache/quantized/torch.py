"""Quantized keys and values in PyTorch."""

from typing import Any

from attnlab.cache.quantized import Quantized
from attnlab.core.arrays.torch import accumulator

import torch
from torch import Tensor as Array


@torch.no_grad()
def quantize(x: Array, bits: int, axis: int, group: int) -> tuple[Array, Array, Array]:
    """See :func:`attnlab.cache.quantize`: codes, step, low."""
    y = x.to(accumulator(x)).unflatten(axis, (x.shape[axis] // group, group))
    lowest, highest = y.amin(axis, keepdim=True), y.amax(axis, keepdim=True)
    low = lowest.half()
    step = half_above((highest - low) / (2**bits - 1))
    step = torch.where(step <= 0, 1, step)
    codes = ((y - low) / step).round().clamp(0, 2**bits - 1).nan_to_num(0).to(torch.uint8).reshape(x.shape)
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=x.device)
    packed = (codes.unflatten(-1, (x.shape[-1] * bits // 8, 8 // bits)) << shifts).sum(-1, dtype=torch.uint8)
    return packed, step.squeeze(axis), low.squeeze(axis)


def half_above(x: Array) -> Array:
    """The least number of half precision that is not below x: rounded down, a step would leave the highest out."""
    near = x.half()
    return torch.where(near < x, (near.view(torch.int16) + 1).view(torch.half), near)


def dequantize(q: Quantized, dtype: Any) -> Array:
    """See :func:`attnlab.cache.dequantize`."""
    shifts = torch.arange(0, 8, q.bits, dtype=torch.uint8, device=q.codes.device)
    codes = (q.codes[..., None] >> shifts & 2**q.bits - 1).flatten(-2)
    groups = q.step.shape[q.axis]
    y = codes.unflatten(q.axis, (groups, codes.shape[q.axis] // max(groups, 1)))
    step, low = (z.unsqueeze(q.axis).float() for z in (q.step, q.low))
    return (y * step + low).reshape(codes.shape).to(torch.float32 if dtype is None else dtype)
