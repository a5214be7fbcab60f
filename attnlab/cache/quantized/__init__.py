"""Keys and values in few bits: groups of numbers share a step and a lowest value.

    code = round((x − low) / step) in 0 … 2^bits − 1,   x̂ = low + step · code

A group is ``group`` tokens of one channel (axis −2, for keys, whose outliers sit in channels) or ``group`` channels of
one token (axis −1, for values). Step and low are kept in half precision, the step rounded up, and the codes are
computed with the kept ones: |x − x̂| ≤ step / 2 plus the rounding of low, at any size; the least step is 6e-8. A number
takes bits + 32 / group bits.
Source: Liu et al. 2024, "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache".
"""

from dataclasses import dataclass
from typing import Any

from attnlab.core.arguments import check_choice, check_float, integer, kind_of
from attnlab.core.dispatch import backend

__all__ = ["Quantized", "dequantize", "quantize"]

BITS = (2, 4, 8)


@dataclass
class Quantized:
    """An array in few bits, made by :func:`quantize`: a pytree in JAX, with ``bits`` and ``axis`` static.

    ``codes``: (..., N, D · bits / 8) uint8, neighboring channels in one byte, the first one in its lowest bits.
    ``step`` and ``low``: float16, (..., N / group, D) for axis −2, (..., N, D / group) for axis −1.
    """

    codes: Any
    step: Any
    low: Any
    bits: int
    axis: int

    @property
    def nbytes(self) -> int:
        """Bytes of codes, steps and lowest values."""
        return self.codes.nbytes + self.step.nbytes + self.low.nbytes


def quantize(x: Any, bits: int, *, axis: int, group: int = 32) -> Quantized:
    """``x`` (..., N, D) in 2, 4 or 8 bits per number; ``axis`` −2: groups of tokens, −1: groups of channels.

    Halves are rounded to even. A group of equal numbers that half precision holds has step 1 and is exact; a NaN makes
    its group NaN. Numbers must be within half precision's range, ±65,504. No gradient. Raises TypeError or ValueError,
    naming the argument: N or D must be a multiple of ``group``, D also of the numbers in a byte.
    """
    module = backend("x", x, __name__)
    check_float("x", x)
    check_choice("bits", integer("bits", bits), BITS)
    if integer("axis", axis) not in (-1, -2):
        raise ValueError(f"axis is {axis}; it must be -2 (groups of tokens) or -1 (groups of channels)")
    if x.ndim < 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; it needs at least 2 axes, (..., N, D)")
    if x.shape[axis] % integer("group", group, 1):
        raise ValueError(f"x has length {x.shape[axis]} in axis {axis}, which is no multiple of group = {group}")
    if x.shape[-1] % (8 // bits):
        raise ValueError(f"x has size {x.shape[-1]}, which is no multiple of the {8 // bits} numbers in a byte")
    return Quantized(*module.quantize(x, bits, axis, group), bits, axis)


def dequantize(quantized: Quantized, dtype: Any = None) -> Any:
    """The numbers (..., N, D) that the codes stand for, in ``dtype`` of the same library, float32 by default."""
    if not isinstance(quantized, Quantized) or kind_of(quantized.codes) is None:
        raise TypeError(f"quantized is of type {type(quantized).__name__}; it must come from attnlab.cache.quantize")
    return backend("codes", quantized.codes, __name__).dequantize(quantized, dtype)
