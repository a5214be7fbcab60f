"""The stored runs of the experiments are of the scripts beside them: their settings, their plans, their first steps."""

import itertools

import numpy as np
import pytest
from attnlab_course.lessons.lesson15 import uptraining
from attnlab_course.lessons.lesson16 import sinks
from attnlab_course.lessons.lesson18 import conversion, recall
from attnlab_course.lessons.lesson23 import longrange
from attnlab_course.lessons.lesson25 import overwriting
from attnlab_course.model import text

SETTINGS = {
    uptraining: "steps batch rate seeds",
    sinks: "steps batch rate",
    recall: "pairs length vocabulary width batch every",
    conversion: "steps tuning batch size rates window",
    longrange: "window",
    overwriting: "steps asked features every",
}
RUNS = {
    uptraining: (("kv_heads", "how"), [(4, "mean"), *itertools.product(uptraining.FEWER, uptraining.WAYS)],
                 uptraining.STEPS),
    sinks: (("kind", "seed", "step"), [*itertools.product(sinks.KINDS, sinks.SEEDS, (0, sinks.STEPS))], None),
    recall: (("map", "d", "rate", "seed"), recall.sweep(), recall.SWEPT // recall.EVERY),
    longrange: (("seed", "layers", "d"), [(seed, *plan) for seed in longrange.SEEDS for plan in longrange.PLANS],
                recall.STEPS // 10),
    overwriting: (("task", "rule", "rate", "seed"), overwriting.sweep(), overwriting.STEPS // overwriting.EVERY),
}  # fmt: skip


def run(script, *key):
    """The stored run with these settings."""
    names, *_ = RUNS[script]
    return next(run for run in script.stored()["runs"] if tuple(run[name] for name in names) == key)


@pytest.mark.parametrize("script", SETTINGS)
def test_settings_are_those_of_the_script(script):
    stored = script.stored()
    here = {name: getattr(script, name.upper()) for name in SETTINGS[script].split()}
    assert {name: stored[name] for name in here} == {
        name: [*x] if isinstance(x, tuple) else x for name, x in here.items()
    }
    if "text" in stored:
        assert len(stored["text"]) == len(text.digest(b""))


@pytest.mark.parametrize("script", RUNS)
def test_runs_are_those_of_the_script(script):
    names, planned, points = RUNS[script]
    runs = script.stored()["runs"]
    assert sorted(tuple(run[name] for name in names) for run in runs) == sorted(map(tuple, planned))
    assert {len(run["curve"]) if "curve" in run else None for run in runs} == {points}


def test_what_others_say_of_their_runs():
    assert recall.stored()["steps"] == recall.SWEPT
    stored = longrange.stored()
    assert all([int(n) for n in run["tests"]] == [*longrange.TESTS] for run in stored["runs"])
    for name in ("pairs", "length", "steps", "batch", "rate"):
        assert stored[name] == getattr(recall, name.upper())
    runs = conversion.stored()["runs"]
    assert tuple(runs) == tuple(conversion.PLANS)
    for plan, (_, _, distilled) in conversion.PLANS.items():
        assert len(runs[plan]["curve"]) == conversion.TUNING
        assert len(runs[plan].get("distances", [])) == distilled * conversion.STEPS


RATE, FAST = recall.RATES[0], overwriting.RATES[0]
LONG = [next(run for run in longrange.stored()["runs"] if run["layers"] == name) for name in ("window", "window + elu")]
TRAINED = [
    *[(recall.train(name, d, recall.SWEPT, seed=1, rate=RATE), recall.EVERY, run(recall, name, d, RATE, 1))
      for name, d in (("elu", 16), ("taylor", 4), ("hedgehog", 8), ("softmax", 16))],
    *[(recall.train(x["layers"], x["d"], seed=x["seed"], kind=longrange.LongRecaller), 10, x) for x in LONG],
    *[(overwriting.train(*kind, overwriting.STEPS, 1, FAST), overwriting.EVERY, run(overwriting, *kind, FAST, 1))
      for kind in (("fresh", "delta"), ("rebind", "gated delta"))],
]  # fmt: skip


@pytest.mark.thin(8)
@pytest.mark.parametrize(("steps", "every", "stored"), TRAINED)
def test_training_begins_as_it_is_stored(steps, every, stored):
    losses = [loss for loss, _ in itertools.islice(steps, every + 1)]
    assert np.allclose(losses[::every], stored["curve"][:2], atol=0.02)


@pytest.mark.parametrize("kind", sinks.KINDS)
def test_sinks_begin_as_they_are_stored(kind):
    found, stored = sinks.measured(next(sinks.train(kind, seed=1))), run(sinks, kind, 1, 0)
    assert found == pytest.approx({name: stored[name] for name in found}, abs=0.01)


@pytest.mark.parametrize("best", [recall.best, overwriting.best])
def test_the_best_rate_is_that_of_the_best_mean(best):
    about = {"map": "elu", "d": 8, "task": "fresh", "rule": "add", "weight": 0.5}
    runs = [{**about, "rate": rate, "right": right} for rate, right in ((0.1, 0.2), (0.1, 0.9), (0.2, 0.6), (0.2, 0.7))]
    (found,) = best(runs).values()
    assert found["rate"] == 0.2
    if best is recall.best:
        assert found["right"] == pytest.approx(0.65)
    else:
        assert found["seeds"] == [0.6, 0.7]


@pytest.mark.thin(2)
@pytest.mark.parametrize("script", [uptraining, conversion])
def test_tuning_begins_with_the_model_and_leaves_it_alone(script):
    from attnlab_course import model
    from attnlab_course.lessons.lesson18 import branches

    lm = model.load(library="torch" if script is conversion else "numpy")
    before, data, rng = {name: 1 * x for name, x in lm.parameters.items()}, model.excerpt(), np.random.default_rng(1)
    if script is conversion:
        steps = list(conversion.tune(lm, data, "softmax", branches.begun(lm), steps=2))
        rows = conversion.stretches(data, rng)
    else:
        steps = list(uptraining.tune(lm, data, steps=3))
        rows = np.stack([model.tokens(data[i : i + 512]) for i in rng.integers(len(data) - 512, size=uptraining.BATCH)])
    assert steps[0][0] == pytest.approx(model.bits(lm.logits(rows), rows).mean().item(), abs=1e-3)
    assert all((before[name] == x).all() for name, x in lm.parameters.items())
    assert any((steps[-1][1].parameters[name] != x).any() for name, x in before.items())
