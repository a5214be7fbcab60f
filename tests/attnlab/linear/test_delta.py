"""The delta rule: three forms in three libraries are one definition; states, resets, gradients."""


import jax
import numpy as np
import pytest
import torch

from attnlab.linear import delta_attention
from attnlab.linear.delta import FORMS
from tests.support.libraries import LIBRARIES, back, dtype, precision, to

RNG = np.random.default_rng(0)
N, F, DV = 11, 4, 3
def inputs(heads=(2, 4), groups=2, n=N, kind="float64", reset=True):
    """query, key (of length 1), value, beta up to 2, log decay with a reset, and a state."""
    *batch, hk = heads
    query = RNG.normal(size=(*batch, hk * groups, n, F))
    key = RNG.normal(size=(*heads, n, F))
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    value, beta = RNG.normal(size=(*heads, n, DV)), RNG.uniform(0, 2, (*heads, n))
    decay = -RNG.exponential(0.5, (*heads, n))
    if reset and n > 5:
        decay[..., 5] = -np.inf
    state = RNG.normal(size=(*heads, F, DV))
    wide = "float64" if kind == "float64" else "float32"
    return [x.astype(dtype(kind)) for x in (query, key, value, beta, decay)] + [state.astype(wide)]


def definition(query, key, value, beta, decay, state, erase=True):
    """(25.1) with dense matrices, token by token."""
    out, groups = np.zeros((*query.shape[:-1], value.shape[-1])), query.shape[-3] // key.shape[-3]
    for t in range(query.shape[-2]):
        k, v, b = key[..., t, :, None], value[..., t, None, :], beta[..., t, None, None]
        erased = np.eye(key.shape[-1]) - b * k @ k.swapaxes(-1, -2) if erase else np.eye(key.shape[-1])
        state = np.exp(decay[..., t, None, None]) * (erased @ state) + b * k @ v
        out[..., t, :] = (query[..., t, None, :] @ np.repeat(state, groups, -3))[..., 0, :]
    return out, state


def run(library, arrays, **options):
    with precision(library, *(x for x in arrays if x is not None)):
        query, key, value, beta, decay, state = (None if x is None else to(library, x) for x in arrays)
        options = {"beta": beta, "log_decay": decay, "state": state, "return_state": True, **options}
        return tuple(map(back, delta_attention(query, key, value, **options)))


