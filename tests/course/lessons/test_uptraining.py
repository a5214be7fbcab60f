"""Heads pooled from the small model: what pooling keeps, where tuning begins; the stored curves are of its weights."""

import numpy as np
import pytest
from attnlab_course import model
from attnlab_course.lessons.lesson15 import uptraining

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


def test_the_stored_curves_are_of_the_weights_in_the_package():
    assert abs(uptraining.held_out(LM) - uptraining.stored()["runs"][0]["before"]) < 0.01
