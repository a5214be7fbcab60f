"""tiled_attention_backward, the gradient by hand: what autodiff gives, in every library."""

import jax
import numpy as np
import pytest
import torch

import attnlab
from tests.support import oracle, refused
from tests.support.libraries import LIBRARIES, back, function, to

SHAPES = {"query": (2, 4, 5, 3), "key": (2, 2, 7, 3), "value": (2, 2, 7, 2)}
CASES = {
    "plain": {},
    "bias": {"bias": (4, 5, 7), "causal": True, "dropout": 0.3, "seed": 5},
    "a bias of one row, a loss without lse": {"bias": (2, 1, 1, 7), "window": (3, 1), "dlse": None},
    "a bias of one number": {"bias": (1, 1), "mask": True, "offset": 0, "causal": True},
}


def call(name, kind=np.float32):
    """Arrays, options and the gradients (dout, dlse) of one case."""
    random, options = np.random.default_rng(4), dict(CASES[name])
    arrays = {key: random.normal(size=shape) for key, shape in SHAPES.items()}
    if "bias" in options:
        arrays["bias"] = random.normal(size=options.pop("bias"))
    dout, dlse = random.normal(size=(2, 4, 5, 2)), random.normal(size=(2, 4, 5))
    arrays = {key: x.astype(kind) for key, x in arrays.items()}
    dlse = options.pop("dlse", dlse)
    if options.pop("mask", False):
        arrays["mask"] = random.random((5, 7)) < 0.7
    return arrays, options, dout.astype(kind), dlse if dlse is None else dlse.astype(kind)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("algorithm", ["tiled", "safe"])
def test_it_is_the_gradient_whichever_algorithm_gave_the_result(library, name, algorithm):
    arrays, options, dout, dlse = call(name)
    expected = oracle.gradients(**arrays, dout=dout, dlse=dlse, **options)
    x = {key: to(library, y) for key, y in arrays.items()}
    results = function(algorithm)(**x, **options, return_lse=True)
    sizes = {"block_q": 2, "block_k": 3}
    more = {"dlse": dlse if dlse is None else to(library, dlse), **options, **sizes}
    grads = attnlab.tiled_attention_backward(**x, **dict(zip(("out", "lse"), results)), dout=to(library, dout), **more)
    assert len(grads) == 3 + ("bias" in arrays)
    for key, grad in zip(("query", "key", "value", "bias"), grads):
        np.testing.assert_allclose(back(grad), getattr(expected, key), atol=2e-5, err_msg=key)


def test_under_jit_and_vmap():
    arrays, options, dout, _ = call("plain")
    x = [jax.numpy.asarray(arrays[key]) for key in SHAPES]
    out, lse = attnlab.tiled_attention(*x, return_lse=True)
    expected = attnlab.tiled_attention_backward(*x, out, lse, dout := jax.numpy.asarray(dout))
    for transformed in (jax.jit, jax.vmap):
        got = transformed(attnlab.tiled_attention_backward)(*x, out, lse, dout)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), got, expected)
    y = [to("torch", np.asarray(z)) for z in (*x, out, lse, dout)]
    for grad, other in zip(torch.func.vmap(attnlab.tiled_attention_backward)(*y), expected):
        np.testing.assert_allclose(grad.numpy(), other, atol=1e-5)


def test_a_pytorch_gradient_has_no_second_one():
    arrays, _, dout, _ = call("plain")
    x = [to("torch", arrays[key]).requires_grad_() for key in SHAPES]
    results = attnlab.tiled_attention(*x, return_lse=True)
    dq, *_ = attnlab.tiled_attention_backward(*x, *results, to("torch", dout))
    refused(NotImplementedError, "safe_attention", dq.sum().backward)
