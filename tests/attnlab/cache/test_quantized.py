"""Keys and values in few bits: the bound holds, bytes are what is promised, and three libraries give the same codes."""

import jax
import numpy as np
import pytest
import torch

from attnlab.cache import Quantized, dequantize, quantize
from tests.support import refused
from tests.support.libraries import LIBRARIES, back, dtype, to

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("axis", [-1, -2])
def test_bytes_codes_and_errors(library, bits, axis):
    """Of numbers: bits and a share of a step and a low; of NumPy: codes; of a step: half."""
    x = (RNG.normal(size=(2, 3, 64, 32)) * np.exp(RNG.normal(size=32))).astype(np.float32)
    found, reference = quantize(to(library, x), bits, axis=axis, group=16), quantize(x, bits, axis=axis, group=16)
    assert found.nbytes == x.size * (bits + 32 / 16) / 8
    for one, other in ((found.codes, reference.codes), (found.step, reference.step)):
        np.testing.assert_array_equal(back(one), other)
    step, low = (np.repeat(back(y).astype(np.float64), 16, axis) for y in (found.step, found.low))
    off = np.abs(x - back(dequantize(found)))
    assert (off <= step / 2 + np.maximum(low - x, 0) + 1e-6 * np.abs(x).max()).all()


HALF = np.finfo(np.float16)
SIZES = [0, *(10.0**e for e in range(-30, 5)), *(float(x) * y for x in (HALF.tiny, HALF.smallest_subnormal) for y in (
    0.4, 0.5, 0.6, 1, 1.5, 3, 255, 400)), 9.95e-4, 9.95e-4 / 200, float(HALF.max)]  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_error_is_half_a_step_at_any_size(library, bits):
    """Of groups of any width, from anywhere: plus the rounding of low, and of float32."""
    starts = [sign * x for x in (0.0, *SIZES) for sign in (1, -1)]
    x = np.array([np.linspace(a, a + width, 32) for a in starts for width in SIZES])
    x = x[np.abs(x).max(-1) <= float(HALF.max)].astype(np.float32)
    found = quantize(to(library, x), bits, axis=-1, group=32)
    step, low = (back(y).astype(np.float64) for y in (found.step, found.low))
    lowest = x.min(-1, keepdims=True).astype(np.float64)
    assert (np.abs(low - lowest) <= np.maximum(np.abs(lowest) * 2.0**-11, float(HALF.smallest_subnormal) / 2)).all()
    wide = (x.max(-1, keepdims=True) - low) / (2**bits - 1)
    least = np.where(wide > 0, wide * (1 + 2.0**-9) + float(HALF.smallest_subnormal), 1)
    assert (step <= least).all()
    off = np.abs(back(dequantize(found)).astype(np.float64) - x)
    assert (off <= step / 2 + np.abs(low - lowest) + 2.0**-22 * np.abs(x).max(-1, keepdims=True)).all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_codes_in_order_come_back_exactly(library):
    """0 … 15 in order: exchanged nibbles would show."""
    x = np.tile(np.arange(16, dtype=np.float32), (2, 1))
    for bits, group in ((4, 16), (8, 16)):
        found = quantize(to(library, x * (17 if bits == 8 else 1)), bits, axis=-1, group=group)
        assert (back(dequantize(found)) == x * (17 if bits == 8 else 1)).all()
    codes = back(quantize(to(library, x), 4, axis=-1, group=16).codes)
    assert bytes(codes[0]).hex() == "1032547698badcfe"


@pytest.mark.parametrize("library", LIBRARIES)
def test_equal_numbers_are_exact_and_nan_stays_in_its_group(library):
    x = np.full((4, 8), 2.5, np.float32)
    assert (back(dequantize(quantize(to(library, x), 2, axis=-2, group=4))) == 2.5).all()
    x[1, 3] = np.nan
    found = np.isnan(back(dequantize(quantize(to(library, x), 4, axis=-1, group=4))))
    assert found[1, :4].all()
    assert found.sum() == 4
    for axis in (-1, -2):
        nothing = dequantize(quantize(to(library, np.zeros((3, 0, 8), np.float32)), 4, axis=axis, group=4))
        assert tuple(nothing.shape) == (3, 0, 8)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_dtypes(library, name):
    kind = getattr(torch, name) if library == "torch" else dtype(name)
    x = to(library, np.ones((8, 8), np.float32))
    assert str(dequantize(quantize(x, 4, axis=-1, group=4), kind).dtype).endswith(name)


def test_a_pytree_in_jax():
    found = jax.jit(lambda x: quantize(x, 4, axis=-1, group=8))(jax.numpy.ones((4, 8)))
    assert isinstance(found, Quantized)
    assert (found.bits, found.axis, len(jax.tree.leaves(found))) == (4, -1, 3)
    assert (jax.jit(dequantize)(found) == 1).all()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("change", "error", "words"), [
    ({"bits": 3}, ValueError, "bits is 3; it must be one of 2, 4, 8"), ({"bits": 4.0}, TypeError, "bits is 4.0"),
    ({"axis": 0}, ValueError, "axis is 0; it must be -2"), ({"group": 5}, ValueError, "no multiple of group = 5"),
    ({"x": np.ones((4, 7), np.float32), "group": 7}, ValueError, "x has size 7, which is no multiple of the 2 numbers"),
    ({"x": np.ones(8, np.float32)}, ValueError, r"x has shape \(8,\); it needs at least 2 axes"),
    ({"x": np.ones((4, 8), int)}, TypeError, "x has dtype int"),
])  # fmt: skip
def test_errors(library, change, error, words):
    given = {"x": np.ones((4, 8), np.float32), "bits": 4, "axis": -1, "group": 4, **change}
    refused(error, words, quantize, to(library, given.pop("x")), given.pop("bits"), **given)
    refused(TypeError, "it must come from", dequantize, np.ones(3))
