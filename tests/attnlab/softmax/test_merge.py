"""The laws of ⊕: as combine on (m, l, o) and as merge on (out, lse). Its gradients are in algorithms/test_kinks.py."""

import functools
import importlib

import jax
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnlab
from tests.support.libraries import EVERYWHERE, LIBRARIES, back, call, dtype, dtype_of, precision, to

ROWS = 4
SEED = st.integers(0, 2**32 - 1)


def triple(random):
    """(m, l, o) of some keys for 4 queries; some queries have seen none."""
    empty = random.random(ROWS) < 0.3
    m = np.where(empty, -np.inf, random.normal(scale=30, size=ROWS))
    l = np.where(empty, 0, 1 + random.random(ROWS))
    return m, l, np.where(empty[:, None], 0, random.normal(size=(ROWS, 3)))


def part(random):
    """(out, lse) of some keys for 4 queries; some queries have seen none."""
    m, l, o = triple(random)
    with np.errstate(divide="ignore"):
        return o / np.where(l == 0, 1, l)[:, None], m + np.log(l)


def combine(library, a, b):
    """⊕ of the library on NumPy triples."""
    operator = importlib.import_module(f"attnlab.softmax.{library}").combine
    with precision(library, *a), np.errstate(all="ignore"):
        return [back(x) for x in operator(*(tuple(to(library, x) for x in y) for y in (a, b)))]


def merge(library, a, b):
    """merge of the library on NumPy pairs."""
    with precision(library, *a, *b):
        return [back(x) for x in attnlab.merge(*(to(library, x) for x in (*a, *b)))]


def assert_same(one, other):
    """Equal up to rounding, array by array."""
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


OPERATORS = pytest.mark.parametrize(("operator", "draw"), [(combine, triple), (merge, part)], ids=["combine", "merge"])
LAWS = pytest.mark.parametrize("library", LIBRARIES)


@LAWS
@OPERATORS
@given(seed=SEED)
def test_associative(operator, draw, library, seed):
    random = np.random.default_rng(seed)
    a, b, c = draw(random), draw(random), draw(random)
    left = operator(library, operator(library, a, b), c)
    assert_same(left, operator(library, a, operator(library, b, c)))


@LAWS
@OPERATORS
@given(seed=SEED)
def test_commutative(operator, draw, library, seed):
    random = np.random.default_rng(seed)
    a, b = draw(random), draw(random)
    assert_same(operator(library, a, b), operator(library, b, a))


@LAWS
@given(seed=SEED)
def test_identity(library, seed):
    """(−∞, 0, 0) for ⊕; for merge any part with lse = −∞, whatever its out holds."""
    random = np.random.default_rng(seed)
    a, b = triple(random), part(random)
    nothing = np.full(ROWS, -np.inf), np.zeros(ROWS), np.zeros((ROWS, 3))
    assert_same(combine(library, a, nothing), a)
    assert_same(combine(library, nothing, a), a)
    for filler in (0.0, 5.0, np.nan, np.inf):
        empty = np.full((ROWS, 3), filler), np.full(ROWS, -np.inf)
        assert_same(merge(library, b, empty), b)
        assert_same(merge(library, empty, b), b)


@LAWS
@given(seed=SEED, shift=st.floats(-1e3, 1e3))
def test_shift(library, seed, shift):
    """Shifting every score shifts m and lse and nothing else."""
    random = np.random.default_rng(seed)
    a, b = triple(random), triple(random)
    m, l, o = combine(library, a, b)
    moved = combine(library, (a[0] + shift, *a[1:]), (b[0] + shift, *b[1:]))
    for x, y in zip(moved, (m + shift, l, o)):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
    a, b = part(random), part(random)
    out, lse = merge(library, a, b)
    moved = merge(library, (a[0], a[1] + shift), (b[0], b[1] + shift))
    for x, y in zip(moved, (out, lse + shift)):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


@LAWS
def test_flash_attentions_mark_of_a_row_without_keys(library):
    """+∞ beside an out of 0 is empty, in whatever the library compiles; beside anything else it isn't swallowed."""
    random = np.random.default_rng(0)
    some = random.normal(size=(ROWS, 3)), random.normal(size=ROWS)
    marked = np.eye(ROWS, 3), np.full(ROWS, np.inf)  # the last row of out is 0
    wrap = {"numpy": lambda f: f, "jax": lambda f: jax.jit(jax.vmap(f)), "torch": torch.func.vmap}[library]
    with precision(library, *some):
        out, lse = (back(x) for x in wrap(attnlab.merge)(*(to(library, x) for x in (*some, *marked))))
    assert_same([out[3], lse[3]], [some[0][3], some[1][3]])
    assert np.isnan(np.column_stack([out, lse])[:3]).all()


