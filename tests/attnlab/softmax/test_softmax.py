"""Three softmaxes in three libraries, and where the unshifted formulas end."""

import numpy as np
import pytest

import attnlab
from tests.support.libraries import EPS, LIBRARIES, back, call, dtype, dtype_of, precision, to

SOFTMAXES = ("naive_softmax", "safe_softmax", "online_softmax")
KINDS = ("float16", "bfloat16", "float32", "float64")
INPUTS = {
    "a vector": lambda r: r.normal(size=7),
    "rows": lambda r: 3 * r.normal(size=(2, 3, 11)),
    "one element": lambda r: r.normal(size=(4, 1)),
    "no row": lambda r: r.normal(size=(0, 4)),
    "nothing to normalize": lambda r: r.normal(size=(3, 0)),
    "equal": lambda r: np.ones((2, 5)),
    "−∞ here and there": lambda r: np.where(r.random((4, 6)) < 0.4, -np.inf, r.normal(size=(4, 6))),
    "a row of −∞": lambda r: np.array([[-np.inf] * 3, [0, 1, 2]]),
    "−∞ first": lambda r: np.array([-np.inf, -np.inf, 1.0, 2.0]),
    "rising": lambda r: np.arange(10.0) / 2,
    "falling": lambda r: -np.arange(10.0) / 2,
}
LARGE = {
    "thousands": lambda r: r.integers(-30, 30, size=(3, 8)) * 100.0,
    "all −10⁴": lambda r: np.full((2, 4), -1e4),
    "rising by 100": lambda r: np.arange(10.0) * 100,
}


def softmax(x):
    """By definition, in float64."""
    e = np.exp(x - np.maximum(x.max(-1, keepdims=True, initial=-np.inf), -1e300))
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)


def check(name, library, x):
    """The softmax of x is right in the dtype of x."""
    with precision(library, x):
        p = getattr(attnlab, name)(to(library, x))
        assert dtype_of(p) == x.dtype.name
        wide = x.astype(np.float64)
        largest = np.abs(wide[np.isfinite(wide)]).max(initial=0)
        limit = EPS[x.dtype.name] * (8 + 2 * largest)
        np.testing.assert_allclose(back(p), softmax(wide), atol=limit, rtol=0)


@pytest.mark.thin(4)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmax(name, inputs, kind, library):
    check(name, library, INPUTS[inputs](np.random.default_rng(1)).astype(dtype(kind)))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", LARGE)
@pytest.mark.parametrize("name", ["safe_softmax", "online_softmax"])
def test_softmax_of_large_numbers(name, inputs, kind, library):
    check(name, library, LARGE[inputs](np.random.default_rng(1)).astype(dtype(kind)))


# Where e^x overflows: the largest finite number of each dtype

EDGE = {"float16": 11.1, "bfloat16": 88.7, "float32": 88.7, "float64": 709.8}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_naive_softmax_overflows_at_its_edge(kind, library):
    """Below the edge it is right; above, ∞/∞ = NaN; a sum that overflows alone, in its own dtype, gives 0."""
    below, above = 0.99 * EDGE[kind], 1.02 * EDGE[kind]
    below -= 1.0 if library == "jax" and kind == "float32" else 0  # XLA flushes 1 / l to 0 from l = e^87.3 on
    check("naive_softmax", library, np.array([below, below - 4], dtype(kind)))
    with precision(library, np.zeros(0, dtype(kind))):
        p = attnlab.naive_softmax(to(library, np.array([above, 0], dtype(kind))))
        assert np.isnan(back(p)[0])
        assert back(p)[1] == 0
        many = attnlab.naive_softmax(to(library, np.full(2000, below, dtype(kind))))
        held = kind == "float16"  # the sum is held in float32
        np.testing.assert_allclose(back(many), 1 / 2000 if held else 0, rtol=EPS[kind])


@pytest.mark.parametrize("library", LIBRARIES)
def test_naive_softmax_vanishes_far_below_zero(library):
    assert np.isnan(back(attnlab.naive_softmax(to(library, np.full(3, -110, np.float32))))).all()
    np.testing.assert_allclose(back(attnlab.naive_softmax(to(library, np.full(2, -80, np.float32)))), 0.5)


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("kind", "n"), [("float16", 65_520), ("bfloat16", 4096)])
@pytest.mark.parametrize("name", SOFTMAXES)
def test_a_long_row_of_equal_scores_in_half_precision(name, kind, n, library):
    """A sum in float16 overflows at 65,520, in bfloat16 it stops at 256; the weights are rounded once."""
    p = getattr(attnlab, name)(to(library, np.zeros(n, dtype(kind))))
    assert dtype_of(p) == kind
    np.testing.assert_array_equal(back(p), np.array(1 / n, dtype(kind)).astype(np.float64))


# naive and lazy attention in float32: right while Σ e^s neither overflows nor vanishes

UNSAFE = ("naive", "lazy")


def attend(library, algorithm, scores):
    """out and lse of one query whose scores are those, over values that rise from 1 / n to 1."""
    scores = np.asarray(scores, np.float32)
    value = np.arange(1.0, len(scores) + 1, dtype=np.float32)[:, None] / len(scores)
    x = (to(library, t) for t in (np.ones((1, 1), np.float32), scores[:, None], value))
    out, lse = call(library, algorithm, *x, scale=1.0)
    return float(back(out)[0, 0]), float(back(lse)[0])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("algorithm", UNSAFE)
def test_right_up_to_the_edges(algorithm, library):
    """XLA divides by multiplying with 1 / l, which it flushes to 0 from l = e^87.3 = 2¹²⁶ on."""
    for top in (87.2 if library == "jax" else 88.6) - np.log(3), -80.0:
        out, lse = attend(library, algorithm, [top, top, top])
        assert out == pytest.approx(2 / 3, rel=1e-5)
        assert lse == pytest.approx(top + np.log(3), rel=1e-5)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("algorithm", UNSAFE)
def test_what_the_bare_formula_gives_beyond(algorithm, library):
    out, lse = attend(library, algorithm, [89.0, 0.0])
    assert np.isnan(out)
    assert lse == np.inf
    out, lse = attend(library, algorithm, [88.0] * 4)  # each is finite, the sum is not; e^88 / ∞ = 0
    assert lse == np.inf
    assert out == 0 or algorithm == "lazy"
    out, lse = attend(library, algorithm, [-110.0, -120.0])
    assert np.isnan(out)
    assert lse == -np.inf


@pytest.mark.parametrize("algorithm", UNSAFE)
def test_numpy_reports_the_overflow(algorithm):
    with pytest.warns(RuntimeWarning, match="overflow"):
        attend("numpy", algorithm, [100.0, 0.0])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("algorithm", ["safe", "online", "chunked", "tiled"])
@pytest.mark.parametrize("scores", [[1e4, 1e4 - 1], [-1e4, -1e4 - 1], [3e38, 0], [-3e38, -3.1e38], [1e4, -1e4]])
def test_safe_algorithms_have_no_edges(algorithm, library, scores):
    exact = np.asarray(scores, np.float64)
    weight = np.exp(exact - exact.max())
    out, lse = attend(library, algorithm, scores)
    assert out == pytest.approx((weight @ [0.5, 1]) / weight.sum(), rel=1e-6)
    assert lse == pytest.approx(exact.max() + np.log(weight.sum()), rel=1e-6)
