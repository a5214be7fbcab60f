"""Which probabilities are dropped is a pure function of seed, head, query and key."""

import importlib

import numpy as np
import pytest

import attnlab
from tests.support import oracle
from tests.support.libraries import ALGORITHMS, LIBRARIES, back, call, to

VECTOR = dict(seed=7, h=5, i=3, j=9, word=3241440516)
SEEDS = (0, 1, 7, 2**31, 2**32 - 1)


def scalar(library, x):
    """A word as each library's generator takes it: uint32, in PyTorch int32 of the same bits."""
    return to(library, np.array(x, np.uint32).view(np.int32) if library == "torch" else np.array(x, np.uint32))


def word(library, seed, h, i, j):
    """One word of the library's own generator."""
    threefry = importlib.import_module(f"attnlab.core.dropout.{library}").threefry
    h, i, j = (scalar(library, x) for x in (np.full((1, 1, 1), h), np.full((1, 1), i), np.full(1, j)))
    seed = {"numpy": np.uint32, "torch": int, "jax": lambda x: scalar("jax", x)}[library](seed)
    return int(back(threefry(seed, h, i, j)).reshape(())) & 0xFFFFFFFF


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("counter", [(0, 0, 0), (5, 3, 9), (2**31, 2**31 + 5, 2**32 - 1), (3, 2**20, 2**20 + 1)])
@pytest.mark.parametrize("seed", SEEDS)
def test_words(library, counter, seed):
    """Those of the oracle, which has the published ones and the contract's vector."""
    assert word(library, seed, *counter) == oracle.threefry(seed, *counter)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_dropout_mask_is_the_oracles(seed, p):
    shape = (2, 3, 5, 7)
    mask = attnlab.dropout_mask(seed, shape, p)
    assert isinstance(mask, np.ndarray)
    assert mask.dtype == bool
    expected = [oracle.kept(seed, at[0] * 3 + at[1], *at[2:], p) for at in np.ndindex(*shape)]
    np.testing.assert_array_equal(mask, np.reshape(expected, shape))


def test_dropout_mask_of_no_heads_and_of_nothing():
    np.testing.assert_array_equal(attnlab.dropout_mask(3, (4, 5), 0.5), attnlab.dropout_mask(3, (1, 4, 5), 0.5)[0])
    assert attnlab.dropout_mask(3, (2, 0, 5), 0.5).shape == (2, 0, 5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_threshold_itself_is_kept(library):
    """A word equal to p · 2³² is kept; with a p one step larger it is dropped."""
    x = [to(library, np.ones(shape, np.float32)) for shape in ((6, 4, 2), (6, 10, 2))]
    value = to(library, np.zeros((6, 10, 10), np.float32) + np.eye(10, dtype=np.float32))
    at = VECTOR["h"], VECTOR["i"], VECTOR["j"]
    for word, expected in ((VECTOR["word"], True), (VECTOR["word"] + 1, False)):
        out, _ = call(library, "tiled", *x, value, dropout=word / 2**32, seed=VECTOR["seed"])
        assert (back(out)[at] > 0) == expected
        assert attnlab.dropout_mask(VECTOR["seed"], (6, 4, 10), word / 2**32)[at] == expected


ENDS = {"0": 0.0, "near 0": 1e-12, "1": 1.0, "near 1": 1 - 1e-12}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("end", ENDS)
def test_the_ends(library, algorithm, end):
    """p = 0 is no dropout, p = 1 gives zeros, a p that rounds to neither behaves."""
    random = np.random.default_rng(0)
    x = [to(library, random.normal(size=(2, 5, 3)).astype(np.float32)) for _ in range(3)]
    plain, lse = (back(t) for t in call(library, algorithm, *x))
    out, dropped_lse = call(library, algorithm, *x, dropout=ENDS[end], seed=2**32 - 1)
    np.testing.assert_allclose(back(out), plain * (round(ENDS[end]) == 0), rtol=1e-6)
    np.testing.assert_array_equal(back(dropped_lse), lse)


def test_nothing_else_is_random():
    """No global generator is read or set."""
    import torch

    x = torch.ones(4, 4)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    for array in (x, x.numpy()):
        attnlab.tiled_attention(array, array, array, dropout=0.5, seed=1)
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])
