"""Every algorithm of every library gives the oracle's answer on every case."""

import numpy as np
import pytest
import torch

from tests.support import mistakes
from tests.support.cases import CASES
from tests.support.comparison import assert_agrees
from tests.support.libraries import ALGORITHMS, EPS, EVERYWHERE, LIBRARIES, SAFE, back, call, dtype, precision, to


def matrix():
    """Every library, case and algorithm; the unshifted two only where they are meant to be right."""
    for library in LIBRARIES:
        for name, case in CASES.items():
            for algorithm in SAFE if case.safe_only else ALGORITHMS:
                yield library, algorithm, name


@pytest.mark.thin(63)
@pytest.mark.parametrize(("library", "algorithm", "name"), [*matrix()])
def test_agreement(library, algorithm, name):
    case = CASES[name]
    with precision(library, *case.stored.values()):
        arrays = case.arrays(library)
        before = {name: back(x).copy() for name, x in arrays.items()}
        out, lse = call(library, algorithm, **arrays, sizes=case.sizes, **case.options)
    assert_agrees(case, out, lse)
    for name, x in arrays.items():
        np.testing.assert_array_equal(back(x), before[name], err_msg=f"{name} was modified")


def test_the_matrix_is_large():
    assert len(list(matrix())) >= 1500
    assert sum(not case.safe_only for case in CASES.values()) >= 90


@pytest.mark.parametrize("mistake", mistakes.MISTAKES)
def test_a_mistake_is_found(mistake):
    name, mistaken = mistakes.MISTAKES[mistake]
    with pytest.raises(AssertionError):
        assert_agrees(CASES[name], *mistaken(CASES[name]))


def test_the_fold_without_a_mistake_passes():
    assert_agrees(CASES["4-D"], *mistakes.folded(CASES["4-D"]))


# A second opinion. PyTorch aligns its causal mask to the top left: for N = M it is the same.

OPINIONS = ("4-D", "causal", "mask (2, 1, 7, 10)", "GQA, 2 heads of 4", "bias (4, 1, 10)", "scale 10")


@pytest.mark.parametrize("name", OPINIONS)
def test_pytorch_agrees_with_the_oracle(name):
    case = CASES[name]
    arrays = case.arrays("torch")
    mask = arrays.pop("mask", arrays.pop("bias", None))
    out = torch.nn.functional.scaled_dot_product_attention(
        *arrays.values(), attn_mask=mask, enable_gqa=True,
        is_causal=case.options.get("causal", False), scale=case.options.get("scale"),
    )  # fmt: skip
    assert_agrees(case, out, case.expected().lse.astype(np.float32))


@pytest.mark.thin(2)
@EVERYWHERE
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_accumulates_in_float32(library, algorithm, kind):
    """Equal weights of 1 over values of 1: in half precision the sum sticks at 2048 or 256, and none beyond is odd."""
    m = {"float16": 2099, "bfloat16": 307}[kind]
    query, key, value = (to(library, np.ones((n, 2), dtype(kind))) for n in (1, m, m))
    out, lse = call(library, algorithm, query, key, value, sizes=(None, None), scale=0.0)
    np.testing.assert_array_equal(back(out), 1)
    np.testing.assert_allclose(back(lse), np.log(m), rtol=1e-6)


@EVERYWHERE
@pytest.mark.parametrize("poisoned", ["key", "value"])
def test_a_visible_nan_reaches_the_rows_that_see_it(library, algorithm, poisoned):
    random = np.random.default_rng(1)
    arrays = {name: random.normal(size=(6, 3)).astype(np.float32) for name in ("query", "key", "value")}
    arrays[poisoned][4] = np.nan
    out, _ = call(library, algorithm, **{name: to(library, x) for name, x in arrays.items()}, causal=True)
    assert np.isnan(back(out)[4:]).all()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("m", [0, 5])
def test_one_query_of_no_size_in_half_precision(library, m):
    """Where keys are widened as they are read. All that it sees has the same score."""
    query, key, value = (to(library, np.ones(shape, dtype("bfloat16"))) for shape in ((4, 1, 0), (2, m, 0), (2, m, 3)))
    out, lse = call(library, "tiled", query, key, value, sizes=(None, None), mask=to(library, np.arange(m) > 1))
    np.testing.assert_array_equal(back(out), float(m > 0))
    np.testing.assert_allclose(back(lse), np.log(3) if m else -np.inf, rtol=1e-6)


PATHS = {  # (N, M), around the lengths at which the tiles of tiled attention change
    "one tile": (256, 256), "two": (257, 257), "few": (600, 700), "many": (65, 2049), "more queries": (700, 300),
    "one query": (1, 513), "one query, many tiles": (1, 4097), "a few queries": (31, 1025),
    "nearly one tile": (511, 512), "16 heads at once": (181, 181), "not at once": (182, 182),
    "16 queries not at once": (1, 32769),
}  # fmt: skip


@pytest.mark.thin(3)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("heads", [(1, 1), (3, 1), (16, 16)])
@pytest.mark.parametrize("lengths", PATHS.values(), ids=PATHS)
def test_tiles_of_its_own_choice(library, kind, heads, lengths):
    """Heads and lengths on either side of every threshold: tiles, threads, products on one thread, loops."""
    random, (n, m) = np.random.default_rng(0), lengths
    shapes = [(heads[0], n, 8), (heads[1], m, 8), (heads[1], m, 5)]
    x = [random.normal(size=shape).astype(dtype(kind)) for shape in shapes]
    wide = [y.astype(np.float64) for y in x]
    for causal in (False, True):
        expected, lse = call("numpy", "safe", *wide, causal=causal)
        out, found = call(library, "tiled", *(to(library, y) for y in x), sizes=(None, None), causal=causal)
        np.testing.assert_allclose(back(found), lse, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(back(out), expected, rtol=4 * EPS[kind], atol=2e-5 if kind == "float32" else 2e-3)
