"""A law that holds for every input: no tiling changes an answer or a gradient."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.libraries import back, call, gradients, to

TOLERANCE = dict(rtol=1e-9, atol=1e-11)
LENGTH, SEED = st.integers(0, 20), st.integers(0, 2**32 - 1)
SIZE = st.one_of(st.none(), st.integers(1, 25))
SIDE = st.one_of(st.none(), st.integers(-1, 12))
OPTIONS = st.fixed_dictionaries({
    "causal": st.booleans(),
    "window": st.one_of(st.none(), st.integers(-1, 6), st.tuples(SIDE, SIDE)),
    "dropout": st.sampled_from([0.0, 0.0, 0.3]),
    "seed": SEED,
})  # fmt: skip


def arrays(seed, n, m):
    """query, key, value of 4 heads on 2, a mask that hides some, a bias that hides some."""
    random = np.random.default_rng(seed)
    sizes = {"query": (4, n, 3), "key": (2, m, 3), "value": (2, m, 2)}
    x = {name: random.normal(size=size) for name, size in sizes.items()} | {"mask": random.random((4, n, m)) < 0.8}
    return x | {"bias": np.where(random.random((1, 1, m)) < 0.1, -np.inf, random.normal(size=(1, 1, m)))}


def result(library, algorithm, x, **options):
    """(out, lse) as NumPy arrays."""
    return [back(t) for t in call(library, algorithm, **{name: to(library, t) for name, t in x.items()}, **options)]


def assert_same(one, other):
    """Equal up to rounding, array by array; −∞ in the same places."""
    assert len(one) == len(other)
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, **TOLERANCE)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", ["chunked", "tiled"])
@given(seed=SEED, n=LENGTH, m=LENGTH, sizes=st.tuples(SIZE, SIZE), options=OPTIONS)
@example(seed=1, n=7, m=5, sizes=(1, 1), options={"causal": True, "window": (3, None)})
def test_any_tiling_gives_the_same_answer(algorithm, library, seed, n, m, sizes, options):
    x = arrays(seed, n, m)
    assert_same(result(library, algorithm, x, sizes=sizes, **options), result("numpy", "safe", x, **options))


@pytest.mark.parametrize(("library", "algorithm"), [("numpy", "tiled"), ("torch", "chunked"), ("torch", "tiled")])
@given(seed=SEED, n=LENGTH, m=LENGTH, sizes=st.tuples(SIZE, SIZE), options=OPTIONS)
def test_any_tiling_gives_the_same_gradient(library, algorithm, seed, n, m, sizes, options):
    x, random = arrays(seed, n, m), np.random.default_rng(seed)
    dout, dlse = random.normal(size=(4, n, 2)), random.normal(size=(4, n))

    def grads(library, algorithm, sizes):
        given = {name: to(library, t) for name, t in x.items()}
        found = gradients(library, algorithm, given, to(library, dout), to(library, dlse), sizes=sizes, **options)
        return [back(found[name]) for name in ("query", "key", "value")]

    assert_same(grads(library, algorithm, sizes), grads("torch", "safe", (None, None)))
