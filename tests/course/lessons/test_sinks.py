"""The toy that forms a sink: its texts, its caches, and the stored runs."""

import numpy as np
import pytest
import torch
from attnlab_course.lessons.lesson16 import sinks


def test_after_a_trigger_the_token_before_it_comes_again():
    x = sinks.batch(np.random.default_rng(0), 64)
    assert x.shape == (64, sinks.LENGTH + 1)
    assert (x[:, 0] == sinks.BOS).all()
    assert (x[:, 1:] < sinks.VOCABULARY).all()
    triggered = x[:, 2:-1] < sinks.TRIGGERS
    assert (x[:, 3:] == x[:, 1:-2])[triggered].all()
    assert not (x[:, 3:] == x[:, 1:-2])[~triggered].all()


@pytest.mark.parametrize("kind", sinks.KINDS)
def test_a_window_and_its_sinks_hide_all_other_keys(kind):
    model = sinks.SinkToy(kind, seed=0)
    more = {"gate": sinks.WIDTH + 1} | dict.fromkeys(sinks.LEARNED, 1)
    assert sum(x.numel() for x in model.parameters()) == 13_905 + more.get(kind, 0)
    weights = model.weights(torch.randn(2, 12, sinks.WIDTH), window=4, sinks=1)
    distance = np.arange(12)[:, None] - np.arange(12)
    visible = (distance >= 0) & ((distance < 4) | (np.arange(12) < 1))
    assert ((weights > 0).numpy() == visible).all()
    sums = weights.sum(-1)
    if kind in ("softmax", "gate"):
        assert torch.allclose(sums, torch.ones(2, 12))
    if kind in sinks.LEARNED:
        assert (sums < 1).all()

