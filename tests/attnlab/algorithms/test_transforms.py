"""What the transforms of JAX and of torch.func make of every algorithm; autocast, and derivatives of a part."""

import types
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import attnlab
from tests.support import oracle, refused
from tests.support.libraries import ALGORITHMS, SAFE, call, function, to

B, HQ, HK, N, M, D, DV = 3, 4, 2, 3, 5, 4, 2
BOTH = [pytest.param(library, algorithm, marks=pytest.mark.thin(3) if library == "jax" else ())  # which compiles
        for library, algorithm in product(["jax", "torch"], ALGORITHMS)]  # fmt: skip
TRANSFORMS = {
    "jax": types.SimpleNamespace(
        vmap=jax.vmap, jacrev=lambda f, argnums: jax.jit(jax.jacrev(f, argnums)),
        grad=lambda f, argnums=0: jax.jit(jax.grad(f, argnums))),
    "torch": torch.func,
}  # fmt: skip


def arrays(library, *batch, dtype=None):
    """query, key, value with the given batch axes."""
    random = np.random.default_rng(5)
    shapes = (*batch, HQ, N, D), (*batch, HK, M, D), (*batch, HK, M, DV)
    kind = dtype or ("float32" if library == "jax" else "float64")
    return [to(library, random.normal(size=shape).astype(kind)) for shape in shapes]


def numbers(library, low, high, *shape):
    """A bias: numbers from low to high."""
    x = np.linspace(low, high, int(np.prod(shape))).reshape(shape)
    return to(library, x.astype("float32" if library == "jax" else "float64"))


def attend(library, algorithm, **options):
    """A function of query, key, value and more arrays by name, which gives (out, lse)."""
    return lambda *x, **more: call(library, algorithm, *x, **more, sizes=(2, 2), **options)


def loss(library, algorithm, **options):
    """A number that every output of the call enters, each with a weight of its own."""
    xp = {"jax": jnp, "torch": torch}[library]

    def number(*x, **more):
        out, lse = attend(library, algorithm, **options)(*x, **more)
        weight = xp.linspace(-1, 1, int(np.prod(out.shape)), dtype=out.dtype).reshape(out.shape)
        return (out * weight).sum() + (xp.where(lse == -xp.inf, 0, lse) ** 2).sum()

    return number


def in_numpy(algorithm, *x, **options):
    """(out, lse) of the algorithm in NumPy, which compiles nothing."""
    given = {name: np.asarray(options.pop(name)) for name in ("mask", "bias") if name in options}
    return call("numpy", algorithm, *map(np.asarray, x), sizes=(2, 2), **given, **options)


def assert_same(library, one, other):
    """Equal up to rounding, array by array."""
    rounding = dict(rtol=1e-4, atol=1e-5) if library == "jax" else dict(rtol=1e-10, atol=1e-12)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **rounding)


def stacked(results):
    """The results of several calls, array by array."""
    return jax.tree.map(lambda *x: np.stack(x), *results)


@pytest.mark.thin(2)
@pytest.mark.parametrize(("library", "algorithm"), BOTH)
def test_vmap_is_a_batch(library, algorithm):
    """Also in another vmap."""
    x, vmap = arrays(library, 2, B), TRANSFORMS[library].vmap
    assert_same(library, vmap(vmap(attend(library, algorithm, window=1)))(*x), in_numpy(algorithm, *x, window=1))


@pytest.mark.thin(2)
@pytest.mark.parametrize(("library", "algorithm"), BOTH)
def test_vmap_over_some_of_the_arrays(library, algorithm):
    """A batch of queries in the last axis and of masks and biases, one key and value for all."""
    queries, (_, key, value) = arrays(library, B)[0], arrays(library)
    mask = to(library, np.arange(M) < np.array([5, 2, 0])[:, None])
    bias = numbers(library, 0, 1, B, N, 1)

    def single(query, mask, bias):
        return attend(library, algorithm)(query, key, value, mask=mask, bias=bias)

    last = to(library, np.moveaxis(np.asarray(queries), 0, -1))
    many = TRANSFORMS[library].vmap(single, (-1, 0, 0))(last, mask, bias)
    expected = [in_numpy(algorithm, one, key, value, mask=m, bias=b) for one, m, b in zip(queries, mask, bias)]
    assert_same(library, many, stacked(expected))