@pytest.mark.thin(6)
@EVERYWHERE
def test_merging_parts_is_attention_over_the_whole(algorithm, library):
    """Cut the keys anywhere, also at the ends, and hide some from everybody."""
    random = np.random.default_rng(0)
    query, key, value = (random.normal(size=(2, k, 3)).astype(np.float32) for k in (5, 8, 8))
    mask = random.random((2, 5, 8)) < 0.5
    mask[:, 0] = False
    mask[:, 1, :4] = False

    def part(cols):
        x = (to(library, t) for t in (query, key[:, cols], value[:, cols]))
        return call(library, algorithm, *x, mask=to(library, mask[..., cols]), sizes=(2, 3))

    whole = [back(x) for x in part(slice(None))]
    for cut in (0, 1, 4, 8) if library != "jax" else (4,):
        merged = attnlab.merge(*part(slice(0, cut)), *part(slice(cut, None)))
        for x, y in zip(merged, whole):
            np.testing.assert_allclose(back(x), y, rtol=1e-5, atol=1e-6)


@LAWS
@given(seed=SEED)
def test_several_parts_are_merged_two_at_a_time(library, seed):
    """Pairs in one call; a part that is empty among them, and a single one that comes back as it was."""
    random = np.random.default_rng(seed)
    parts = [part(random) for _ in range(5)]
    with precision(library, *parts[0]):
        given_parts = [tuple(to(library, x) for x in pair) for pair in parts]
        several = [back(x) for x in attnlab.merge(*given_parts)]
        single = [back(x) for x in attnlab.merge(given_parts[0])]
        flat = [back(x) for x in attnlab.merge(*given_parts[0], *given_parts[1])]
        pairs = [back(x) for x in attnlab.merge(*given_parts[:2])]
    assert_same(several, functools.reduce(functools.partial(merge, library), parts))
    assert_same(single, parts[0])
    for a, b in zip(flat, pairs):
        np.testing.assert_array_equal(a, b)


@LAWS
def test_several_parts_are_rounded_once(library):
    """32 parts of float16, whose mean two at a time would be rounded 31 times."""
    random = np.random.default_rng(0)
    outs, lse = random.normal(1, 0.1, (32, 1, 8)).astype(np.float16), np.zeros(1, np.float32)
    out, total = attnlab.merge(*[(to(library, out), to(library, lse)) for out in outs])
    exact = outs.astype(np.float64).mean(0)
    assert np.abs(back(out) - exact).max() <= np.spacing(np.float16(1)) / 2 + 1e-6
    np.testing.assert_allclose(back(total), np.log(32), rtol=1e-6)


@LAWS
@pytest.mark.parametrize(("kinds", "lse"), [
    (("float16", "float32", "float16", "float32"), "float32"),
    (("bfloat16", "float32", "float32", "float32"), "float32"),
    (("float32", "float32", "float16", "float32"), "float32"),
    (("float16", "float16", "float16", "float16"), "float32"),
    (("float64", "float64", "float64", "float64"), "float64"),
    (("float32", "float64", "float32", "float32"), "float64"),
])  # fmt: skip
def test_dtypes(library, kinds, lse):
    """Accumulated in at least float32; out comes in the dtype of out_a."""
    shapes = ((2, 3), (2,), (2, 3), (2,))
    x = [np.ones(shape, dtype(kind)) for shape, kind in zip(shapes, kinds)]
    with precision(library, *x):
        out, merged = attnlab.merge(*(to(library, t) for t in x))
        assert (dtype_of(out), dtype_of(merged)) == (kinds[0], lse)
        np.testing.assert_allclose(back(merged), 1 + np.log(2), rtol=1e-6)


def test_gradcheck():
    random = np.random.default_rng(2)
    leaves = [torch.from_numpy(random.normal(size=s)).requires_grad_() for s in ((3, 2), (3,), (3, 2), (3,))]
    assert torch.autograd.gradcheck(attnlab.merge, leaves)
    assert torch.autograd.gradgradcheck(attnlab.merge, leaves)


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_vmap(library):
    vmap = {"jax": jax.vmap, "torch": torch.func.vmap}[library]
    random = np.random.default_rng(3)
    x = [to(library, random.normal(size=s).astype(np.float32)) for s in ((4, 3, 2), (4, 3)) * 2]
    for one, other in zip(vmap(attnlab.merge)(*x), attnlab.merge(*x)):
        np.testing.assert_allclose(back(one), back(other), rtol=1e-6)
