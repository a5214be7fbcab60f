"""Linear attention: three forms in three libraries are one formula; states join calls; rows of zeros; gradients."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from attnlab.linear import FEATURES, FORMS, Hedgehog, feature_count, hedgehog_loss, linear_attention
from tests.support import refused
from tests.support.libraries import LIBRARIES, back, dtype, precision, to

RNG = np.random.default_rng(0)
SHAPES = {  # query heads, key heads, N, M, D, Dv
    "plain": (2, 2, 7, 7, 4, 4),
    "grouped": (6, 2, 9, 9, 4, 3),
    "more keys": (2, 1, 3, 8, 4, 4),
    "more queries": (2, 2, 8, 3, 4, 5),
    "one token": (2, 2, 1, 1, 4, 4),
    "one query": (4, 2, 1, 9, 4, 4),
    "no keys": (2, 2, 3, 0, 4, 4),
    "no queries": (2, 2, 0, 3, 4, 4),
}


def phi(features, x, s=1.0):
    """The features of a map, by definition, in float64."""
    if features == "elu":
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
    if features == "relu":
        return np.maximum(x, 0)
    if features == "exp":
        return np.exp(x)
    square = (x[..., :, None] * x[..., None, :]).reshape((*x.shape[:-1], -1)) / math.sqrt(2)  # all D² products
    return np.concatenate([np.ones_like(x[..., :1]), x, square], -1)


def oracle(q, k, v, features="elu", causal=False, mask=None, scale=None, maps=None):
    """Every weight, in float64."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    n, m, g = q.shape[-2], k.shape[-2], q.shape[-3] // k.shape[-3]
    scale = 1 / math.sqrt(q.shape[-1]) if features == "taylor" and scale is None else scale or 1.0
    phi_q, phi_k = maps or (lambda x: phi(features, x),) * 2
    visible = np.tri(n, m, m - n, dtype=bool) if causal else np.ones((n, m), bool)
    if mask is not None:
        visible = visible & mask
        k, v = np.where(mask.swapaxes(-1, -2), k, 0), np.where(mask.swapaxes(-1, -2), v, 0)
    k, v = np.repeat(k, g, -3), np.repeat(v, g, -3)
    visible = np.repeat(visible, g, -3) if visible.ndim > 2 and visible.shape[-3] > 1 else visible
    a = np.where(visible, phi_q(scale * q) @ phi_k(k).swapaxes(-1, -2), 0)
    total = a.sum(-1, keepdims=True)
    return a @ v / np.where(total == 0, 1, total)


def inputs(shape, batch=(2,), kind="float64"):
    hq, hk, n, m, d, dv = SHAPES[shape]
    sizes = (*batch, hq, n, d), (*batch, hk, m, d), (*batch, hk, m, dv)
    return [RNG.normal(size=size).astype(dtype(kind)) for size in sizes]


