"""What is trained on follows from seed and step, and so does what is trained."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from attnlab_course.model import FIRST, NAMES, load, train
from attnlab_course.model.plans import PLANS, Phase, TrainingPlan, batch, repeat

from tests.course.model.small import CONFIG

TEXT = bytes(np.random.default_rng(0).integers(97, 101, 4000).astype(np.uint8))
NUMBERS = np.frombuffer(TEXT, np.uint8)
PHASE = Phase(3, context=32, sequences=2)
PLAN = TrainingPlan(CONFIG, (PHASE, replace(PHASE, context=24, returns=1.0, span=(3, 9), gap=4)))


@pytest.mark.parametrize("sink", [False, True])
def test_a_run_follows_from_its_plan(sink):
    plan = replace(PLAN, config=replace(CONFIG, sink=sink))
    one, other = (train.train(plan, TEXT) for _ in range(2))
    assert len(one.curve) == 6
    assert other.curve == one.curve
    for name, p in one.net.state_dict().items():
        assert torch.equal(other.net.state_dict()[name], p), name


def test_a_model_learns_and_is_exported(tmp_path):
    plan = TrainingPlan(CONFIG, (replace(PHASE, steps=60, sequences=8),), rate=0.02)
    run = train.train(plan, TEXT)
    assert abs(run.curve[0] - np.log2(257)) < 0.5
    assert np.mean(run.curve[-10:]) < 2.3  # four letters: 2 bits
    train.export(run, TEXT, "model", tmp_path)
    with np.load(tmp_path / "model.npz") as stored:
        assert {name: x.shape for name, x in stored.items()} == CONFIG.shapes
    told = json.loads((tmp_path / "model.json").read_text())
    assert told["bits_every_20_steps"][-1] == pytest.approx(np.mean(run.curve[-20:]), abs=1e-4)


def test_sequences_begin_with_the_first_token_and_follow_from_seed_and_step():
    phase = replace(PHASE, sequences=50, returns=0.5)
    with_first, without = (batch(NUMBERS, phase, first, 1, 2) for first in (True, False))
    assert with_first.shape == without.shape == (50, 33)
    assert (with_first[:, 0] == FIRST).all()
    assert max(with_first[:, 1:].max(), without.max()) < 256
    np.testing.assert_array_equal(with_first, batch(NUMBERS, phase, True, 1, 2))
    assert (with_first != batch(NUMBERS, phase, True, 1, 3)).any()
    assert (with_first != batch(NUMBERS, phase, True, 2, 2)).any()


def test_a_span_returns():
    phase = Phase(1, span=(16, 97), gap=128)
    often = set()
    for seed in range(40):
        row = np.arange(1000, 1512)
        repeat(row, phase, np.random.default_rng(seed))
        assert len(row) == 512
        kept = row[row >= 1000]
        often.add((len(kept) == 512, len(np.unique(kept)) < len(kept)))
    assert often == {(True, True), (False, False)}  # a span of the row itself, or of other characters
    rows = batch(np.arange(1000, 101_000), Phase(1, returns=0.3, sequences=400), True, 0, 0)[:, 1:]
    assert abs(np.mean([len(np.unique(row)) < 512 for row in rows]) - 0.3) < 0.06


def test_phases_follow_one_another():
    assert PLAN.steps == 6
    assert [PLAN.phase(step) is PLAN.phases[1] for step in range(6)] == [False] * 3 + [True] * 3
    assert set(PLANS) == set(NAMES)
    for name, plan in PLANS.items():
        assert load(name).config == plan.config
