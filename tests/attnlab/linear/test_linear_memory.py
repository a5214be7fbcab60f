"""Memory of linear attention, measured against its closed forms: constant in length forward, states backward."""

import functools

import jax
import numpy as np
import pytest
import torch

from attnlab import costs
from attnlab.linear import linear_attention
from attnlab.linear.delta import delta_attention
from attnlab.measure import extra_bytes, in_fresh_process, jax_bytes
from tests.support import needs
from tests.support.libraries import LIBRARIES, to

D, WIDE = 32, 64  # the latter with the delta rule
CASES = [("elu", True), ("elu", False), ("taylor", True)]
LENGTHS, SHORT = (1024, 2048), 160
OTHERS = {"quadratic": 2.5, "recurrent": 4}
"""Weights and their lower triangle; the state of a token before, what it adds, and after."""
LATER = [pytest.param(library, marks=() if library == "numpy" else pytest.mark.full) for library in LIBRARIES]


def delta(query, key, value, beta, log_decay):
    return delta_attention(query, key, value, beta=beta, log_decay=log_decay)


def peak(library, n, form, features, causal, gradient, heads=1):
    """Bytes per head of one call with float32 inputs of n tokens, each query head with its own keys."""
    call, sizes = functools.partial(linear_attention, form=form, features=features, causal=causal), [(heads, n, D)] * 3
    if form == "delta":
        call, sizes = delta, [(heads, n, WIDE)] * 3 + [(heads, n)] * 2

    def gradients(*arrays):
        if library == "jax":
            return jax.grad(lambda *arrays: call(*arrays).sum(), argnums=(0, 1, 2))(*arrays)
        out = call(*arrays)
        return out, *torch.autograd.grad(out.sum(), arrays)

    measured = gradients if gradient else call
    if library == "jax":
        return jax_bytes(measured, *(jax.ShapeDtypeStruct(size, "float32") for size in sizes)) / heads
    arrays = [to(library, np.full(size, 1 if k < 4 else -1, "float32")) for k, size in enumerate(sizes)]
    call(*(x[:, :1] for x in arrays))  # what a first call imports is not measured
    if library == "torch":
        arrays = [x.requires_grad_(gradient) for x in arrays]
    return extra_bytes(measured, *arrays) / heads


def tasks(library, every):
    """What is measured of a library; at night of the other forms, too, short, as single tokens take long."""
    passes = (False,) if library == "numpy" else (False, True)
    for features, causal in CASES:
        yield from (("chunked", features, causal, False, n) for n in LENGTHS)
        yield from (("chunked", features, causal, True, LENGTHS[1]) for _ in passes[1:])
    if every:
        yield from ((form, "elu", True, gradient, SHORT) for form in OTHERS for gradient in passes)
    yield from (("delta", "elu", True, False, n, 2) for n in LENGTHS)
    yield from (("chunked", "elu", True, False, n, 4) for n in LENGTHS)


@functools.cache
def measured(library, every=False):
    """All measurements of a library, in one process."""
    needs(library)
    names = "form", "features", "causal", "gradient", "n", "heads"
    todo = [dict(zip(names, task)) for task in tasks(library, every)]
    found = in_fresh_process(f"{__name__}:peak", [{"library": library, **task} for task in todo])
    return {tuple(task.values()): size for task, size in zip(todo, found, strict=True)}


def promised(form, features, n, gradient):
    """The closed form, in bytes."""
    return 4 * costs.linear_extra_elements(form, n, n, D, D, features=features, gradient=gradient)


@pytest.mark.thin(12)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("features", "causal", "heads"), [*((*case, ()) for case in CASES), ("elu", True, (4,))])
def test_forward_is_constant_in_length(library, features, causal, heads):
    one, two = (measured(library)["chunked", features, causal, False, n, *heads] for n in LENGTHS)
    assert two <= 1.02 * one
    assert one <= 2.5 * promised("chunked", features, LENGTHS[0], False)


@pytest.mark.parametrize("library", LATER)
def test_the_delta_rule_is_constant_in_length(library):
    one, two = (measured(library)["delta", "elu", True, False, n, 2] for n in LENGTHS)
    assert two <= 1.02 * one
    assert two <= 1.5 * 4 * costs.delta_extra_elements(WIDE, WIDE)


@pytest.mark.full
@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize(("features", "causal"), CASES)
def test_gradient_holds_states_and_copies(library, features, causal):
    n = LENGTHS[1]
    assert measured(library)["chunked", features, causal, True, n] <= 1.5 * promised("chunked", features, n, True)


@pytest.mark.full
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", OTHERS)
def test_other_forms(library, form):
    peaks = measured(library, every=True)
    assert peaks[form, "elu", True, False, SHORT] <= OTHERS[form] * promised(form, "elu", SHORT, False)
    if library != "numpy":
        assert peaks[form, "elu", True, True, SHORT] <= 1.6 * promised(form, "elu", SHORT, True)
