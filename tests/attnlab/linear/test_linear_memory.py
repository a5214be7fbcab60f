"""Memory of linear attention, measured against its closed forms: constant in length forward, states backward."""

import functools

import jax
import numpy as np
import pytest
import torch

from attnlab import costs
from attnlab.linear import linear_attention
from attnlab.measure import extra_bytes, in_fresh_process, jax_bytes
from tests.support import needs
from tests.support.libraries import LIBRARIES

D = 32
CASES = [("elu", True), ("elu", False), ("taylor", True)]
LENGTHS, SHORT = (1024, 2048), 160


def peak(library, n, form, features, causal, gradient):
    """Bytes of one call for one head, with float32 inputs of n tokens."""
    attend = functools.partial(linear_attention, form=form, features=features, causal=causal)
    if library == "jax":
        gradients = jax.grad(lambda *arrays: attend(*arrays).sum(), argnums=(0, 1, 2))
        return jax_bytes(gradients if gradient else attend, *[jax.ShapeDtypeStruct((1, n, D), "float32")] * 3)
    arrays = [np.ones((1, n, D), "float32") for _ in range(3)]
    attend(*(x[:, :1] for x in arrays))  # what a first call imports is not measured
    if library == "numpy":
        return extra_bytes(attend, *arrays)
    arrays = [torch.from_numpy(x).requires_grad_(gradient) for x in arrays]

    def gradients(*arrays):
        out = attend(*arrays)
        return out, *torch.autograd.grad(out.sum(), arrays)

    return extra_bytes(gradients if gradient else attend, *arrays)


@functools.cache
def measured(library):
    """All measurements of a library, in one process; those of the other forms short, as single tokens take long."""
    needs(library)
    cases = [("chunked", *case, n) for case in CASES for n in LENGTHS]
    cases += [(form, "elu", True, SHORT) for form in ("recurrent", "quadratic")]
    passes = (False,) if library == "numpy" else (False, True)
    tasks = [dict(library=library, form=form, features=features, causal=causal, gradient=gradient, n=n)
             for form, features, causal, n in cases for gradient in passes]  # fmt: skip
    found = in_fresh_process("tests.attnlab.linear.test_linear_memory:peak", tasks)
    return {tuple(task.values())[1:]: size for task, size in zip(tasks, found)}


def promised(form, features, n, gradient):
    """The closed form, in bytes."""
    return 4 * costs.linear_extra_elements(form, n, n, D, D, features=features, gradient=gradient)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("features", "causal"), CASES)
def test_forward_is_constant_in_length(library, features, causal):
    one, two = (measured(library)["chunked", features, causal, False, n] for n in LENGTHS)
    assert two <= 1.02 * one
    assert one <= 2.5 * promised("chunked", features, LENGTHS[0], False)


def peak_of_heads(n):
    """Bytes per head that JAX's compiler plans for four heads of n tokens, each query head with its own keys."""
    arrays = [jax.ShapeDtypeStruct((4, n, D), "float32")] * 3
    return jax_bytes(functools.partial(linear_attention, causal=True), *arrays) / 4


def test_heads_in_jax_are_constant_in_length_too():
    one, two = in_fresh_process("tests.attnlab.linear.test_linear_memory:peak_of_heads", [{"n": n} for n in LENGTHS])
    assert two <= 1.02 * one
    assert two <= 2.5 * promised("chunked", "elu", LENGTHS[0], False)


@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize(("features", "causal"), CASES)
def test_gradient_holds_states_and_copies(library, features, causal):
    for n in LENGTHS:
        assert measured(library)["chunked", features, causal, True, n] <= 1.5 * promised("chunked", features, n, True)


@pytest.mark.parametrize("library", LIBRARIES)
def test_other_forms(library):
    """Weights and their lower triangle; the state of a token before, what it adds, and after."""
    for form, limit in {"quadratic": 2.5, "recurrent": 4}.items():
        assert measured(library)[form, "elu", True, False, SHORT] <= limit * promised(form, "elu", SHORT, False)
        if library != "numpy":
            assert measured(library)[form, "elu", True, True, SHORT] <= 1.6 * promised(form, "elu", SHORT, True)
