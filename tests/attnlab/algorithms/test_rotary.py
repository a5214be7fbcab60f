"""Rotary positions: accurate at every 32-bit position, a function of distance alone, the same in three libraries."""

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from attnlab import rotary
from tests.support import refused
from tests.support.libraries import LIBRARIES, back, precision
from tests.support.libraries import dtype as numpy_dtype
from tests.support.libraries import to as convert

POSITIONS = [0, 1, 2, 1000, 2**15 + 1, 2**20 - 3, 2**24 + 1, 2**31 - 1, -1, -(2**20) - 7, -(2**31)]
PI = Decimal("3.1415926535897932384626433832795028841971693993751")


def oracle(x, positions, base=10000.0):
    """By complex numbers, with angles in 60 decimal digits."""
    half = x.shape[-1] // 2
    with localcontext(prec=60):
        frequency = [Decimal(base) ** (Decimal(-2 * k) / (2 * half)) for k in range(half)]
        angle = [[float(Decimal(int(p)) * f % (2 * PI)) for f in frequency] for p in positions]
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * np.array(angle))
    return np.concatenate([turned.real, turned.imag], -1)


def to(library, x, dtype):
    """A NumPy array as an array of the library, of this dtype."""
    return convert(library, np.asarray(x).astype(numpy_dtype(dtype)))


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(2, 3, len(POSITIONS), 16))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_accurate_at_every_position(library, dtype, x):
    with precision(library, x.astype(numpy_dtype(dtype))):
        given = to(library, x, dtype)
        found = rotary(given, to(library, POSITIONS, "int32"))
    assert found.dtype == given.dtype
    expected = oracle(np.asarray(back(given), np.float64), POSITIONS)
    limit = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 1e-9}[dtype]
    assert np.abs(back(found) - expected).max() <= limit * np.abs(x).max()


@pytest.mark.parametrize("library", LIBRARIES)
def test_products_depend_on_distances_alone(library):
    q, k = np.random.default_rng(1).normal(size=(2, 2, 5, 8)).astype("float32")
    ids = np.arange(5)

    def products(shift):
        turned = [back(rotary(to(library, a, "float32"), to(library, ids + shift, "int32"))) for a in (q, k)]
        return turned[0] @ turned[1].swapaxes(-1, -2)

    for shift in (1, 12345, 2**30):
        np.testing.assert_allclose(products(shift), products(0), atol=2e-5)
    assert np.abs(products(0) - q @ k.swapaxes(-1, -2)).max() > 0.1


@pytest.mark.parametrize("library", LIBRARIES)
def test_positions_default_to_the_first_and_broadcast(library, x):
    given = to(library, x, "float32")
    n = x.shape[-2]
    same = [None, to(library, np.arange(n), "int32"), to(library, np.arange(n)[None, None], "int32")]
    for positions in same:
        np.testing.assert_allclose(back(rotary(given, positions)), oracle(x, range(n)), atol=1e-5)
    batch = np.stack([np.arange(n), np.arange(n) + 7])[:, None]
    found = back(rotary(given, to(library, batch, "int32")))
    np.testing.assert_allclose(found[1], oracle(x[1], range(7, n + 7)), atol=1e-5)
    np.testing.assert_allclose(back(rotary(given, 3)), oracle(x, [3] * n), atol=1e-5)
    np.testing.assert_allclose(back(rotary(given, base=100.0)), oracle(x, range(n), 100.0), atol=1e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors_name_the_argument(library):
    x = to(library, np.zeros((2, 3, 5, 8)), "float32")
    refused(ValueError, "D even", rotary, to(library, np.zeros((5, 7)), "float32"))
    refused(ValueError, r"x has shape \(8,\)", rotary, to(library, np.zeros(8), "float32"))
    refused(ValueError, r"one axis or 3: for a batch \(B, 1, N\)", rotary, x, to(library, np.zeros((2, 5)), "int32"))
    refused(ValueError, "does not broadcast", rotary, x, to(library, np.zeros(4), "int32"))
    refused(TypeError, "positions are integers", rotary, x, to(library, np.zeros(5), "float32"))
    refused(TypeError, r"positions is 1\.5", rotary, x, 1.5)
    refused(ValueError, "base is -1", rotary, x, base=-1.0)
    refused(TypeError, "x is of type list", rotary, [1.0])


def test_traced_positions_compile_once():
    traces = []

    @jax.jit
    def turn(x, start):
        traces.append(start)
        return rotary(x, start + jnp.arange(3))

    x = jnp.ones((3, 4))
    for start in (0, 5, 2**30):
        np.testing.assert_allclose(turn(x, start), oracle(np.ones((3, 4)), range(start, start + 3)), atol=2e-6)
    assert len(traces) == 1


def test_gradients():
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rotary(x, torch.tensor([5, 9, 2**20])), x)
    y = jnp.asarray(x.detach().numpy(), jnp.float32)
    turned_back = jax.vjp(lambda y: rotary(y, jnp.array([5, 9, 2**20])), y)[1](rotary(y, jnp.array([5, 9, 2**20])))[0]
    np.testing.assert_allclose(turned_back, y, atol=1e-6)  # a rotation's transpose is its inverse