@pytest.mark.thin(2)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("form", "chunk"), [("recurrent", None), ("quadratic", None), ("chunked", 1), ("chunked", 3), ("chunked", 64)]
)
@pytest.mark.parametrize("erase", [True, False])
def test_every_form_is_the_definition(library, form, chunk, erase):
    arrays = inputs()
    found = run(library, arrays, form=form, chunk_size=chunk, erase=erase)
    for ours, right in zip(found, definition(*arrays, erase=erase)):
        np.testing.assert_allclose(ours, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_any_split_gives_the_same_rows(library):
    arrays = inputs()
    right, last = definition(*arrays)
    *arrays, state = arrays
    rows = []
    for part in (slice(0, 4), slice(4, 4), slice(4, 5), slice(5, N)):
        cut = [x[..., part, :] for x in arrays[:3]] + [x[..., part] for x in arrays[3:]]
        out, state = run(library, (*map(np.ascontiguousarray, cut), state), chunk_size=2)
        rows.append(out)
    np.testing.assert_allclose(np.concatenate(rows, -2), right, atol=1e-12)
    np.testing.assert_allclose(state, last, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_defaults_add_and_two_dimensions_are_one_head(library):
    q, k, v, *_ = inputs((1,), 1)
    for erase, right in ((False, np.tril(q[0] @ k[0].T) @ v[0]), (True, None)):
        found, _ = run(library, (q[0], k[0], v[0], None, None, None), erase=erase)
        if right is None:
            ones, zeros = np.ones((1, N)), np.zeros((1, N))
            right = definition(q, k, v, ones, zeros, np.zeros((1, F, DV)))[0][0]
        np.testing.assert_allclose(found, right, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", FORMS)
def test_tokens_that_the_mask_leaves_out_change_nothing(library, form):
    arrays = inputs()
    mask = RNG.random((2, 4, 1, N)) < 0.6
    kept = mask[..., 0, :]
    quiet, spoiled = (
        [arrays[0], *(np.where(kept[..., None] if x.ndim == 4 else kept, x, fill) for x in arrays[1:5])]
        for fill in (0, np.nan)
    )
    found = run(library, (*spoiled, arrays[5]), form=form, chunk_size=4, mask=to(library, mask))
    for ours, right in zip(found, definition(*quiet, arrays[5])):
        np.testing.assert_allclose(ours, right, atol=1e-12)
    nobody = run(library, arrays, form=form, mask=to(library, np.zeros((1, 1), bool)))
    np.testing.assert_allclose(nobody[1], arrays[5])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("what", ["one key", "small decays", "no tokens", "resets everywhere"])
def test_where_other_ways_to_compute_it_break(library, what):
    """One key 64 times breaks products of powers, small decays a quotient, resets a difference of running sums."""
    q, k, v, b, g, state = inputs((2,), 1, 0 if what == "no tokens" else 64, "float32", reset=False)
    if what == "one key":
        k[...], b[...], g[...] = k[:, :1], 1, 0
    elif what == "small decays":
        g[...] = -20
    elif what == "resets everywhere":
        g[..., ::3] = -np.inf
    found = run(library, (q, k, v, b, g, state))
    for ours, right in zip(found, definition(*(x.astype(np.float64) for x in (q, k, v, b, g, state)))):
        np.testing.assert_allclose(ours, right, rtol=0, atol=1e-5 * max(1, np.abs(right).max(initial=0)))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("kind", "limit"), [("float16", 2e-3), ("bfloat16", 2e-2), ("float32", 2e-6)])
def test_low_precision_accumulates_in_float32(library, kind, limit):
    arrays = inputs(kind=kind)
    out, state = delta_attention(*(to(library, x) for x in arrays[:3]), beta=to(library, arrays[3]),
                                 log_decay=to(library, arrays[4]), state=to(library, arrays[5]), return_state=True)
    assert str(out.dtype).removeprefix("torch.") == kind
    assert str(state.dtype).removeprefix("torch.") == "float32"
    right, _ = definition(*(x.astype(np.float64) for x in arrays))
    assert np.abs(back(out) - right).max() < limit * np.abs(right).max()


def loss(library, arrays, **options):
    out, state = delta_attention(*arrays[:3], beta=arrays[3], log_decay=arrays[4], state=arrays[5], return_state=True,
                                 **options)
    return (out**2).sum() + (state**3).sum()


@pytest.mark.parametrize("form", FORMS)
def test_gradients_agree_and_stay_finite_at_a_reset(form):
    arrays = inputs((1, 2))
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    loss("torch", tensors, form=form, chunk_size=4).backward()
    with precision("jax", *arrays):
        found = jax.jit(jax.grad(lambda *x: loss("jax", x, form=form, chunk_size=4), tuple(range(6))))(*arrays)
    recurrent = [torch.tensor(x, requires_grad=True) for x in arrays]
    loss("torch", recurrent, form="recurrent").backward()
    for name, torchs, jaxs, right in zip(["q", "k", "v", "b", "g", "s"], tensors, found, recurrent):
        assert torch.isfinite(torchs.grad).all(), name
        np.testing.assert_allclose(back(torchs.grad), back(right.grad), rtol=1e-9, atol=1e-10, err_msg=name)
        np.testing.assert_allclose(np.asarray(jaxs), back(right.grad), rtol=1e-9, atol=1e-10, err_msg=name)


@pytest.mark.thin(3)
@pytest.mark.parametrize("form", FORMS)
def test_gradcheck(form):
    arrays = [torch.tensor(x, requires_grad=True) for x in inputs((2,), 1, 5, reset=False)]
    call = lambda *x: delta_attention(*x[:3], beta=x[3], log_decay=x[4], state=x[5], return_state=True, form=form,  # noqa: E731
                                      chunk_size=2)
    assert torch.autograd.gradcheck(call, arrays)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("change", "error", "words"), [
    ({"log_decay": np.full((4, N), 0.1)}, ValueError, "log_decay has a value above 0"),
    ({"beta": np.ones((2, N))}, ValueError, r"beta has shape \(2, 11\); it must be"),
    ({"beta": np.ones((4, N), int)}, TypeError, "beta has dtype int64"),
    ({"key": np.ones((4, 9, F)), "value": np.ones((4, 9, DV))}, ValueError, "key has length 9, query has 11"),
    ({"state": np.ones((4, F, DV), np.float32)}, TypeError, "state has dtype float32; with this query it must be"),
    ({"state": np.ones((4, F + 1, DV))}, ValueError, r"state has shape \(4, 5, 3\)"),
    ({"mask": np.ones((4, 1, N))}, TypeError, "mask has dtype float64"),
    ({"mask": np.ones((3, 1, N), bool)}, ValueError, "does not broadcast"),
    ({"form": "parallel"}, ValueError, "form is 'parallel'; it must be one of chunked, recurrent, quadratic"),
    ({"chunk_size": 0}, ValueError, "chunk_size is 0; it must be at least 1"),
    ({"erase": 1}, TypeError, "erase is 1"),
])
def test_errors(library, change, error, words):
    q, k, v, b, g, state = inputs((4,), 1)
    given = {"query": q, "key": k, "value": v, "beta": b, "log_decay": g, "state": state, **change}
    with precision(library, q), pytest.raises(error, match=words):
        delta_attention(**{name: to(library, x) if isinstance(x, np.ndarray) else x for name, x in given.items()})
