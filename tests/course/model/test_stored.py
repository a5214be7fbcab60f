"""What the package holds: small weights, the same in three libraries, that make use of their context."""

import json

import numpy as np
import pytest
from attnlab_course import model
from attnlab_course.model import text
from attnlab_course.model.store import data

from tests.support.libraries import back, dtype_of


def held_out(count, size, first=True):
    """Tokens (count, size) of the excerpt, from equally distant places."""
    found = model.excerpt()
    starts = np.linspace(0, len(found) - size, count).astype(int)
    return np.stack([model.tokens(found[start : start + size], first) for start in starts])


def test_the_weights_are_small():
    files = {path.name: path for path in data().iterdir()}
    trained = {f"{name}.{kind}" for name in model.NAMES for kind in ("npz", "json")}
    assert set(files) == trained | {"excerpt.txt", "LICENSE.txt"}
    assert sum(path.stat().st_size for name, path in files.items() if name.endswith("npz")) <= 4e6
    for name in model.NAMES:
        with np.load(files[f"{name}.npz"]) as stored:
            assert {key: x.shape for key, x in stored.items()} == model.load(name).config.shapes
            assert {x.dtype for x in stored.values()} == {np.dtype(np.float16)}


@pytest.mark.daily
@pytest.mark.parametrize("name", model.NAMES)
def test_logits_of_three_libraries_agree(name):
    lm = model.load(name)
    tokens = held_out(2, 70, lm.config.first)
    expected = lm.logits(tokens)
    assert expected.dtype == np.float32
    for library in ("jax", "torch"):
        found = model.load(name, library).logits(tokens)
        assert dtype_of(found) == "float32"
        np.testing.assert_allclose(back(found), expected, atol=1e-5 * abs(expected).max(), err_msg=library)


@pytest.mark.full
def test_context_helps_and_a_span_that_returns_costs_little():
    lm = model.load()
    tokens = held_out(16, lm.config.context)
    bits = model.bits(lm.logits(tokens), tokens)
    assert bits[:, 256:].mean() < bits[:, :64].mean() - 0.2
    text, strange = tokens.copy(), tokens.copy()
    text[:, 300:400] = text[:, 100:200]
    strange[:, 100:140] = np.random.default_rng(0).integers(33, 127, (16, 40))
    strange[:, 300:340] = strange[:, 100:140]
    again = model.bits(lm.logits(text), text)
    assert again[:, 309:399].mean() < 0.6 * again[:, 109:199].mean()
    again = model.bits(lm.logits(strange), strange)
    assert again[:, 309:339].mean() < 0.1 * again[:, 109:139].mean()


def test_how_the_models_were_trained_is_stored():
    for name in model.NAMES:
        told = model.training(name)
        assert len(told["text_sha256"]) == 64
        assert told["python"].startswith("3.")
        curve = told["bits_every_20_steps"]
        assert len(curve) == -(-told["steps"] // 20)
        assert curve[-1] < 0.5 * curve[0]
    assert json.dumps(told)


def test_the_excerpt_is_held_out_and_has_its_license():
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in (data() / "LICENSE.txt").read_text()
    found, read = model.excerpt(), text.read()
    assert len(found) == 112_328
    assert len(read) > 4e6
    for start in range(0, len(found) - 300, 20_000):
        assert found[start : start + 300] not in read
    names = [path.name for path in text.sources()]
    assert "functools.py" in names
    assert not set(text.HELD_OUT) & set(names)
