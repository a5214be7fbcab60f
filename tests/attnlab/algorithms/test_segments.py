"""Segments beyond the table of cases: the forms that they are given in, what transforms make of them, what is skipped.

That they hide what a mask of equal segments hides, in every algorithm, is among the cases of test_agreement.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import attnlab
from tests.support.libraries import ALGORITHMS, EVERYWHERE, LIBRARIES, blocks_of, function, to

KINDS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DOCUMENTS = np.array([[0, 0, 1, 1, 1, 3], [5, 5, 5, 5, 2, 2]])


def arrays(library, *shape, m=6, dv=3):
    """query, key and value."""
    random = np.random.default_rng(7)
    shapes = shape, (*shape[:-2], m, shape[-1]), (*shape[:-2], m, dv)
    return [to(library, random.normal(size=s).astype(np.float32)) for s in shapes]


def attend(algorithm, *x, **options):
    """The result in tiles of 2 by 2."""
    return function(algorithm)(*x, **blocks_of(algorithm, (2, 2)), **options)


def equal(queries, keys):
    """The mask of equal segments, with an axis for the heads."""
    return (queries[..., :, None] == keys[..., None, :])[..., None, :, :]


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_integer_dtype(library, kind):
    x = arrays(library, 2, 3, 6, 4)
    expected = attnlab.safe_attention(*arrays("numpy", 2, 3, 6, 4), mask=equal(DOCUMENTS, DOCUMENTS))
    out = attend("tiled", *x, segments=to(library, DOCUMENTS.astype(kind)))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


@EVERYWHERE
def test_one_array_is_both(library, algorithm):
    x, segments = arrays(library, 2, 6, 4), to(library, DOCUMENTS[0])
    one = attend(algorithm, *x, segments=segments, causal=True)
    for both in ((segments, segments), [segments, segments]):
        np.testing.assert_array_equal(one, attend(algorithm, *x, segments=both, causal=True))


@pytest.mark.thin(6)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jax_traces_segments(algorithm):
    """One compiled program serves all segments of a shape; under vmap each example has its own."""
    x = arrays("jax", 2, 3, 6, 4)
    f = jax.jit(lambda segments, *x: attend(algorithm, *x, segments=segments))
    for rows in (DOCUMENTS, DOCUMENTS[::-1]):
        expected = attend("safe", *map(np.asarray, x), mask=equal(rows, rows))
        np.testing.assert_allclose(f(jnp.asarray(rows), *x), expected, rtol=1e-5, atol=1e-6)
    assert f._cache_size() == 1
    rows, own = jnp.asarray(DOCUMENTS), lambda s, *x: attend(algorithm, *x, segments=s)
    np.testing.assert_allclose(jax.vmap(own)(rows, *x), f(rows, *x), rtol=1e-5, atol=1e-6)
    shared = jax.vmap(lambda *x: own(rows[0], *x))(*x)
    np.testing.assert_allclose(shared, f(rows[0], *x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pytorchs_transforms(algorithm):
    """vmap over segments and arrays, and over the arrays alone; the gradient of it."""
    x, rows = [y.double() for y in arrays("torch", 2, 3, 6, 4)], torch.from_numpy(DOCUMENTS)

    def loss(segments, *x):
        return (attend(algorithm, *x, segments=segments) ** 2).sum()

    def gradient(segments, *x):
        return torch.func.grad(loss, argnums=(1, 2, 3))(segments, *x)

    for mapped, given in ((torch.vmap(gradient), rows), (torch.vmap(gradient, (None, 0, 0, 0)), rows[0])):
        torch.testing.assert_close(mapped(given, *x), gradient(given, *x), rtol=1e-10, atol=1e-12)


def test_the_second_derivative_keeps_to_them():
    """Chunked attention's is that of another formula, which gets the segments too."""
    x, rows = [y.double().requires_grad_() for y in arrays("torch", 1, 3, 1, m=3, dv=1)], torch.tensor([0, 0, 1])
    assert torch.autograd.gradgradcheck(lambda *x: attend("chunked", *x, segments=rows), x, fast_mode=True)
