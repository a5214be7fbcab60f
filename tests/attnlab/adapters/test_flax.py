"""flax's layers of attention on attnlab, in nnx and in linen: what their own function gives, and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import needs, refused

needs("flax")

from flax import linen, nnx  # noqa: E402

from attnlab.adapters.flax import dot_product_attention  # noqa: E402

OWN = {"nnx": nnx.dot_product_attention, "linen": linen.dot_product_attention}
N = 7
X = jnp.asarray(np.random.default_rng(0).normal(size=(2, N, 16)), jnp.float32)
MASKS = {
    "none": None,
    "causal, of numbers": linen.make_causal_mask(X[..., 0]),
    "padding": linen.make_attention_mask(jnp.ones((2, N)), jnp.arange(N) < jnp.array([[7], [4]]), dtype=bool),
}


def layer(kind, function, **options):
    """A function of parameters and x, and the parameters, the same for every ``function``."""
    if kind == "linen":
        made = linen.MultiHeadDotProductAttention(4, attention_fn=function, **options)
        weights = made.init(jax.random.key(1), X, deterministic=True)
        return lambda weights, x, **given: made.apply(weights, x, **given), weights
    options = dict(attention_fn=function, decode=False, rngs=nnx.Rngs(1, dropout=2)) | options
    graph, weights, rest = nnx.split(nnx.MultiHeadAttention(4, 16, **options), nnx.Param, ...)
    return lambda weights, x, **given: nnx.merge(graph, weights, rest)(x, **given), weights


def trained(kind, function, dtype=jnp.float32, **given):
    """Output and gradients."""
    call, weights = layer(kind, function, dtype=dtype)
    run = jax.jit(lambda weights, x: call(weights, x, **given))
    grads = jax.grad(lambda *args: jnp.sin(run(*args).astype(jnp.float32)).sum(), (0, 1))(weights, X)
    return [np.asarray(x, np.float32) for x in (run(weights, X), *jax.tree.leaves(grads))]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("kind", "mask"), [
    pytest.param(kind, mask, marks=() if (i + j) % 2 else pytest.mark.full)
    for i, kind in enumerate(OWN) for j, mask in enumerate(MASKS)
])  # fmt: skip
def test_output_and_gradients(kind, mask):
    ours, theirs = (trained(kind, function, mask=MASKS[mask]) for function in (dot_product_attention, OWN[kind]))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_causal_by_a_switch_is_top_left():
    """As nnx has it, of unequal lengths too."""
    q, k = X.reshape(2, N, 4, 4), X[:, :5].reshape(2, 5, 4, 4)
    for one, other in ((q, k), (k, q)):
        ours, theirs = (f(one, other, other, is_causal=True) for f in (dot_product_attention, OWN["nnx"]))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_bias_and_another_dtype():
    q, bias = X.reshape(2, N, 4, 4), jnp.asarray(np.random.default_rng(1).normal(size=(4, N, N)), jnp.float32)
    exact = OWN["linen"](q, q, q, bias)
    np.testing.assert_allclose(dot_product_attention(q, q, q, bias), exact, rtol=1e-5, atol=1e-5)
    ours, theirs = (f(q, q, q, bias, dtype=jnp.bfloat16) for f in (dot_product_attention, OWN["linen"]))
    assert ours.dtype == theirs.dtype == jnp.bfloat16
    assert abs(ours - exact).max() <= 2 * abs(theirs - exact).max()


@pytest.mark.parametrize("kind", OWN)
def test_a_step_with_the_layers_cache(kind):
    outs = []
    for function in (dot_product_attention, OWN[kind]):
        if kind == "linen":
            made = linen.MultiHeadDotProductAttention(4, attention_fn=function, decode=True)
            state, rows = made.init(jax.random.key(1), X), []
            for t in range(N):
                out, cache = made.apply(state, X[:, t : t + 1], mutable="cache")
                state, rows = state | cache, [*rows, out]
        else:
            made = nnx.MultiHeadAttention(4, 16, attention_fn=function, decode=True, rngs=nnx.Rngs(1))
            made.init_cache(X.shape)
            rows = [made(X[:, t : t + 1]) for t in range(N)]
        outs.append(jnp.concatenate(rows, 1))
    np.testing.assert_allclose(*outs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", OWN)
def test_dropout(kind):
    """Drawn from the layer's generator, none where it is deterministic; right on average."""
    call, weights = layer(kind, dot_product_attention, dropout_rate=0.5)
    still = call(weights, X, deterministic=True)
    np.testing.assert_allclose(still, layer(kind, OWN[kind])[0](weights, X), rtol=1e-5, atol=1e-5)
    keys = jax.random.split(jax.random.key(3), 400)
    if kind == "linen":
        many = jax.vmap(lambda key: call(weights, X, deterministic=False, dropout_rng=key))(keys)
    else:
        many = jax.vmap(lambda key: call(weights, X, deterministic=False, rngs=nnx.Rngs(dropout=key)))(keys)
    assert many.std(0).min() > 0
    assert (abs(many.mean(0) - still) < 6 * many.std(0) / 20).all()


def test_what_would_change_the_result_is_refused():
    q = X.reshape(2, N, 4, 4)
    refused(ValueError, r"sow_weights .* never holds", dot_product_attention, q, q, q, module=linen.Dense(1))
    for name in ("qk_attn_weights_einsum", "attn_weights_value_einsum"):
        refused(ValueError, "an einsum is given", dot_product_attention, q, q, q, **{name: jnp.einsum})