@pytest.mark.thin(6)
@pytest.mark.parametrize(("library", "algorithm"), BOTH)
def test_vmap_of_grad_with_dropout(library, algorithm):
    """Every example has the mask of the single call, forward and backward."""
    x, options, vmap = arrays(library, B), dict(dropout=0.5, seed=9), TRANSFORMS[library].vmap
    gradient = TRANSFORMS[library].grad(loss(library, algorithm, **options), (0, 1, 2))
    assert_same(library, vmap(gradient)(*x), stacked([gradient(*one) for one in zip(*x)]))
    out = stacked([in_numpy(algorithm, *one, **options) for one in zip(*x)])
    assert_same(library, vmap(attend(library, algorithm, **options))(*x), out)
    assert not np.allclose(in_numpy(algorithm, *x, **options)[0], out[0], atol=1e-2)


@pytest.mark.thin(6)
@pytest.mark.parametrize(("library", "algorithm"), BOTH)
def test_grad_of_vmap_with_a_shared_bias(library, algorithm):
    """The gradient of what all examples share is the sum over the examples."""
    x, bias, of = arrays(library, B), numbers(library, 0, 1, M), TRANSFORMS[library]
    number = loss(library, algorithm)
    total = of.grad(lambda bias: of.vmap(lambda *x: number(*x, bias=bias))(*x).sum())
    single = of.grad(lambda bias, *x: number(*x, bias=bias))
    assert_same(library, total(bias), sum(single(bias, *one) for one in zip(*x)))


@pytest.mark.thin(6)
@pytest.mark.parametrize(("library", "algorithm"), BOTH)
def test_jacrev_gives_the_oracles_gradient(library, algorithm):
    x, bias = arrays(library), numbers(library, -1, 1, M)
    dout = np.random.default_rng(0).normal(size=(HQ, N, DV))
    out = TRANSFORMS[library].jacrev(lambda *x: attend(library, algorithm)(*x[:3], bias=x[3])[0], (0, 1, 2, 3))
    expected = oracle.gradients(*map(np.asarray, x), dout=dout, bias=np.asarray(bias))
    for jacobian, right in zip(out(*x, bias), expected):
        np.testing.assert_allclose(np.tensordot(dout, np.asarray(jacobian), 3), right, atol=1e-5)


