"""Memory of linear attention, measured against the promise: constant in length forward, states and copies backward."""

import functools

import jax
import numpy as np
import pytest
import torch

from attnlab.linear import feature_count, linear_attention
from attnlab.measure import extra_bytes, in_fresh_process, jax_bytes
from tests.support.libraries import LIBRARIES

D, C = 32, 128
CASES = [("elu", True), ("elu", False), ("taylor", True)]


def peak(library, n, features, causal, gradient):
    """Bytes of one call for one head, with float32 inputs of n tokens."""
    attend = functools.partial(linear_attention, features=features, causal=causal)
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
    """All measurements of a library, in one process."""
    tasks = [dict(library=library, n=n, features=features, causal=causal, gradient=gradient)
             for features, causal in CASES for gradient in ((False,) if library == "numpy" else (False, True))
             for n in (1024, 2048)]  # fmt: skip
    found = in_fresh_process("tests.linear.test_linear_memory:peak", tasks)
    return {(t["features"], t["causal"], t["gradient"], t["n"]): size for t, size in zip(tasks, found)}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("features", "causal"), CASES)
def test_forward_is_constant_in_length(library, features, causal):
    one, two = (measured(library)[features, causal, False, n] for n in (1024, 2048))
    f = feature_count(features, D)
    assert two <= 1.02 * one
    assert one <= 2.5 * 4 * (C * C + 2 * C * f + f * (D + 1))


@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize(("features", "causal"), CASES)
def test_gradient_holds_states_and_copies(library, features, causal):
    f = feature_count(features, D)
    for n in (1024, 2048):
        promised = n // C * f * (D + 1) + 3 * n * D + 3 * (C * C + 2 * C * f)
        assert measured(library)[features, causal, True, n] <= 1.5 * 4 * promised
