"""Where a function has a kink and real inputs hit it, its derivative is right, whatever a library takes it to be.

``KINKS`` lists every such place of what computes attention: a new clamp, maximum, relu, round, or where on a value that
carries a gradient belongs there. In dropout, rotation, ring and arrays, conditions come from positions and masks alone,
and no maximum carries a gradient. NumPy differentiates nothing: its one gradient, tiled attention's, is written out.
"""

import contextlib
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import attnlab
from attnlab.core.scores import Visible
from tests.support import oracle
from tests.support.libraries import ALGORITHMS, back, gradients, precision, to

INF, LARGEST = np.inf, float(np.finfo(np.float32).max)


@contextlib.contextmanager
def flat_at_a_bound():
    """PyTorch's clamp has the derivative 0 at a bound, as from 2.14 on; until 2.13 it is 1."""

    def flat(clamp):
        def of(x, *bounds, **named):
            found = clamp(x, *bounds, **named)
            for bound in (*bounds, *named.values()):
                found = found if bound is None else torch.where(x == bound, found.detach(), found)
            return found

        return of

    with pytest.MonkeyPatch.context() as patch:
        for place in (torch, torch.Tensor):
            for name in ("clamp", "clamp_min", "clamp_max", "clip"):
                patch.setattr(place, name, flat(getattr(place, name)))
        yield


CONVENTIONS = {"as installed": contextlib.nullcontext, "flat at a bound": flat_at_a_bound}
LIBRARIES = pytest.mark.parametrize(
    ("library", "convention"), [("jax", "as installed"), *(("torch", name) for name in CONVENTIONS)]
)


def test_clamp_is_flat_at_a_bound_under_the_other_convention():
    with flat_at_a_bound():
        x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
        assert torch.autograd.grad(x.clamp_min(1).sum(), x)[0].tolist() == [0, 0, 1]
        assert torch.autograd.grad(torch.clamp(x, min=0, max=2).sum(), x)[0].tolist() == [0, 1, 0]


# A function of ours, its module and x: what x is, its derivative there, and why that is right


def merged_lse(softmax, x):
    """lse of two parts, by that of the first."""
    parts = [(0 * x[..., None], x), (0 * x[..., None], 0 * x)]
    return softmax.merge(*parts, double=True)[1]


SCORES = "core.scores"


def e_to_a_score(scores, x):
    """e^s of a query and keys of 0 with the bias x, for keys of which the second half is hidden."""
    q, k = (to_like(x, np.zeros(shape)) for shape in ((1, 1, 1, 1), (1, 4, 1)))
    s = scores.scores(q, k, x[None, None, None], Visible(to_like(x, [[[[1, 1, 0, 0]]]]) > 0))
    return s.exp() if isinstance(x, torch.Tensor) else jnp.exp(s)


def coded(cache, x):
    """x in 2 bits and back; PyTorch hands out no gradient at all."""
    return 0 * x + attnlab.cache.dequantize(attnlab.cache.quantize(x[None], bits=2, axis=-1, group=4))[0]


KINKS = {
    "one weight sums to 1, a sum like any other": ("softmax", lambda m, x: m.one_if_empty(x), [1.0, 2.0], [1, 1]),
    "nothing seen: 1 in the place of the sum is a constant": ("softmax", lambda m, x: m.one_if_empty(x), [0.0], [0]),
    "nothing seen: 0 in the place of −∞ is a constant": ("softmax", lambda m, x: m.zero_if_empty(x), [-INF], [0]),
    "a maximum of 0 is one like any other": ("softmax", lambda m, x: m.zero_if_empty(x), [0.0, 1.0], [1, 1]),
    "of two equal maxima either may be the shift, which cancels": ("softmax", merged_lse, [0.0], [0.5]),
    "what an empty part holds is nothing": (
        "softmax", lambda m, x: m.part(x[:, None], to_like(x, [-INF, -INF, 0.0]), x.dtype)[2], [0.0, 5.0, 0.0],
        [0, 0, 1]),
    "a key that nobody sees": (
        SCORES, lambda m, x: m.zero_unless(to_like(x, [[1, 0]]) > 0, x[None, :, None]), [0.0, 0.0], [1, 0]),
    "a query that sees nothing": (
        SCORES, lambda m, x: m.zero_unless(to_like(x, [[[1, 0]]]) > 0, x[None, None, :, None]), [0.0, 0.0], [1, 0]),
    "a hidden score weighs 0, be it −∞ itself": (
        SCORES, e_to_a_score, [0.0, -INF, 0.0, -INF], [1, 0, 0, 0]),
    "the largest bias of float32 is a bias": (
        SCORES, lambda m, x: m.bias_in(x, to_like(x, [0.0], "float32").dtype), [-LARGEST, LARGEST, 0.0], [1, 1, 1]),
    "a bias beyond, cut, is a constant": (
        SCORES, lambda m, x: m.bias_in(x, to_like(x, [0.0], "float32").dtype), [-1e300, 1e300], [0, 0]),
    "e^x and x + 1 meet with one slope": ("linear", lambda m, x: m.elu(x), [-0.0, 0.0, 1.0], [1, 1, 1]),
    "a feature of 0 stays out of the sum, and is left alone": (
        "linear", lambda m, x: m.FEATURES["relu"](x), [-1.0, -0.0, 0.0, 1.0], [0, 0, 0, 1]),
    "weights that sum to 0 give 0, a constant": (
        "linear", lambda m, x: getattr(m, "STEPS", m).divide(0 * x[:, None] + 1, x)[:, 0], [0.0, 1.0], [0, -1]),
    "codes are steps: no gradient, at an edge of a step or off it": (
        "cache", coded, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.0], [0] * 8),
}  # fmt: skip