@pytest.mark.thin(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jit_changes_nothing(algorithm):
    """Options are static arguments; the seed may be traced: one program serves every seed, the largest included."""
    x = arrays("jax")
    f = jax.jit(function(algorithm), static_argnames=["causal", "window", "scale", "dropout", "return_lse"])
    options = dict(causal=True, window=(2, None), scale=0.3, dropout=0.5, return_lse=True)
    for seed in (0, 5, 2**32 - 1):
        found, plain = f(*x, seed=jnp.uint32(seed), **options), function(algorithm)(*x, seed=seed, **options)
        assert_same("jax", found, plain)
        assert_same("jax", found, in_numpy(algorithm, *x, seed=seed, **options))
    assert f._cache_size() == 1


def small(name):
    """A number of queries (2, 6, 4), by an algorithm."""
    rest = [jax.device_put(x) for x in np.random.default_rng(3).normal(size=(2, 2, 6, 4)).astype("float32")]
    return lambda query: (getattr(attnlab, name)(query, *rest, causal=True) ** 2).sum()


@pytest.mark.full
@pytest.mark.parametrize("name", ["naive_attention", "tiled_attention"])
def test_second_derivatives(name):
    """Plain differentiation serves twice; tiled attention's gradient has a forward-mode derivative."""
    query = jnp.linspace(-1, 1, 48).reshape(2, 6, 4)
    found, expected = (jax.jit(jax.hessian(small(name)))(query) for name in (name, "safe_attention"))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    first = jax.jit(jax.grad(small("safe_attention")))
    step = jnp.zeros_like(query).at[0, 1, 2].set(0.01)
    numeric = (first(query + step) - first(query - step)) / 0.02
    np.testing.assert_allclose(expected[..., 0, 1, 2], numeric, atol=1e-2 * np.abs(expected).max())


@pytest.mark.full
def test_refused_derivatives_say_what_to_use():
    query, f = jnp.ones((2, 6, 4)), small("tiled_attention")
    refused(TypeError, "no forward-mode derivative; use safe_attention", jax.jvp, f, (query,), (query,))
    refused(TypeError, "forward-mode", jax.jacfwd(f), query)
    for transform in (lambda f: f, jax.jit):
        with pytest.raises(NotImplementedError, match="no second derivative in reverse mode; use safe_attention"):
            transform(jax.grad(lambda query: jax.grad(f)(query).sum()))(query)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_grad_and_vjp_give_what_autograd_gives(algorithm):
    x, f = arrays("torch"), loss("torch", algorithm, causal=True)
    leaves = [t.clone().requires_grad_() for t in x]
    expected = torch.autograd.grad(f(*leaves), leaves)
    assert_same("torch", torch.func.grad(f, (0, 1, 2))(*x), expected)
    value, pull = torch.func.vjp(f, *x)
    assert_same("torch", pull(torch.ones_like(value)), expected)


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a != "tiled"])
def test_second_derivative_is_that_of_safe_attention(algorithm):
    x, grad = arrays("torch"), torch.func.grad

    def norm(algorithm):
        return lambda query: sum((g**2).sum() for g in grad(loss("torch", algorithm), (0, 1, 2))(query, *x[1:]))

    assert_same("torch", grad(norm(algorithm))(x[0]), grad(norm("safe"))(x[0]))


def test_tiled_attention_refuses_a_second_derivative():
    x, grad = arrays("torch"), torch.func.grad
    leaves = [t.clone().requires_grad_() for t in x]
    (first,) = torch.autograd.grad(loss("torch", "tiled")(*leaves), leaves[:1], create_graph=True)
    refused(NotImplementedError, "safe_attention", first.sum().backward)
    with pytest.raises(NotImplementedError, match="safe_attention"):
        grad(lambda query: grad(loss("torch", "tiled"))(query, *x[1:]).sum())(x[0])


@pytest.mark.parametrize("algorithm", ["chunked", "tiled"])
def test_autocast_changes_nothing_in_a_backward_called_inside(algorithm):
    """Their gradients are functions of their own; elsewhere autograd's products follow autocast."""
    leaves = [t.to(torch.bfloat16).requires_grad_() for t in arrays("torch")]
    expected = torch.autograd.grad(attend("torch", algorithm)(*leaves)[0].sum(), leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = torch.autograd.grad(attend("torch", algorithm)(*leaves)[0].sum(), leaves)
    torch.testing.assert_close(inside, expected, rtol=0, atol=0)


@pytest.mark.parametrize("algorithm", SAFE)
def test_a_part_of_the_gradients(algorithm):
    """Only what asks for a gradient gets one, whichever it is."""
    bias = numbers("torch", -1, 1, 1, M)

    def number(query, key, value, bias):
        return loss("torch", algorithm)(query, key, value, bias=bias)

    everything = [t.requires_grad_() for t in (*arrays("torch"), bias)]
    expected = torch.autograd.grad(number(*everything), everything)
    for k in range(4):
        leaves = [t.detach().requires_grad_(i == k) for i, t in enumerate(everything)]
        assert_same("torch", torch.autograd.grad(number(*leaves), leaves[k]), (expected[k],))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_gpu_gives_what_the_cpu_gives(algorithm):
    x = arrays("torch", dtype="float32")
    f = attend("torch", algorithm, causal=True, dropout=0.3, seed=4)
    on_gpu = f(*(t.cuda() for t in x))
    assert all(t.is_cuda for t in on_gpu)
    torch.testing.assert_close(tuple(t.cpu() for t in on_gpu), f(*x), rtol=1e-4, atol=1e-5)
