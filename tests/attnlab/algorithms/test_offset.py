"""``offset``, where the queries stand, is data in JAX: one program, any transform.

That every algorithm gives the oracle's answer for it is tested with all other options, in test_agreement; that hidden
tiles are skipped, in test_hidden_tiles.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab.core.arrays.jax_blocks import diagonal
from attnlab.core.geometry import Band
from tests.conftest import COMPILES
from tests.support.libraries import ALGORITHMS, back, blocks_of, function, to

N, M, D = 5, 9, 3


def arrays(library="numpy", n=N, m=M, batch=(), dtype=np.float32):
    """query (2, N, D), key (1, M, D), value (1, M, 2), after the batch axes."""
    random = np.random.default_rng(3)
    shapes = (2, n, D), (1, m, D), (1, m, 2)
    return [to(library, random.normal(size=(*batch, *shape)).astype(dtype)) for shape in shapes]


def assert_same(one, other):
    """Equal up to rounding, array by array."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(back(a), back(b), rtol=1e-4, atol=1e-5)


OFFSETS = [M - N, 0, 3, -2, -N - 4, M + 2]


def attend(algorithm, **options):
    """A function of query, key, value and offset, which gives (out, lse)."""
    options = dict(window=(3, 1), return_lse=True) | blocks_of(algorithm, (2, 4)) | options
    return lambda *x: function(algorithm)(*x[:3], offset=x[3], **options)


def loss(algorithm, **options):
    """A number that every output of the call enters, and the outputs."""

    def number(*x):
        out, lse = attend(algorithm, **options)(*x)
        total = (out * jnp.linspace(-1, 1, out.size).reshape(out.shape)).sum() + jnp.where(lse > -9, lse, 0).sum()
        return total, (out, lse)

    return number


def gradients(f):
    """The gradients by query, key and value of such a number, and the outputs, as one program."""
    return jax.jit(jax.grad(f, argnums=(0, 1, 2), has_aux=True))


def each(f, x, offsets):
    """f for each offset, stacked."""
    found = [f(*x, t) for t in offsets]
    return jax.tree.map(lambda *y: np.stack(y), *found)


@pytest.mark.thin(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_program_for_all_offsets(algorithm):
    """Traced, as an array, or as a Python integer, whose call compiles nothing the second time."""
    x = arrays("jax")
    numpy = [np.asarray(y) for y in x]
    f = jax.jit(attend(algorithm))
    wanted = each(attend(algorithm), numpy, OFFSETS)
    assert_same(each(f, x, [jnp.int32(t) for t in OFFSETS]), wanted)
    assert f._cache_size() == 1
    attend(algorithm)(*x, 1)
    before = COMPILES["seen"]
    assert_same(each(attend(algorithm), x, OFFSETS), wanted)
    assert COMPILES["seen"] == before


def mapped(f, offsets):
    """vmap over the offsets."""
    def total(*x):
        totals, results = jax.vmap(f, in_axes=(None, None, None, 0))(*x, offsets)
        return totals.sum(), results

    return total


def scanned(f, offsets):
    """scan over the offsets."""
    def add(x, total, t):
        more, results = f(*x, t)
        return total + more, results

    return lambda *x: jax.lax.scan(functools.partial(add, x), 0.0, offsets)


@pytest.mark.thin(12)
@pytest.mark.parametrize(("algorithm", "transform"), [
    pytest.param(algorithm, transform, marks=() if (i + j) % 2 else pytest.mark.full)
    for i, algorithm in enumerate(ALGORITHMS) for j, transform in enumerate([mapped, scanned])
])  # fmt: skip
def test_transforms_of_a_traced_offset(algorithm, transform):
    """The results and their gradient."""
    x, offsets = arrays("jax"), jnp.array(OFFSETS, jnp.int32)
    grads, results = each(gradients(loss(algorithm)), x, OFFSETS)
    found, outputs = gradients(transform(loss(algorithm), offsets))(*x)
    assert_same(outputs, results)
    assert_same(found, jax.tree.map(lambda y: y.sum(0), grads))


@pytest.mark.full
def test_vmap_of_grad_with_an_offset_for_each_example():
    offsets = jnp.array(OFFSETS[:3], jnp.int32)
    x = arrays("jax", batch=(3,))
    f = gradients(loss("tiled", dropout=0.4, seed=5))
    wanted = [f(*one, t) for *one, t in zip(*x, offsets)]
    assert_same(jax.vmap(f)(*x, offsets), jax.tree.map(lambda *y: np.stack(y), *wanted))


@pytest.mark.full
def test_with_a_block_mask():
    x = arrays("jax")
    tiles = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]], bool)
    mask = jnp.asarray(np.kron(tiles, np.ones((2, 4), bool))[:N, :M])
    f, g = gradients(loss("tiled", block_mask=tiles)), gradients(loss("safe", mask=mask))
    assert_same(each(f, x, OFFSETS), each(g, x, OFFSETS))


def test_64_bits():
    with jax.enable_x64(True):
        x = arrays("jax", dtype=np.float64)
        wanted = each(attend("tiled"), [np.asarray(y) for y in x], OFFSETS)
        assert_same(each(jax.jit(attend("tiled")), x, map(jnp.asarray, OFFSETS)), wanted)


def test_no_number_leaves_32_bits():
    ends = [-(2**31), 2**31 - 1]
    near = [end + k for end in ends for k in range(-12, 13)] + [*range(-20, 20)]
    offsets = jnp.asarray([t for t in near if ends[0] <= t <= ends[1]], jnp.int32)
    for shift in (0, 5, -5, *ends, *(end + k for end in ends for k in (-20, -7, -1, 1, 7, 20)), 2**40, -(2**40)):
        found = jax.vmap(lambda t, shift=shift: diagonal(t, shift, Band(N, M)))(offsets)
        np.testing.assert_array_equal(found, [min(max(int(t) + shift, -N), M) for t in offsets])
