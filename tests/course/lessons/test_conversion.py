"""Maps distilled on the small model: their weights, their branches, and the runs that are stored."""

import numpy as np
import pytest
import torch
from attnlab_course import model
from attnlab_course.lessons.lesson18 import branches, conversion

from attnlab import rotary
from attnlab.linear import Hedgehog, hedgehog_loss

LM = model.load(library="torch")
ROWS = torch.from_numpy(np.stack([model.tokens(model.excerpt()[i : i + 99]) for i in (0, 7000)]))


@torch.no_grad()
def logits(attend):
    return LM.logits(ROWS, attend)


def test_the_distance_without_a_window_is_the_loss_of_the_package():
    maps, losses = branches.begun(LM), []

    def attend(layer, query, key, value):
        query, key = rotary(query), rotary(key)
        losses.append(hedgehog_loss(query, key, Hedgehog(maps[0][layer], maps[1][layer]), causal=True).item())
        return model.dense()(layer, query, key, value)

    found = conversion.distance(LM, ROWS, maps, 0).item()
    with torch.no_grad():
        LM.logits(ROWS, lambda layer, q, k, v: (attend(layer, q, k, v), model.dense()(layer, q, k, v))[1])
    assert found == pytest.approx(np.mean(losses) / np.log(2), rel=1e-4)


def test_a_window_as_long_as_the_text_is_the_softmax():
    maps = branches.begun(LM)
    assert torch.allclose(logits(branches.attention("hedgehog", maps, 100)), logits(None), atol=1e-3)
    assert torch.allclose(logits(branches.attention("nothing", maps, 100)), logits(None), atol=1e-3)


def test_branches():
    maps = branches.begun(LM)
    maps[2] += 1  # what the near keys gain cancels where they are alone
    near = logits(branches.attention("hedgehog", maps, 16, "window"))
    assert torch.allclose(near, logits(model.dense(window=(15, 0))), atol=1e-3)
    far, both = (logits(branches.attention("hedgehog", maps, 16, parts)) for parts in ("far", "both"))
    assert torch.isfinite(far).all()
    assert not torch.allclose(near, both, atol=0.1)
    assert not torch.allclose(far, both, atol=0.1)


def test_maps_without_a_window_are_linear_attention():
    query, key, value = torch.randn(3, 2, 4, 50, 32, generator=torch.Generator().manual_seed(0))
    maps = branches.begun(LM)
    out = branches.attention("hedgehog", maps)(1, query, key, value)
    a = branches.log_weights(rotary(query), rotary(key), [x[1] for x in maps], 0).softmax(-1)
    assert torch.allclose(out, a @ value, atol=1e-5)


@torch.no_grad()
def test_the_stored_bits_are_those_of_the_stored_maps():
    run = conversion.stored()["runs"]["hedgehog"]
    maps = conversion.learned_maps("hedgehog")
    bits = conversion.held_out(LM, branches.attention("hedgehog", maps))
    assert bits == pytest.approx(run["distilled"]["both"][0], abs=0.02)