def to_like(x, numbers, kind=None):
    """Numbers as an array of the library of x, in its dtype."""
    kind = kind or str(x.dtype).removeprefix("torch.")
    return to("torch" if isinstance(x, torch.Tensor) else "jax", np.array(numbers, kind))


def slope(library, f, x):
    """The derivative of each number of f(x) by that of x, in float64."""
    if library == "jax":
        return jax.grad(lambda x: f(x).sum())(x)
    return torch.autograd.grad(f(x.requires_grad_()).sum(), x)[0]


@pytest.mark.thin(8)
@LIBRARIES
@pytest.mark.parametrize("why", KINKS)
def test_derivative_at_a_kink(why, library, convention):
    name, f, at, expected = KINKS[why]
    module = importlib.import_module(f"attnlab.{name}.{library}")
    at = np.array(at)
    with precision(library, at), CONVENTIONS[convention]():
        assert back(slope(library, lambda x: f(module, x), to(library, at))).tolist() == expected


# Whole calls in which l is exactly 1, or maxima are equal

N = 6
CALLS = {
    "the first row of causal": dict(causal=True),
    "one key": dict(mask=np.arange(N) == 2),
    "a weight that swallowed the rest": dict(scale=60.0),
    "equal scores in several chunks": dict(scale=0.0),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("library", "algorithm", "convention"),
    [("numpy", "tiled", "as installed")]
    + [("jax", algorithm, "as installed") for algorithm in ALGORITHMS]
    + [("torch", algorithm, convention) for algorithm in ALGORITHMS for convention in CONVENTIONS],
)
def test_gradients(library, algorithm, convention, name):
    options, random = dict(CALLS[name]), np.random.default_rng(1)
    arrays = {key: random.normal(size=(2, N, 3)) for key in ("query", "key", "value")}
    arrays |= {"mask": options.pop("mask")} if "mask" in options else {}
    dout, dlse = random.normal(size=(2, N, 3)), random.normal(size=(2, N))
    expected = oracle.gradients(**arrays, dout=dout, dlse=dlse, **options)
    with precision(library, dout), CONVENTIONS[convention]():
        given = {key: to(library, x) for key, x in arrays.items()}
        found = gradients(library, algorithm, given, to(library, dout), to(library, dlse), sizes=(2, 2), **options)
        for key, grad in found.items():
            np.testing.assert_allclose(back(grad), getattr(expected, key), rtol=1e-11, atol=1e-11, err_msg=key)


ROWS = np.array([[0.3, -INF, -INF], [0.0, -50.0, -60.0], [-900.0, 0.0, -1000.0], [-INF] * 3, [2.0, 2.0, 1.0]])
WEIGHT = np.array([1.0, -2.0, 0.5])


@LIBRARIES
@pytest.mark.parametrize("name", ["naive_softmax", "safe_softmax", "online_softmax"])
def test_softmax_gradients(name, library, convention):
    """Of Σ w p: p (w − Σ w p)."""
    e = np.exp(ROWS)
    p = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
    with precision(library, ROWS), CONVENTIONS[convention]():
        w = to(library, WEIGHT)
        grad = back(slope(library, lambda x: w * getattr(attnlab, name)(x), to(library, ROWS)))
    np.testing.assert_allclose(grad, p * (WEIGHT - p @ WEIGHT[:, None]), rtol=1e-12, atol=1e-15)


@LIBRARIES
def test_merge_gradients(library, convention):
    """With its weight w, a part gets w dout and w (dout · (its out − out) + dlse): nothing, where it saw nothing."""
    random = np.random.default_rng(2)
    outs, dout, dlse = (random.normal(size=size) for size in ((2, 5, 3), (5, 3), 5))
    lses = np.array([[0.3, -INF, 2.0, -INF, 1.0], [1.0, 0.5, -INF, -INF, 1.0]])
    total = np.logaddexp(*lses)
    weight = np.exp(lses - np.where(total == -INF, 0, total))
    difference = outs - (weight[..., None] * outs).sum(0)
    with precision(library, dout), CONVENTIONS[convention]():
        given = [tuple(to(library, x) for x in part) for part in zip(outs, lses)]
        pulled = pull(library, attnlab.merge, given, (to(library, dout), to(library, dlse)))
    for (by_out, by_lse), w, off in zip(pulled, weight, difference):
        np.testing.assert_allclose(back(by_out), w[:, None] * dout, rtol=1e-12)
        np.testing.assert_allclose(back(by_lse), w * ((dout * off).sum(-1) + dlse), rtol=1e-12, atol=1e-14)


def pull(library, f, parts, cotangents):
    """The gradients of f(*parts) by each array of each part."""
    if library == "jax":
        return jax.vjp(f, *parts)[1](cotangents)
    flat = [x.requires_grad_() for part in parts for x in part]
    grads = torch.autograd.grad(f(*parts), flat, cotangents)
    return list(zip(grads[::2], grads[1::2]))

