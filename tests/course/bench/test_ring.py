"""The benchmark of the ring: both ways of waiting run, and only one of them computes while messages travel."""

import multiprocessing

import attnlab_course.bench.__main__ as command
from attnlab_course.bench import ring

from tests.support import needs


def test_steps_of_two_processes():
    """They can be taken in any order, again and again, and the processes end when nobody asks any more."""
    needs("torch")
    calls = ring.start_processes(2, tokens=64)
    assert [name.partition(" ")[2] for name in calls] == ["beside", "before", "alone"]
    for step in [*calls.values(), *calls.values()]:
        step()
    processes = multiprocessing.active_children()
    assert len(processes) == 2
    del calls, step
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def test_without_overlap_messages_are_waited_for_first():
    happened = []

    def travel(name):
        happened.append(f"begin {name}")
        return lambda: happened.append("arrived") or name

    for begin in (travel, ring.without_overlap(travel)):
        wait = begin("a block")
        happened.append("compute")
        assert wait() == "a block"
    assert happened == ["begin a block", "compute", "arrived", "begin a block", "arrived", "compute"]


def test_the_table(monkeypatch, capsys):
    monkeypatch.setattr(ring, "start_processes", lambda count: {f"torch {kind}": int for kind in ring.STEPS})
    command.main(["--ring", "--rounds", "1"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[1] for line in lines if line[0:1] == ["|"]] == ["processes", "---------", "1", "2", "4"]
    (row,) = ring.make_row(4, {"beside": 0.5, "before": 0.75, "alone": 2.0})
    assert row == ["4", "500", "750", "2,000", "0.25", "0.25"]
