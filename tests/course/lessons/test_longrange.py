"""Recall at long lengths: the models see what their names say, and the stored runs are of these models."""


import numpy as np
import pytest
import torch
from attnlab_course.lessons.lesson18 import recall
from attnlab_course.lessons.lesson23 import longrange
from attnlab_course.lessons.lesson23.longrange import WINDOW, LongRecaller


def logits_after_a_change(name, at, length=200):
    """Logits of the questions of a row, and of the same row with another token at this place."""
    model = LongRecaller(name, 16, seed=0)
    for p in model.below:
        p.data.normal_(0, 0.2, generator=torch.Generator().manual_seed(3))
    tokens, _ = recall.batch(np.random.default_rng(1), 1, length)
    other = tokens.copy()
    other[:, at] = (tokens[:, at] + 1) % recall.VOCABULARY
    with torch.no_grad():
        return model(tokens)[0], model(other)[0]


@pytest.mark.parametrize(("name", "reach"), [("window", WINDOW), ("window + window", 2 * WINDOW - 1)])
def test_windows_reach_as_far_as_the_law_says(name, reach):
    """The convolution over three tokens adds two."""
    before, after = logits_after_a_change(name, at=40)
    changed = np.flatnonzero((before != after).any(1).numpy()) + 2 * recall.PAIRS
    assert changed.min() == 40
    assert changed.max() == 40 + reach - 1 + 2


@pytest.mark.parametrize("name", ["softmax", "elu", "window + softmax", "window + elu"])
def test_the_others_see_everything(name):
    before, after = logits_after_a_change(name, at=0)
    assert (before != after).any(1).all()


def test_a_layer_below_begins_as_none():
    tokens, _ = recall.batch(np.random.default_rng(0), 2)
    for name, d in (("softmax", 16), ("elu", 64)):
        alone, above = recall.Recaller(name, d, seed=5), LongRecaller(f"window + {name}", d, seed=5)
        assert torch.equal(alone(tokens), above(tokens))


def test_what_is_tested_is_what_recall_measures():
    model = LongRecaller("softmax", 16, seed=0)
    found = longrange.at_length(model, recall.LENGTH, 256)
    before = recall.measured(model)
    assert found["right"] == pytest.approx(before["right"], abs=0.01)
    assert found["weight"] == pytest.approx(before["weight"], abs=2e-3)

