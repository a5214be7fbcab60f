"""An engine of answers in their places: the same texts as ours with all, a third and none of them, under any load."""

import numpy as np
import pytest
from attnlab_course import check, model, serve
from attnlab_course.games import own_engine
from attnlab_course.games.own_engine import HEADS, PLACES, OwnEngine, solutions

from tests.course.serve import test_engine
from tests.course.serve.exact import MODEL, Exact

PROMPTS = ["def f(x):", "import ", "class A:\n    ", "for i in range(", "return ", "def f(x):\n    return", "# "]
SETS = {"none": {}, "a third": solutions(3), "another third": dict([*solutions().items()][1::3]), "all": solutions()}


@pytest.fixture(scope="module")
def lm():
    return model.load()


def texts(engine, max_tokens, **options):
    requests = [engine.submit(prompt, max_tokens, seed=i, **options) for i, prompt in enumerate(PROMPTS)]
    engine.run()
    assert engine.manager.free_blocks == engine.manager.blocks
    return [request.texts for request in requests]


@pytest.mark.daily
@pytest.mark.thin(4)
@pytest.mark.parametrize("options", [dict(temperature=0.8), dict(samples=2, temperature=1.0)], ids=["drawn", "samples"])
@pytest.mark.parametrize("answers", SETS)
def test_texts_are_those_of_our_server(lm, answers, options):
    for count, asked in ((20, {}), (6, options)):
        wanted = texts(serve.Engine(lm, 64, 16, 64), count, **asked)
        assert texts(OwnEngine(lm, SETS[answers], 64, 16, 64), count, **asked) == wanted


@pytest.mark.parametrize("answers", SETS)
def test_few_blocks_cost_steps_and_no_text(lm, answers):
    wanted = texts(serve.Engine(lm, 64, 16, 64), 6)
    engine = OwnEngine(lm, SETS[answers], 8, 4, 9)
    assert texts(engine, 6) == wanted
    assert sum(step.preempted for step in engine.trace) > 0


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", HEADS)
def test_every_head_may_be_anyones(lm, name):
    answer = {name: check.find(name).reference}
    assert {*OwnEngine(lm, answer).heads.values()} == {name}
    assert own_engine.race(lm, answer, PROMPTS[:1], 3)


@pytest.mark.parametrize("name", [*PLACES][len(HEADS) :])
def test_every_place_is_taken(lm, name):
    """An answer is called there: one that fails is heard of, by its name."""
    def fails(*given):
        raise ArithmeticError("mine")

    answers = {"prompt_lookup": solutions()["prompt_lookup"], name: fails}
    with pytest.raises(own_engine.Failed, match=rf"{name}\(.*\) raises ArithmeticError: mine"):
        own_engine.race(lm, answers, ["x = 1\nx = 1\nx = 1\nx = "], 9)


def test_what_has_no_place_is_refused(lm):
    with pytest.raises(ValueError, match="there is no place for average; there are attention_row"):
        OwnEngine(lm, {"average": lambda: None})


@pytest.mark.thin(2)
@pytest.mark.parametrize("answers", SETS)
def test_soak(answers, monkeypatch):
    """The same load as our server's, on the exact model: requests of every kind in twelve blocks, some cancelled."""
    monkeypatch.setattr(test_engine, "check_laws", lambda engine: None)  # its pool counts no references
    own = {name: answer for name, answer in SETS[answers].items() if name not in HEADS}  # that model has no heads
    server = OwnEngine(MODEL, own, 12, 4, 16, runner=Exact)
    asked, _ = test_engine.serve(server, np.random.default_rng(150), 150, 0.35, cancels=0.02)
    assert sum(request.cancelled for request, _ in asked) > 3
    for request, options in asked:
        assert (request.outputs, request.scores) == test_engine.expected(request, options)


def test_only_what_the_checker_calls_right_comes_in(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNLAB_ANSWERS", str(tmp_path))
    for name in ("online_row", "attention_row", "average"):
        check.answer(check.find(name).reference)
    (tmp_path / "online_row.py").write_text("def online_row(q, pairs):\n    return q, 0.0\n")
    (tmp_path / "plan_step.py").write_text("def plan_step(\n")
    said = []
    assert [*own_engine.checked(said.append)] == ["attention_row"]
    assert [line.partition(":")[0] for line in said] == ["online_row", "plan_step"]
    assert "SyntaxError" in said[1]


def test_the_race_shows_each_place_beside_ours(lm, capsys):
    answers = {name: solutions()[name] for name in ("masked_online", "plan_step")}
    assert own_engine.race(lm, answers, PROMPTS[:2], 4)
    said = capsys.readouterr().out
    assert all(row in said for row in ("ours", "your head", "your plan", "all of yours"))
    assert "others" not in said
    wrong = {"masked_online": lambda q, k, v, mask: -np.ones((len(q), v.shape[1]))}
    assert not own_engine.race(lm, wrong, PROMPTS[:2], 4)
    assert "others" in capsys.readouterr().out
