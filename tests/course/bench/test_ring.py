"""The benchmark of the ring: both ways of waiting run, and only one of them computes while messages travel."""

import attnlab_course.bench.__main__ as command
from attnlab_course.bench import ring

from tests.support import needs


def test_a_step_of_two_processes():
    needs("torch")
    assert all(0 < seconds < 60 for seconds in ring.step_times(2, 64, 1))


def test_without_overlap_messages_are_waited_for_first():
    happened = []

    def travel(name):
        happened.append(f"begin {name}")
        return lambda: happened.append("arrived") or name

    for begin in (travel, ring.waiting(travel)):
        wait = begin("a block")
        happened.append("compute")
        assert wait() == "a block"
    assert happened == ["begin a block", "compute", "arrived", "begin a block", "arrived", "compute"]


def test_the_option(monkeypatch, capsys):
    monkeypatch.setattr(ring, "step_times", lambda count, tokens, rounds: (2 / count, 3 / count, 2.0))
    command.main(["--ring", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert "| 4 | 500 | 750 | 2000 | 0.25 | 0.25 |" in lines
