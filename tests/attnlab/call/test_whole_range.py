"""One function in three libraries, over the whole range of its inputs: values and slopes beside 50 digits."""

import importlib
from decimal import Decimal, localcontext

import jax
import numpy as np
import pytest
import torch

from attnlab import merge, online_softmax, safe_softmax
from tests.support.libraries import EPS, LIBRARIES, back, precision, to

SIZES = [0.0, *(m * 10.0**e for e in range(-30, 31) for m in (1, 3)), *np.arange(1.0, 110.0)]
RANGE = np.array(sorted({s * x for x in SIZES for s in (-1, 1)}))
ONE, HALF = Decimal(1), Decimal("0.5")
MAPS = {  # the features of one number and their slopes
    "elu": lambda x, e: ([x + 1 if x > 0 else e(x)], [ONE if x > 0 else e(x)]),
    "relu": lambda x, e: ([max(x, Decimal(0))], [ONE if x > 0 else 0]),
    "taylor": lambda x, e: ([ONE, x, HALF.sqrt() * x * x], [0, ONE, 2 * HALF.sqrt() * x]),
    "exp": lambda x, e: ([e(x)], [e(x)]),
    "hedgehog": lambda x, e: ([e(x), e(-x)], [e(x), -e(-x)]),
}


def power(x):
    """e^x; what no float64 holds is 0 or infinite."""
    return Decimal(0) if x < -800 else Decimal("inf") if x > 800 else x.exp()


def slopes(library, phi, x):
    """The derivative of each feature, which depends on its own number alone."""
    if library == "jax":
        return jax.jvp(phi, (x,), (jax.numpy.ones_like(x),))[1]
    x = x.requires_grad_()
    return torch.cat([torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for y in phi(x).split(1, -1)], -1)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", MAPS)
def test_maps_of_features(library, kind, name):
    module = importlib.import_module(f"attnlab.linear.{library}")
    phi = module.both_signs if name == "hedgehog" else module.FEATURES[name]
    x, info = RANGE.astype(kind)[:, None], np.finfo(kind)
    with localcontext(prec=50):
        expected = [np.array([[float(y) for y in MAPS[name](Decimal(float(z)), power)[which]] for z in x[:, 0]])
                    for which in (0, 1)]  # fmt: skip
    with np.errstate(over="ignore"), precision(library, x):
        finite = np.isfinite(expected[0].astype(kind)).all(-1)
        found = [phi(to(library, x))] + ([slopes(library, phi, to(library, x))] if library != "numpy" else [])
        for y, right in zip(found, expected):  # some libraries flush what is below the smallest normal number to 0
            np.testing.assert_allclose(back(y)[finite], right.astype(kind)[finite], rtol=100 * info.eps, atol=info.tiny)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("softmax", [safe_softmax, online_softmax])
def test_softmax_and_merge_of_two(library, softmax):
    """Of (x, 0): a weight of 1 / (1 + e^−x) each, and the logarithm of the sum."""
    x = np.stack([RANGE, np.zeros_like(RANGE)], -1)
    with localcontext(prec=50):
        right = np.array([[float(1 / (1 + power(-sign * Decimal(z)))) for sign in (1, -1)] for z in RANGE.tolist()])
        lse = [float(max(Decimal(z), 0) + (1 + power(-abs(Decimal(z)))).ln()) for z in RANGE.tolist()]
    with precision(library, x):
        np.testing.assert_allclose(back(softmax(to(library, x))), right, rtol=100 * EPS["float64"], atol=1e-300)
        parts = [(to(library, y), to(library, z)) for y, z in zip(np.eye(2)[:, None].repeat(len(x), 1), x.T)]
        out, total = merge(*parts)
        np.testing.assert_allclose(back(out), right, rtol=100 * EPS["float64"], atol=1e-300)
        np.testing.assert_allclose(back(total), lse, rtol=100 * EPS["float64"], atol=EPS["float64"])
