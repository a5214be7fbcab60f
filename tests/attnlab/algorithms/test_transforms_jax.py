"""What JAX's transforms make of every algorithm: jit, grad, vmap, jacrev."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import grad, jacrev, jit, value_and_grad, vmap

import attnlab
from tests.support import oracle
from tests.support.libraries import ALGORITHMS, call, function

B, HQ, HK, N, M, D, DV = 3, 4, 2, 3, 5, 4, 2


def arrays(*batch):
    """query, key, value with the given batch axes."""
    random = np.random.default_rng(5)
    shapes = (*batch, HQ, N, D), (*batch, HK, M, D), (*batch, HK, M, DV)
    return [jax.device_put(random.normal(size=shape).astype(np.float32)) for shape in shapes]


def attend(algorithm, **options):
    """A function of query, key, value and more arrays by name, which gives (out, lse)."""
    return lambda *x, **more: call("jax", algorithm, *x, **more, sizes=(2, 2), **options)


def in_numpy(algorithm, *x, **options):
    """(out, lse) of the algorithm in NumPy, which compiles nothing."""
    given = {name: np.asarray(options.pop(name)) for name in ("mask", "bias") if name in options}
    return call("numpy", algorithm, *map(np.asarray, x), sizes=(2, 2), **given, **options)


def loss(algorithm, **options):
    """A number that every output of the call enters, each with a weight of its own."""

    def number(*x, **more):
        out, lse = attend(algorithm, **options)(*x, **more)
        weight = jnp.linspace(-1, 1, out.size).reshape(out.shape)
        return (out * weight).sum() + (lse**2).sum()

    return number


def assert_same(one, other):
    """Equal up to rounding, array by array."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.thin(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jit_changes_nothing(algorithm):
    """Options are static arguments."""
    x = arrays()
    names = ["causal", "window", "scale", "dropout", "return_lse"]
    f = jit(function(algorithm), static_argnames=names)
    options = dict(causal=True, window=(2, None), scale=0.3, dropout=0.25, return_lse=True)
    assert_same(f(*x, seed=jnp.uint32(3), **options), function(algorithm)(*x, seed=3, **options))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_traced_seed(algorithm):
    """The seed may be traced: one compiled program serves every seed, the largest included."""
    x = arrays()
    f = jit(lambda seed: attend(algorithm, dropout=0.5)(*x, seed=seed)[0])
    for seed in (0, 5, 2**32 - 1):
        assert_same(f(jnp.uint32(seed)), in_numpy(algorithm, *x, dropout=0.5, seed=seed)[0])
    assert f._cache_size() == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_is_a_batch(algorithm):
    x = arrays(B)
    assert_same(vmap(attend(algorithm, window=1))(*x), in_numpy(algorithm, *x, window=1))


@pytest.mark.thin(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_over_some_of_the_arrays(algorithm):
    """A batch of queries in the last axis and of masks and biases, one key and value for all."""
    queries, (_, key, value) = arrays(B)[0], arrays()
    mask = jnp.arange(M) < jnp.array([5, 2, 0])[:, None]
    bias = jnp.linspace(0, 1, B * N).reshape(B, N, 1)

    def single(query, mask, bias):
        return attend(algorithm)(query, key, value, mask=mask, bias=bias)

    many = vmap(single, in_axes=(-1, 0, 0))(jnp.moveaxis(queries, 0, -1), mask, bias)
    expected = [in_numpy(algorithm, one, key, value, mask=m, bias=b) for one, m, b in zip(queries, mask, bias)]
    assert_same(many, jax.tree.map(lambda *x: np.stack(x), *expected))


@pytest.mark.thin(3)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vmap_of_grad_with_dropout(algorithm):
    """Every example has the mask of the single call, forward and backward."""
    x = arrays(B)
    options = dict(dropout=0.5, seed=9)
    both = jit(value_and_grad(loss(algorithm, **options), argnums=(0, 1, 2)))
    expected = [both(*one) for one in zip(*x)]
    assert_same(vmap(both)(*x), jax.tree.map(lambda *x: np.stack(x), *expected))
    out = np.stack([in_numpy(algorithm, *one, **options)[0] for one in zip(*x)])
    assert_same(vmap(attend(algorithm, **options))(*x)[0], out)
    assert not np.allclose(in_numpy(algorithm, *x, **options)[0], out, atol=1e-2)


@pytest.mark.thin(3)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_grad_of_vmap_with_a_shared_bias(algorithm):
    """The gradient of what all examples share is the sum over the examples."""
    x, bias = arrays(B), jnp.linspace(0, 1, M)
    total = jit(grad(lambda bias: vmap(lambda *x: loss(algorithm)(*x, bias=bias))(*x).sum()))
    single = jit(grad(lambda bias, *x: loss(algorithm)(*x, bias=bias)))
    assert_same(total(bias), sum(single(bias, *one) for one in zip(*x)))


@pytest.mark.thin(3)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jacrev_gives_the_oracles_gradient(algorithm):
    x, bias = arrays(), jnp.linspace(-1, 1, M)
    dout = np.random.default_rng(0).normal(size=(HQ, N, DV))
    out = jit(jacrev(lambda *x: attend(algorithm)(*x[:3], bias=x[3])[0], argnums=(0, 1, 2, 3)))
    expected = oracle.gradients(*(np.asarray(t) for t in x), dout=dout, bias=np.asarray(bias))
    for jacobian, right in zip(out(*x, bias), expected):
        np.testing.assert_allclose(np.tensordot(dout, np.asarray(jacobian), 3), right, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["naive", "safe"])
def test_second_derivative(algorithm):
    """Where plain differentiation serves, it serves twice."""
    x = arrays()
    second = jit(jax.hessian(lambda t: loss(algorithm)(x[0].at[0, 0].add(t), *x[1:])))(jnp.zeros(D))
    first = jit(grad(lambda t: loss(algorithm)(x[0].at[0, 0].add(t), *x[1:])))
    numeric = [(first(step) - first(-step)) / 0.02 for step in 0.01 * jnp.eye(D)]
    np.testing.assert_allclose(second, jnp.stack(numeric), atol=1e-2 * np.abs(second).max())


# What tiled attention has no derivative for

def small(name):
    """A number of queries (2, 6, 4), by an algorithm."""
    rest = [jax.device_put(x) for x in np.random.default_rng(3).normal(size=(2, 2, 6, 4)).astype("float32")]
    return lambda query: (getattr(attnlab, name)(query, *rest, causal=True) ** 2).sum()


def test_refused_derivatives_say_what_to_use():
    query, f = jnp.ones((2, 6, 4)), small("tiled_attention")
    with pytest.raises(TypeError, match="no forward-mode derivative; use safe_attention"):
        jax.jvp(f, (query,), (query,))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jacfwd(f)(query)
    for transform in (lambda f: f, jax.jit):
        with pytest.raises(NotImplementedError, match="no second derivative in reverse mode; use safe_attention"):
            transform(jax.grad(lambda query: jax.grad(f)(query).sum()))(query)


def test_forward_over_reverse_is_a_second_derivative():
    query = jnp.linspace(-1, 1, 48).reshape(2, 6, 4)
    found, expected = (jit(jax.hessian(small(name)))(query) for name in ("tiled_attention", "safe_attention"))
    np.testing.assert_allclose(found, expected, atol=1e-4)
