"""Linear attention on the machine: right, every load and operation counted, and equal to the closed forms."""

from fractions import Fraction

import numpy as np
import pytest
from attnlab_course.instruments.machine import (
    Machine,
    linear_chunked_forward,
    linear_quadratic_forward,
    linear_recurrent_forward,
)

from attnlab import costs
from attnlab.linear import FEATURES, feature_count, linear_attention

SIZES = [(11, 3, 5), (1, 4, 2), (12, 4, 4), (8, 5, 1)]


def draw(n, d, dv):
    """Q, K (n, d) and V (n, dv)."""
    random = np.random.default_rng(n)
    return {name: random.normal(size=(n, size)) for name, size in zip("QKV", (d, d, dv))}


def put(on, arrays):
    """References to the arrays, brought into HBM."""
    return [on.put(name, x) for name, x in arrays.items()]


def check(on, cost):
    """The machine counted ``cost``."""
    assert (on.loads, on.stores, on.fills) == (cost.reads, cost.writes, cost.fills)
    assert on.bytes == cost.bytes
    assert (on.work.products, on.work.exponentials, on.work.rest) == (cost.products, cost.exponentials, cost.rest)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(("n", "d", "dv"), SIZES)
def test_the_quadratic_form_counts_its_closed_form(n, d, dv, features):
    arrays, on = draw(n, d, dv), Machine(itemsize=4)
    found = linear_quadratic_forward(on, *put(on, arrays), features=features, block_q=3)
    right = linear_attention(*arrays.values(), features=features, causal=True)
    np.testing.assert_allclose(on.fetch(found), right, atol=1e-13)
    check(on, costs.linear("quadratic", n, d, dv, features=features, itemsize=4))
    assert on.elements == 2 * n * (d + dv) + 2 * n * n


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("size", [None, 1, 4, 99])
@pytest.mark.parametrize(("n", "d", "dv"), SIZES)
def test_steps_count_their_closed_form(n, d, dv, size, features):
    """The recurrent form, and chunks; without a state and with one."""
    arrays, f = draw(n, d, dv), feature_count(features, d)
    form, chunk = ("recurrent", {}) if size is None else ("chunked", {"chunk_size": size})
    forward = linear_recurrent_forward if size is None else linear_chunked_forward
    before = None
    for again in (False, True):
        on = Machine(itemsize=4)
        state = before and tuple(on.put(name, x) for name, x in zip("UZ", before))
        out, state = forward(on, *put(on, arrays), features=features, state=state, **chunk)
        right, after = linear_attention(
            *arrays.values(), features=features, causal=True, state=before, return_state=True
        )
        for result, expected in zip((out, *state), (right, *after)):
            np.testing.assert_allclose(on.fetch(result), expected, atol=1e-12)
        check(on, costs.linear(form, n, d, dv, features=features, state=again, itemsize=4, **chunk))
        assert on.elements == 2 * n * (d + dv) + (1 + again) * f * (dv + 1)
        before = after


def test_break_even_lengths():
    """Caches as large as a state: published sizes of head and features."""
    based = feature_count("taylor", 16)
    assert costs.break_even_length(64, 64, 64) == 32.5
    assert int(costs.break_even_length(feature_count("taylor", 64), 64, 64)) == 1089
    assert int(costs.break_even_length(based, 16, 64)) == 124
    assert int(costs.break_even_length(1 + 64 + 64**2, 64, 64)) == 2113  # all products
    assert Fraction(costs.state_elements(based, 64), 16 + 64) == Fraction(9945, 80)


@pytest.mark.parametrize(("call", "sizes"), [(costs.linear, 3), (costs.linear_extra_elements, 4)])
def test_an_unknown_form_is_refused(call, sizes):
    with pytest.raises(KeyError, match="parallel"):
        call("parallel", *[8] * sizes)


def test_extra_memory_of_the_forms():
    """Docstring of linear_attention: C² + 2CF + F (Dv + 1) in chunks; a chunk is not longer than the sequence."""
    n, d, c, f = 4096, 64, 128, 64
    state, tile = f * 65, c * c + 2 * c * f
    assert costs.linear_extra_elements("chunked", n, n, d, d) == tile + state
    assert costs.linear_extra_elements("chunked", n, n, d, d, gradient=True) == 32 * state + 3 * n * d + 3 * tile
    assert costs.linear_extra_elements("chunked", 5, 5, d, d) == 5 * 5 + 2 * 5 * f + state
    assert costs.linear_extra_elements("quadratic", n, n, d, d, group=2) == 2 * n * n + 3 * n * f + state
