"""Tasks whose keys are bound again, states that nobody trained, and the stored runs of models that were."""


import numpy as np
import pytest
import torch
from attnlab_course.lessons.lesson18.recall import VOCABULARY
from attnlab_course.lessons.lesson25 import overwriting
from attnlab_course.lessons.lesson25.random_keys import newest, pairs, recalled


@pytest.mark.parametrize(("task", "shape"), overwriting.TASKS.items())
def test_the_answer_is_the_value_that_a_key_was_given_last(task, shape):
    keys, times = shape
    tokens, targets = overwriting.batch(np.random.default_rng(0), 8, task)
    written = tokens[:, : -overwriting.ASKED].reshape(8, keys * times, 2)
    for row, asked, answers in zip(written.tolist(), tokens[:, -overwriting.ASKED :].tolist(), targets.tolist()):
        names = [name for name, _ in row]
        assert sorted(map(names.count, set(names))) == [times] * keys
        table = dict(map(tuple, row))  # later writes win
        assert [table[name] for name in asked] == answers
        assert max(names) < VOCABULARY // 2 <= min(answers)


def test_the_newest_value_of_each_key_in_the_last_text():
    order, values = pairs(np.random.default_rng(0), 5, 4, 3, 2)
    found = newest(order, values, 4)
    for draw in range(5):
        assert found[draw].tolist() == [values[draw, 1][np.flatnonzero(order[draw, 1] == key)[-1]] for key in range(4)]


def test_orthogonal_keys_are_all_recalled_and_resets_clear_the_texts_before():
    assert recalled(1, 5, features=4, draws=20) == 1  # one key: the last write is exact
    assert recalled(1, 5, features=4, draws=20, erase=False) < 0.5
    many = {"keys": 16, "texts": 4, "draws": 50, "b": 0.1}
    assert recalled(**many, first=0) > recalled(**many) + 0.1
    assert recalled(8, b=0.05, draws=50) == pytest.approx(recalled(8, erase=False, draws=50), abs=0.03)


@pytest.mark.parametrize("rule", overwriting.RULES)
def test_questions_read_the_state_and_each_rule_uses_its_own_gates(rule):
    model = overwriting.Overwriter(rule, seed=0)
    tokens, targets = overwriting.batch(np.random.default_rng(1), 2, "rebind")
    logits = model(tokens)
    assert logits.shape == (2, overwriting.ASKED, VOCABULARY)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.as_tensor(targets).flatten()).backward()
    rate, gate = model.gates.grad.abs().sum(0).tolist()
    assert rate > 0
    assert (gate > 0) == ("dec" in rule or "gated" in rule)

