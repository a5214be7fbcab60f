"""Logits are those of the definition in three libraries, whatever is plugged in, and however the text is cut."""

from dataclasses import replace
from itertools import pairwise

import jax
import numpy as np
import pytest
import torch
from attnlab_course import model
from attnlab_course.model.torch import Transformer

from attnlab.cache import KVCache, RollingCache
from tests.course.model.small import CONFIG, TOKENS, definition, small
from tests.support.libraries import LIBRARIES, back, precision

SINK = replace(CONFIG, sink=True)
DOUBLE = np.zeros(0)


def fed(lm, attend, splits, tokens=TOKENS):
    """Logits of the tokens, given in chunks that end at ``splits`` and at the end."""
    ends = [0, *splits, tokens.shape[-1]]
    return np.concatenate([back(lm.logits(tokens[..., a:b], attend)) for a, b in pairwise(ends)], -2)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("config", [CONFIG, SINK], ids=["plain", "sink"])
def test_logits_are_those_of_the_definition(library, config):
    p = small("numpy", config).parameters
    expected = np.stack([definition(config, p, row) for row in TOKENS])
    with precision(library, DOUBLE):
        lm = small(library, config)
        logits = jax.jit(lm.logits) if library == "jax" else lm.logits
        np.testing.assert_allclose(back(logits(TOKENS)), expected, atol=1e-11)
        if library != "jax":  # its caches have a test of their own, which compiles a step
            cached = fed(lm, model.Cached(capacity=11, return_lse=config.sink), [4, 5])
            np.testing.assert_allclose(cached, expected, atol=1e-11)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_row_that_sees_nothing_stays_zero_beside_any_sink(library):
    """As in a model without sinks; and a sink of −∞ is none."""
    def blind(layer, query, key, value):
        return 0 * query, 0 * query[..., 0] - np.inf

    def seeing(layer, query, key, value):
        return query, 0 * query[..., 0]

    with precision(library, DOUBLE):
        lm = small(library, SINK)
        kept = {name: x for name, x in lm.parameters.items() if not name.endswith("sink")}
        plain = replace(lm, config=CONFIG, parameters=kept)
        silent = replace(lm, parameters={name: x if name in kept else x - np.inf for name, x in lm.parameters.items()})
        for sinks, attend in [(lm, blind), (silent, blind), (silent, seeing)]:
            expected = plain.logits(TOKENS, lambda *x, attend=attend: attend(*x)[0])
            np.testing.assert_allclose(back(sinks.logits(TOKENS, attend)), back(expected), atol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_window_and_a_rolling_cache_are_the_same(library):
    expected = definition(CONFIG, small("numpy").parameters, TOKENS[0], window=3)
    lm = small(library)
    for attend, splits in [
        (model.dense(window=(2, 0)), []), (model.dense("safe", window=(2, 0)), []),
        (model.Cached(RollingCache, window=3), [4, 5]), (model.Cached(RollingCache, window=3, rotary=1e4), [1, 8]),
    ]:  # fmt: skip
        np.testing.assert_allclose(fed(lm, attend, splits)[0], expected, atol=1e-11)


@pytest.mark.parametrize("library", LIBRARIES)
def test_greedy_text_does_not_depend_on_library_or_cache(library):
    expected = small("numpy").generate("abc", 8, cached=False)
    assert len(expected) == 8
    with precision(library, DOUBLE):
        lm = small(library)
        assert lm.generate(b"abc", 8) == expected
        if library != "jax":
            assert lm.generate("abc", 8, model.Cached(RollingCache, window=12)) == expected
    if library == "numpy":
        assert small("numpy", SINK).generate("abc", 8) == small("numpy", SINK).generate("abc", 8, cached=False)


def test_a_step_is_jitted_with_its_caches_and_the_parameters_have_gradients():
    with jax.enable_x64(True):
        lm = small("jax")
        expected = small("numpy").logits(TOKENS)
        empty = np.zeros((2, CONFIG.kv_heads, 1, CONFIG.d))
        caches = {i: KVCache.empty(*map(jax.numpy.asarray, (empty, empty)), capacity=11) for i in range(CONFIG.layers)}

        @jax.jit
        def step(caches, token):
            cached = model.Cached(caches=caches)
            return lm.logits(token, cached), cached.caches

        for t in range(11):
            row, caches = step(caches, TOKENS[:, t : t + 1])
            np.testing.assert_allclose(row[:, 0], expected[:, t], atol=1e-11)
        assert step._cache_size() == 1

        def loss(parameters):
            return model.Model(CONFIG, parameters).logits(TOKENS).sum()

        found = jax.jit(jax.grad(loss))(lm.parameters)
    net = Transformer(CONFIG).double()
    net.load_state_dict(small("torch").parameters)
    net(torch.from_numpy(TOKENS), model.dense()).sum().backward()
    for name, p in net.named_parameters():
        np.testing.assert_allclose(found[name], p.grad, rtol=1e-8, atol=1e-9, err_msg=name)
    assert {name: tuple(p.shape) for name, p in net.named_parameters()} == CONFIG.shapes


def test_bits():
    logits = np.zeros((2, 3, 257))
    logits[0, 0, 5] = 1e4
    found = model.bits(logits, np.array([[7, 5, 1], [9, 9, 9]]))
    np.testing.assert_allclose(found, [[0, np.log2(257)], [np.log2(257), np.log2(257)]])
    assert model.bits(torch.zeros(3, 257), model.tokens("ab")).dtype == np.float64


def test_tokens():
    np.testing.assert_array_equal(model.tokens("é"), [256, 0xC3, 0xA9])
    np.testing.assert_array_equal(model.tokens(b"\x00\xff", first=False), [0, 255])


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda lm: lm.logits(np.array([0.5])), TypeError, "tokens"),
    (lambda lm: lm.logits([1, 2]), TypeError, "tokens is of type list"),
    (lambda lm: lm.logits(np.array([1, 257])), ValueError, "tokens reach from 1 to 257; they must lie in 0 … 256"),
    (lambda lm: model.tokens(3), TypeError, "text is of type int"),
    (lambda lm: model.bits(np.zeros((2, 257)), np.zeros(3, int)), ValueError, "logits has shape (2, 257), tokens (3,)"),
    (lambda lm: small("numpy", replace(CONFIG, first=False)).generate("", 1), ValueError, "prompt is empty"),
    (lambda lm: model.load("large"), ValueError, "name is 'large'; it must be one of base, no_first, learned_sink"),
    (lambda lm: model.load(dtype="float16"), ValueError, "dtype is 'float16'"),
    (lambda lm: model.load(library="jax", dtype="float64"), ValueError, "jax_enable_x64"),
])  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error) as caught:
        call(small("numpy"))
    assert text in str(caught.value)