def run(library, arrays, **options):
    with precision(library, *arrays):
        found = linear_attention(*(to(library, x) for x in arrays), **options)
        return jax.tree.map(back, found) if library != "torch" else (
            (back(found[0]), tuple(map(back, found[1]))) if isinstance(found, tuple) else back(found))


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("features", FEATURES)
def test_every_form_is_the_formula(library, form, features):
    few = ("more keys", "more queries") if library == "jax" else SHAPES  # each is a compilation
    for shape in few if features == "elu" else ("grouped",):
        arrays = inputs(shape)
        for causal in (False, True):
            found = run(library, arrays, features=features, form=form, causal=causal, chunk_size=3)
            np.testing.assert_allclose(found, oracle(*arrays, features, causal), rtol=1e-9, atol=1e-12, err_msg=shape)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_low_precision_accumulates_in_float32(library, kind):
    arrays = inputs("grouped", kind=kind)
    found = linear_attention(*(to(library, x) for x in arrays), causal=True, chunk_size=4, return_state=True)
    assert str(found[0].dtype).removeprefix("torch.") == kind
    assert {str(s.dtype).removeprefix("torch.") for s in found[1]} == {"float32"}
    limit = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6}[kind]
    assert np.abs(back(found[0]) - oracle(*arrays, causal=True)).max() < limit


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
def test_masked_keys_may_hold_anything(library, form):
    q, k, v = inputs("grouped")
    mask = RNG.random((2, 2, 1, 9)) < 0.6
    poisoned = [np.where(mask.swapaxes(-1, -2), x, np.nan) for x in (k, v)]
    found = run(library, (q, *poisoned), form=form, causal=True, chunk_size=4, mask=to(library, mask))
    np.testing.assert_allclose(found, oracle(q, k, v, causal=True, mask=mask), atol=1e-12)
    nothing = run(library, (q, k, v), form=form, mask=to(library, np.zeros((1, 1, 1, 1), bool)))
    assert not nothing.any()


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cuts", [[3, 6], list(range(1, 9))], ids=str)
def test_any_split_gives_the_same_rows(library, form, cuts):
    arrays, state, rows = inputs("grouped"), None, []
    with precision(library, *arrays):
        for first, last in zip([0, *cuts], [*cuts, 9]):
            part = [to(library, np.ascontiguousarray(x[..., first:last, :])) for x in arrays]
            out, state = linear_attention(*part, causal=True, form=form, chunk_size=2, state=state, return_state=True)
            rows.append(back(out))
    np.testing.assert_allclose(np.concatenate(rows, -2), oracle(*arrays, causal=True), atol=1e-12)
    whole = run(library, arrays, causal=True, return_state=True)[1]
    for a, b in zip(state, whole):
        np.testing.assert_allclose(back(a), b, rtol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
def test_a_state_counts_for_every_query(library, form):
    arrays = inputs("more keys")
    early, late = ([x[..., part, :] for x in arrays[1:]] for part in (slice(0, 5), slice(5, 8)))
    with precision(library, *arrays):
        q, *late = (to(library, np.ascontiguousarray(x)) for x in (arrays[0], *late))
        early = [to(library, np.ascontiguousarray(x)) for x in early]
        state = linear_attention(q, *early, form=form, return_state=True)[1]
        for causal in (False, True):
            found = linear_attention(q, *late, form=form, causal=causal, chunk_size=2, state=state)
            np.testing.assert_allclose(back(found), oracle(*arrays, causal=causal), atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
def test_two_dimensions_are_one_head(library, form):
    arrays = [x[0, 0] for x in inputs("plain")]
    found, (u, z) = run(library, arrays, form=form, causal=True, return_state=True)
    np.testing.assert_allclose(found, oracle(*(x[None] for x in arrays), causal=True)[0], atol=1e-12)
    assert (u.shape, z.shape) == ((4, 4), (4,))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
def test_a_row_whose_weights_sum_to_zero_is_zero(library, form):
    q, k, v = inputs("plain")
    q[..., 2, :] = -1.0
    found = run(library, (q, k, v), features="relu", form=form, causal=True)
    assert not found[..., 2, :].any()
    np.testing.assert_allclose(found, oracle(q, k, v, "relu", causal=True), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("causal", [False, True])
def test_such_a_row_has_no_gradient(form, causal):
    q, k, v = (torch.tensor(x) for x in inputs("plain"))
    q[..., 2, :] = 0.0  # relu(0): the weights are 0, the features' slope may not be
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    shifted = (lambda x: torch.relu(x), lambda x: torch.relu(x) + 0)
    linear_attention(q, k, v, features=shifted, form=form, causal=causal)[..., 2, :].sum().backward()
    assert all(not x.grad.any() for x in (q, k, v))


def hedgehog_arrays(hq=6, hk=2, d=4, f=3):
    return 0.5 * RNG.normal(size=(hq, d, f)), 0.5 * RNG.normal(size=(hk, d, f))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
def test_hedgehog(library, form):
    q, k, v = inputs("grouped")
    wq, wk = hedgehog_arrays()

    def both(y):
        return np.concatenate([np.exp(y), np.exp(-y)], -1)

    expected = oracle(q, k, v, causal=True, maps=(lambda x: both(x @ wq), lambda x: both(x @ np.repeat(wk, 3, 0))))
    with precision(library, q):
        found = linear_attention(*(to(library, x) for x in (q, k, v)), causal=True, form=form, chunk_size=4,
                                 features=Hedgehog(to(library, wq), to(library, wk)))  # fmt: skip
        assert [feature_count(x, 4) for x in (Hedgehog(wq, wk), "taylor", "elu")] == [6, 15, 4]
        np.testing.assert_allclose(back(found), expected, atol=1e-12)


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", ["grouped", "more keys", "more queries"])
def test_distillation_loss_is_a_cross_entropy(library, causal, shape):
    q, k, _ = inputs(shape)
    hq, hk, n, m, d, _ = SHAPES[shape]
    wq, wk = hedgehog_arrays(hq, hk, d)
    visible = np.tri(n, m, m - n, dtype=bool) if causal else np.ones((n, m), bool)
    repeated = np.repeat(k, hq // hk, -3)
    s = np.where(visible, np.exp(q @ repeated.swapaxes(-1, -2) / math.sqrt(d)), 0)
    a = sum(np.exp(sign * q @ wq) @ np.exp(sign * repeated @ np.repeat(wk, hq // hk, 0)).swapaxes(-1, -2)
            for sign in (1, -1))  # fmt: skip
    rows = visible.any(-1)
    p, a = ((y * visible)[..., rows, :] for y in (s, a))
    p, a = (y / y.sum(-1, keepdims=True) for y in (p, a))
    expected = -(p * np.log(np.where(visible[rows], a, 1))).sum(-1).mean()
    with precision(library, q):
        learned = Hedgehog(to(library, wq), to(library, wk))
        found = hedgehog_loss(to(library, q), to(library, k), learned, causal=causal)
        np.testing.assert_allclose(back(found), expected, rtol=1e-12)


@pytest.mark.thin(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "m", "causal"), [(4, 4, True), (2, 4, True), (4, 2, True), (3, 4, False)])
def test_gradients_in_pytorch(form, n, m, causal):
    sizes = (2, n, 2), (1, m, 2), (1, m, 2), (1, 2, 2), (1, 2)  # query, key, value, U, Z
    q, k, v, *state = (torch.tensor(RNG.random(size) + 0.1).requires_grad_() for size in sizes)

    def function(q, k, v, *state):
        out, (u, z) = linear_attention(q, k, v, form=form, causal=causal, chunk_size=2, state=state, return_state=True)
        return out, u, z

    assert torch.autograd.gradcheck(function, (q, k, v, *state))


def loss(library, form, features, causal, q, k, v, learned):
    maps = {"hedgehog": lambda: Hedgehog(*learned), "function": lambda: closing(library, learned[1][0])}.get(features)
    out, (u, z) = linear_attention(q, k, v, form=form, causal=causal, chunk_size=4, return_state=True,
                                   features=maps() if maps else features)  # fmt: skip
    return (out**2).sum() + (u**2).sum() + z.sum()


def closing(library, w):
    """A map that closes over what is learned."""
    return lambda x: (jnp if library == "jax" else torch).exp(x @ w)


@pytest.mark.thin(36)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", ["grouped", "more keys", "more queries"])
@pytest.mark.parametrize("features", ["elu", "taylor", "hedgehog", "function"])
def test_gradients_in_jax_are_those_of_pytorch(form, shape, features):
    arrays = inputs(shape)
    hq, hk, *_, d, _ = SHAPES[shape]
    learned = hedgehog_arrays(hq, hk, d)
    for causal in (False, True):
        leaves = [torch.tensor(x).requires_grad_() for x in (*arrays, *learned)]
        loss("torch", form, features, causal, *leaves[:3], leaves[3:]).backward()
        with jax.enable_x64(True):
            given = [jnp.asarray(x) for x in (*arrays, *learned)]
            function = functools.partial(loss, "jax", form, features, causal)
            found = jax.jit(jax.grad(lambda *x, f=function: f(*x[:3], x[3:]), argnums=range(5)))(*given)
            for a, b in zip(found, leaves):
                np.testing.assert_allclose(a, 0 if b.grad is None else b.grad, rtol=1e-8, atol=1e-9)


def test_jax_under_jit_vmap_and_grad():
    q, k, v = (jnp.asarray(x, jnp.float32) for x in inputs("grouped", batch=(3,)))
    call = functools.partial(linear_attention, causal=True, chunk_size=4)
    np.testing.assert_allclose(jax.jit(jax.vmap(call))(q, k, v), call(q, k, v), atol=1e-6)
    gradient = jax.grad(lambda q, k, v: (call(q, k, v) ** 2).sum())
    np.testing.assert_allclose(jax.jit(jax.vmap(gradient))(q, k, v), jax.jit(gradient)(q, k, v), atol=1e-5)


def test_jax_compiles_named_features_once(monkeypatch):
    from attnlab.linear import jax as module

    calls = []
    monkeypatch.setitem(module.FEATURES, "elu", lambda x: calls.append(1) or jax.nn.elu(x) + 1)
    arrays = [jnp.asarray(x, jnp.float32)[:, :, :5] for x in inputs("plain")]
    linear_attention(*arrays)
    traced = len(calls)
    for _ in range(3):
        linear_attention(*arrays)
    assert len(calls) == traced > 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_errors_name_the_argument(library):
    q, k, v = (to(library, x.astype("float32")) for x in inputs("grouped"))
    call = functools.partial(linear_attention, q, k, v)
    refused(ValueError, "features is 'softmax'; it must be one of elu, relu, taylor, exp", call, features="softmax")
    refused(TypeError, "a name, a function, a pair of functions or a Hedgehog", call, features=3)
    refused(ValueError, r"scale is 0\.5, and it belongs to features='taylor' only", call, scale=0.5)
    refused(ValueError, "form is 'parallel'", call, form="parallel")
    refused(ValueError, "chunk_size is 0", call, chunk_size=0)
    refused(TypeError, r"state must be a pair \(U, Z\)", call, state=q)
    refused(ValueError, "state has shapes", call, state=(q, q[..., 0]))
    refused(TypeError, "mask has dtype float32", call, mask=to(library, np.ones((2, 2, 1, 9), "float32")))
    refused(ValueError, "mask has shape", call, mask=to(library, np.ones((2, 2, 9, 9), bool)))
    refused(ValueError, r"features\.query has shape", call, features=Hedgehog(q[0, :2, :4], k[0, :, :4]))
    refused(ValueError, "key has 2 heads", linear_attention, q[:, :5], k, v)
