"""The task of recall and the models that learn it; the stored runs are of this task and of these models."""


import numpy as np
import pytest
import torch
from attnlab_course.checker.exercise import Case
from attnlab_course.lessons.lesson18 import recall
from attnlab_course.lessons.lesson18.exercises import fixed_map, mqar_batch


def test_a_batch_is_what_the_exercise_asks_for():
    size, *rest = 48, recall.PAIRS, recall.LENGTH, recall.VOCABULARY // 2
    batches = mqar_batch.again(lambda rng, size, *_: recall.batch(rng, size))(np.random.default_rng(0), size, *rest)
    assert mqar_batch.judge(Case("", (None, size, *rest)), batches) is None


@pytest.mark.parametrize(("name", "d"), [("softmax", 16), ("elu", 8), ("taylor", 4), ("hedgehog", 8)])
def test_a_question_sees_itself_and_what_came_before(name, d):
    model = recall.Recaller(name, d, seed=0)
    tokens, _ = recall.batch(np.random.default_rng(1), 2)
    other = tokens.copy()
    other[:, 60:] = tokens[:, ::-1][:, : recall.LENGTH - 60]
    before, after = model(tokens), model(other)
    known = 60 - 2 * recall.PAIRS
    assert torch.allclose(before[:, :known], after[:, :known], atol=1e-6)
    assert not torch.allclose(before[:, known:], after[:, known:])
    assert before.shape == (2, recall.LENGTH - 2 * recall.PAIRS, recall.VOCABULARY)


@pytest.mark.parametrize("sharp", [20.0, 0.0])
def test_what_is_measured_of_weights(sharp):
    """A head whose question finds its pair with this score, and all other keys with score 0."""
    model = recall.Recaller("softmax", 64, seed=0)

    def heads(tokens):
        found = torch.nn.functional.one_hot(torch.as_tensor(tokens), recall.VOCABULARY)[:, None].float()
        key = torch.zeros_like(found)
        key[:, :, 1 : 2 * recall.PAIRS : 2] = found[:, :, 0 : 2 * recall.PAIRS : 2]  # a value's place knows its key
        scale = sharp * recall.VOCABULARY**0.5
        return scale * found[:, :, recall.ASKED], key, torch.zeros(*key.shape[:3], recall.WIDTH)

    model.heads = heads
    found, keys = recall.measured(model, 4), np.arange(2 * recall.PAIRS + 1, recall.LENGTH + 1)
    share = np.exp(sharp) / (np.exp(sharp) + keys - 1)
    assert found["weight"] == pytest.approx(share.mean(), abs=1e-4)


def test_states_are_counted():
    assert recall.state_numbers("elu", 8) == 8 * 65
    assert recall.state_numbers("taylor", 4) == 15 * 65
    assert recall.state_numbers("hedgehog", 8) == 16 * 65
    assert recall.state_numbers("softmax", 16) == 96 * 80


@pytest.mark.parametrize("large", ["size_q", "size_k"])
def test_the_mended_map_holds_what_its_docstring_promises(large):
    """However large q is or k is, the weights, rows of the output for EYE, add up to 1."""
    for size in (1e2, 1e5, 1e8):
        weights = fixed_map.fixed_map(*fixed_map.call(4, 5, 4, 4, **{large: size}))
        assert np.allclose(weights.sum(1), 1)
