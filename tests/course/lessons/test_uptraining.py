"""Heads pooled from the small model: what pooling keeps, where tuning begins; the stored curves are of its weights."""

import numpy as np
import pytest
from attnlab_course import model
from attnlab_course.lessons.lesson15 import uptraining
from attnlab_course.model import text

LM = model.load()


@pytest.mark.parametrize("how", uptraining.WAYS)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_pooled_heads(how, kv_heads):
    pooled = uptraining.pool(LM, kv_heads, how)
    assert {name: x.shape for name, x in pooled.parameters.items()} == pooled.config.shapes
    assert pooled.logits(model.tokens("import re")).shape == (10, 257)
    d, w, new = LM.config.d, LM.parameters["blocks.1.wv"], pooled.parameters["blocks.1.wv"]
    heads = [w[:, h * d : (h + 1) * d] for h in range(4)][: 4 // kv_heads]
    expected = {"mean": np.mean(heads, 0), "first": heads[0]}.get(how)
    if expected is not None:
        np.testing.assert_allclose(new[:, :d], expected, atol=1e-6)
    else:
        assert abs(new.std() / w.std() - 1) < 0.05
    assert pooled.parameters["blocks.1.wq"] is LM.parameters["blocks.1.wq"]


def test_tuning_begins_with_the_model_and_leaves_it_alone():
    before = {name: x.copy() for name, x in LM.parameters.items()}
    data = model.excerpt()
    steps = list(uptraining.tune(LM, data, steps=3))
    starts = np.random.default_rng(1).integers(len(data) - 512, size=uptraining.BATCH)
    rows = np.stack([model.tokens(data[i : i + 512]) for i in starts])
    assert abs(steps[0][0] - model.bits(LM.logits(rows), rows).mean()) < 1e-3
    assert all((before[name] == x).all() for name, x in LM.parameters.items())
    assert any((steps[-1][1].parameters[name] != x).any() for name, x in before.items())


def test_the_stored_curves_are_those_of_the_weights_in_the_package():
    stored = uptraining.stored()
    assert [stored[name] for name in ("steps", "batch", "rate")] == [
        uptraining.STEPS, uptraining.BATCH, uptraining.RATE]  # fmt: skip
    assert {(run["kv_heads"], run["how"]) for run in stored["runs"]} == {
        (4, "mean"), *((many, how) for many in uptraining.FEWER for how in uptraining.WAYS)}  # fmt: skip
    assert all(len(run["curve"]) == uptraining.STEPS for run in stored["runs"])
    assert abs(uptraining.held_out(LM) - stored["runs"][0]["before"]) < 0.01
    assert len(stored["text"]) == len(text.digest(b""))
