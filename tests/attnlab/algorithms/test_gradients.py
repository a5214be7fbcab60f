"""Gradients by query, key, value and bias, through out and lse, are the oracle's, which are checked by differences."""

import numpy as np
import pytest
import torch

from tests.support import oracle
from tests.support.cases import CASES
from tests.support.comparison import assert_gradients_agree
from tests.support.libraries import ALGORITHMS, LIBRARIES, SAFE, back, call, gradients, precision, to

INFINITE = {"a score of −∞ from the data", "scores of −∞ alone in a tile"}  # 0 · ∞ in the formula itself
# Tiled attention recomputes p from lse, and beside a shift of −10³⁰ float32 has no digits left for log l.
ABSORBED = {("tiled", "a very negative bias is a shift")}
FINITE = {name: case for name, case in CASES.items() if name not in INFINITE}
COMPILED = [name for name in FINITE if "NaN" in name] + [
    "offset, everything given, GQA", "offset -4, causal", "offset 12, window (2, 1)",
    "2-D", "4-D", "2-D, one token", "no keys", "no queries", "batch of none", "blocks of 2 by 5, causal", "5-D",
    "GQA, everything given", "GQA, one new query", "causal with N > M", "window (1, 1), N > M", "mask ()",
    "bias (2, 4, 7, 10)", "bias (7, 1)", "bias (1, 1)", "bias of −∞ here and there", "bias in float64",
    "rows that see nothing", "all masked by bias", "scores in the thousands", "dropout 0.5", "dropout 1.0",
    "segments of each batch", "segments that nothing shares", "segments, everything given, GQA",
    "dropout, mask, bias, window", "bfloat16, causal, GQA", "float16, mask, bias", "float64, dropout, window",
]  # fmt: skip


def matrix():
    """NumPy has one backward, PyTorch six on every case, JAX six on fewer, as each must be compiled."""
    for library in LIBRARIES:
        names = COMPILED if library == "jax" else FINITE
        for name in names:
            algorithms = SAFE if CASES[name].safe_only else ALGORITHMS
            for algorithm in ["tiled"] if library == "numpy" else algorithms:
                if (algorithm, name) not in ABSORBED:
                    yield library, algorithm, name


@pytest.mark.thin(29)
@pytest.mark.parametrize(("library", "algorithm", "name"), [*matrix()])
def test_gradients(library, algorithm, name):
    case = CASES[name]
    dout, dlse = case.cotangents()
    with precision(library, *case.stored.values()):
        cotangents = to(library, dout), to(library, dlse)
        arrays = case.arrays(library)
        before = [back(x).copy() for x in (*arrays.values(), *cotangents)]
        grads = gradients(library, algorithm, arrays, *cotangents, sizes=case.sizes, **case.options)
        for x, old in zip((*arrays.values(), *cotangents), before):
            np.testing.assert_array_equal(back(x), old, err_msg="an input was modified")
    wanted = {"query", "key", "value"} | ({"bias"} & set(case.stored))
    assert set(grads) == wanted
    assert_gradients_agree(case, grads, dout, dlse)


@pytest.mark.parametrize("wrong", ["query", "key", "value", "bias"])
@pytest.mark.parametrize("mistake", [lambda g: 1.01 * g, lambda g: g[..., ::-1], np.zeros_like])
def test_a_wrong_gradient_is_found(wrong, mistake):
    """Also one that forgets lse."""
    case = CASES["bias (2, 4, 7, 10)"]
    dout, dlse = case.cotangents()
    right = oracle.gradients(**case.arrays("numpy"), dout=dout, dlse=dlse)._asdict()
    grads = {name: grad.astype(np.float32) for name, grad in right.items()}
    assert_gradients_agree(case, grads, dout, dlse)
    with pytest.raises(AssertionError):
        assert_gradients_agree(case, grads, dout, dlse + 1)
    grads[wrong] = mistake(grads[wrong])
    with pytest.raises(AssertionError):
        assert_gradients_agree(case, grads, dout, dlse)


WITH_GRADIENT = [("numpy", "tiled")] + [(library, a) for library in ("jax", "torch") for a in ALGORITHMS]


@pytest.mark.parametrize("poisoned", [np.nan, np.inf])
@pytest.mark.parametrize(("library", "algorithm"), WITH_GRADIENT)
def test_what_comes_back_to_empty_rows_is_ignored(library, algorithm, poisoned):
    """A loss may send NaN to the rows that see nothing."""
    case = CASES["rows that see nothing"]
    dout, dlse = case.cotangents()
    empty = np.isneginf(case.expected().lse)
    dout[empty], dlse[empty] = poisoned, poisoned
    arrays = to(library, dout), to(library, dlse)
    grads = gradients(library, algorithm, case.arrays(library), *arrays)
    dout[empty], dlse[empty] = 0, 0
    assert_gradients_agree(case, grads, dout, dlse)


SMALL = {
    "plain": dict(),
    "bias, dropout, window": dict(bias=np.array([[[0.3, -np.inf, 0.1, 1.0]]]), dropout=0.3, seed=5, window=(2, 1)),
    "GQA, causal": dict(hk=1, causal=True),
    "rows that see nothing": dict(n=4, m=2, causal=True, bias=np.array([[[0.5, 0.2]]])),
    "mask, scale": dict(mask=np.array([[True, False, True, True]] * 2 + [[False] * 4]), scale=-0.8),
}


def small(algorithm, name):
    """A function of the float tensors of a small call, and those tensors."""
    options, random = dict(SMALL[name]), np.random.default_rng(3)
    n, m, hk = options.pop("n", 3), options.pop("m", 4), options.pop("hk", 2)
    sizes = {"query": (2, n, 2), "key": (hk, m, 2), "value": (hk, m, 1)}
    floats = {key: torch.from_numpy(random.normal(size=size)) for key, size in sizes.items()}
    if "bias" in options:
        floats["bias"] = torch.from_numpy(options.pop("bias"))
    rest = {"mask": torch.from_numpy(options.pop("mask"))} if "mask" in options else {}

    def function(*x):
        out, lse = call("torch", algorithm, **dict(zip(floats, x)), **rest, sizes=(2, 3), **options)
        return out, torch.where(lse == -torch.inf, 0, lse)

    return function, [x.requires_grad_() for x in floats.values()]


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pytorch_gradcheck(algorithm, name, fast):
    """Fast: one random combination of the outputs by one of the inputs, not each by each. And twice, but for tiled."""
    function, inputs = small(algorithm, name)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=fast)
    if algorithm != "tiled" and fast:
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)
