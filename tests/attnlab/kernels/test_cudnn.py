"""Calls in JAX go to cuDNN on a GPU where it serves them, and only there: mapped right, lowered, and with a gradient.

Without a GPU, JAX's own implementation stands in for cuDNN: it is the same function with the same arguments.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import Band
from attnlab.kernels import cudnn

GPU = jax.default_backend() == "gpu"
RULES = Rules(0.3, Band(16, 16), (2, 2, 3), lse=False)


def arrays(*batch, hq=6, hk=2, n=16, d=8, kind="bfloat16"):
    """query, key, value."""
    random = np.random.default_rng(7)
    return [jnp.asarray(random.normal(size=(*batch, h, n, d)), kind) for h in (hq, hk, hk)]


@pytest.fixture
def pretended(monkeypatch):
    """A GPU that has cuDNN, as far as asking goes; what it runs is JAX's own implementation."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(cudnn, "has_fused_attention", lambda: True)
    monkeypatch.setattr(cudnn, "IMPLEMENTATION", "xla")
    monkeypatch.setattr(cudnn, "platform_dependent", lambda *x, cuda, default: cuda(*x))
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.thin(6)
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_values_and_gradients_are_those_of_the_loops(batch, causal, pretended, monkeypatch):
    x = arrays(*batch)

    def loss(*x):
        return (attnlab.tiled_attention(*x, causal=causal, scale=0.3).astype(jnp.float32) ** 2).sum()

    both = jax.value_and_grad(loss, argnums=(0, 1, 2))
    found = both(*x)
    monkeypatch.setattr(cudnn, "serves", lambda *call: False)
    jax.clear_caches()
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(both(*x)), strict=True):
        np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), rtol=0.02, atol=0.02)


def served(rules=RULES, sizes=(None, None), x=None, **given):
    x = Inputs(*(jnp.zeros((2, *shape, 16, 8), "bfloat16") for shape in ((2, 3), (2,), (2,)))) if x is None else x
    return cudnn.serves(dataclasses.replace(rules, **{k: v for k, v in given.items() if k not in Inputs._fields}),
                        sizes, x._replace(**{k: v for k, v in given.items() if k in Inputs._fields}))  # fmt: skip


def test_what_is_served(pretended):
    assert served()
    assert served(band=Band(16, 16, right=0))
    half = functools.partial(jnp.zeros, dtype="float16")
    assert served(query=half((2, 2, 3, 16, 8)), key=half((2, 2, 16, 8)), value=half((2, 2, 16, 8)))


@pytest.mark.parametrize("given", [
    dict(lse=True), dict(band=Band(16, 16, left=3)), dict(band=Band(16, 16, right=1)), dict(band=Band(8, 16, right=0)),
    dict(dropout=0.1, seed=1), dict(mask=jnp.ones((1, 1, 1, 1, 16), bool)), dict(bias=jnp.ones((1, 1, 1, 1, 16))),
    dict(offset=jnp.int32(0)), dict(sizes=(16, None)), dict(value=jnp.zeros((2, 2, 16, 4), "bfloat16")),
    dict(x=Inputs(*arrays(2, kind="float32"))), dict(x=Inputs(*arrays(2, d=12))), dict(x=Inputs(*arrays(2, d=136))),
    dict(x=Inputs(*arrays(2, n=0))),
], ids=str)  # fmt: skip
def test_what_is_left_to_the_loops(given, pretended):
    assert not served(**given)


@pytest.mark.skipif(GPU, reason="has a GPU")
def test_a_machine_without_a_gpu_never_asks_for_cudnn(monkeypatch):
    monkeypatch.setattr(cudnn, "run_cudnn", None)
    attnlab.tiled_attention(*arrays(n=24))


def test_a_gradient_by_lse_is_that_of_the_loops(pretended):
    """lse is asked for, so cuDNN, which has no gradient of it, is not."""
    x = arrays(kind="float32")
    found = jax.grad(lambda q: attnlab.tiled_attention(q, *x[1:], return_lse=True)[1].sum())(x[0])
    expected = jax.grad(lambda q: attnlab.safe_attention(q, *x[1:], return_lse=True)[1].sum())(x[0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_cudnn_gives_the_values_of_safe_attention(causal):
    x = arrays(2, n=128, d=64)
    out, expected = (f(*x, causal=causal) for f in (attnlab.tiled_attention, attnlab.safe_attention))
    np.testing.assert_allclose(out.astype(np.float32), expected.astype(np.float32), rtol=0.02, atol=0.02)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_on_a_gpu_the_program_calls_cudnn():
    """Forward and backward."""
    step = jax.value_and_grad(lambda *x: attnlab.tiled_attention(*x, causal=True).astype(jnp.float32).sum(), (0, 1, 2))
    text = jax.jit(step).lower(*arrays(n=128, d=64)).as_text()
    assert "__cudnn$fmhaSoftmax" in text
    assert "__cudnn$fmhaSoftmaxBackward" in text


@pytest.mark.parametrize("machine", ["cpu", "gpu"])
def test_each_device_gets_one_version(monkeypatch, machine):
    """Lowered for a GPU that serves the call the program has no loop, forward and backward; for a CPU it has."""
    monkeypatch.setattr(jax, "default_backend", lambda: machine)
    monkeypatch.setattr(cudnn, "has_fused_attention", lambda: True)
    monkeypatch.setattr(cudnn, "IMPLEMENTATION", "xla")
    jax.clear_caches()
    step = jax.value_and_grad(lambda *x: attnlab.tiled_attention(*x, causal=True).astype(jnp.float32).sum(), (0, 1, 2))
    traced = jax.jit(step).trace(*arrays(n=128, d=64))
    assert "stablehlo.while" in traced.lower(lowering_platforms=("cpu",)).as_text()
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert ("stablehlo.while" in text) == (machine == "cpu")
    jax.clear_caches()
