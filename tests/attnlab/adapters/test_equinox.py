"""equinox's layer of attention on attnlab: what its own gives, with masks, rotary embeddings and dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import needs, refused

needs("equinox")

import equinox  # noqa: E402

from attnlab.adapters.equinox import MultiheadAttention  # noqa: E402

N, SIZE, HEADS = 7, 16, 4
QUERY, KEY = (jnp.asarray(x, jnp.float32) for x in np.random.default_rng(0).normal(size=(2, 3, N, SIZE)))
CAUSAL = jnp.tril(jnp.ones((N, N), bool))
ROTARY = equinox.nn.RotaryPositionalEmbedding(SIZE // HEADS)


def rotated(query, key, value):
    return (*(jax.vmap(ROTARY, in_axes=1, out_axes=1)(x) for x in (query, key)), value)


CASES = {
    "plain": dict(),
    "causal": dict(mask=CAUSAL),
    "a mask for each head": dict(mask=jnp.stack([CAUSAL, CAUSAL.at[:, 0].set(True), CAUSAL | CAUSAL.T, CAUSAL])),
    "rotary": dict(mask=CAUSAL, process_heads=rotated),
}


def layers(**options):
    """attnlab's and equinox's, with the same parameters."""
    kinds = MultiheadAttention, equinox.nn.MultiheadAttention
    return [kind(HEADS, SIZE, key=jax.random.key(1), **options) for kind in kinds]


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", CASES)
def test_output_and_gradients(case):
    @equinox.filter_jit
    def trained(layer):
        def loss(layer, *x):
            out = jax.vmap(equinox.filter_checkpoint(lambda q, k: layer(q, k, k, **CASES[case])))(*x)
            return jnp.sin(out).sum(), out

        return equinox.filter_value_and_grad(loss, has_aux=True)(layer, QUERY, KEY)

    found = (trained(layer) for layer in layers(use_query_bias=True))
    ours, theirs = (jax.tree.leaves(equinox.filter(result, equinox.is_array)) for result in found)
    assert len(ours) == 7  # loss, out, five arrays of parameters
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_dropout():
    """A key for each example; none is needed in inference; right on average."""
    ours, theirs = layers(dropout_p=0.5)
    x = QUERY[0], KEY[0], KEY[0]
    still = ours(*x, inference=True)
    np.testing.assert_allclose(still, theirs(*x, inference=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(still, equinox.nn.inference_mode(ours)(*x), rtol=1e-6, atol=1e-6)
    many = jax.vmap(lambda key: ours(*x, key=key))(jax.random.split(jax.random.key(3), 400))
    assert many.std(0).min() > 0
    assert (abs(many.mean(0) - still) < 6 * many.std(0) / 20).all()
    for layer in (ours, theirs):
        refused((ValueError, RuntimeError), "key", layer, *x)
