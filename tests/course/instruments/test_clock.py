"""Times that the lessons store don't contradict their sentences, and the clock notices when they do."""

import json
import time

import nbformat
import pytest
import torch
from attnlab_course import plots
from attnlab_course.instruments import clock, timing
from attnlab_course.instruments.clock import Clock, Ratio, Slope, from_record, stored_faults, timed

from tests.support import ROOT

STORED = sorted(path for path in (ROOT / "notebooks").rglob("*.ipynb"))
SQUARE = {"a": {x: (x * x * 0.9, x * x, x * x * 1.1) for x in (1.0, 2.0, 4.0)}, "b": {4.0: (7, 8, 9)}}


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.stem[:2]}")
def test_stored_times_say_what_the_text_says(path):
    cells = nbformat.read(path, as_version=4).cells
    assert not [(cell.id, text) for cell in cells for shown in cell.get("outputs", []) for text in stored_faults(shown)]


@pytest.mark.parametrize(("claim", "fault"), [
    (Slope("a", 1.9, 2.1), ""),
    (Slope("a", 0.9, 1.1), "the time of a grows as size to the 2.00; the text says 0.9 to 1.1"),
    (Slope("a", 1.9, 2.1, start=2, stop=4), ""),
    (Ratio(("a", 4), ("b", 4), 1.9, 2.1), ""),
    (Ratio(("a", 4), ("b", 4), 3), "a at 4 takes 2.00 times as long as b at 4; the text says at least 3"),
    (Ratio(("a", 2), ("a", 1), 0, 3), "a at 2 takes 4.00 times as long as a at 1; the text says 0 to 3"),
])
def test_a_claim_is_contradicted(claim, fault):
    measured = Clock(SQUARE, [claim])
    assert measured.faults() == ([fault] if fault else [])
    stored = from_record(json.loads(json.dumps(measured.record())))
    assert (stored.seconds, stored.faults()) == (measured.seconds, measured.faults())


def test_what_is_stored_is_looked_at_again():
    shown = nbformat.v4.new_output("display_data", metadata=Clock(SQUARE, [Slope("a", 0, 1)]).metadata())
    assert len(stored_faults(shown)) == 1
    restless = nbformat.v4.new_output("display_data", metadata=Clock(SQUARE, settled=False).metadata())
    assert stored_faults(restless) == ["the times still scatter after 10 rounds"]
    sure, unsure = Ratio(("a", 4), ("b", 4), 1.6, 2.6), Ratio(("a", 4), ("b", 4), 1.7, 2.6)  # at quartiles: 1.6 to 2.51
    for claims, said in [([sure], 0), ([sure, unsure], 1), ([Slope("a", 1.8, 2.2)], 0), ([Slope("a", 1.9, 2.1)], 1)]:
        restless = Clock(SQUARE, claims, settled=False)
        shown = nbformat.v4.new_output("display_data", metadata=restless.metadata())
        assert (len(restless.faults()), len(stored_faults(shown))) == (0, said)
    hasty = nbformat.v4.new_output("display_data", metadata=Clock(SQUARE, rounds=1).metadata())
    assert stored_faults(hasty) == ["the times are of 1 rounds; it takes 10"]
    assert stored_faults(nbformat.v4.new_output("stream", text="no clock")) == []


def test_rounds_go_on_until_the_times_settle(monkeypatch):
    monkeypatch.delenv("ATTNLAB_ROUNDS", raising=False)
    monkeypatch.setattr(timing, "SAMPLE", 0)
    taken = [*[1, 5] * 5, *[1] * 50]  # ten restless rounds, then quiet ones
    marks = iter([mark for start, wait in enumerate(taken) for mark in (100 * start, 100 * start + wait)])
    monkeypatch.setattr(time, "process_time", lambda: next(marks))
    measured = timed({"a": {1: int}})
    assert measured.settled
    assert 10 < measured.rounds < 40
    assert measured.median("a") == {1: 1}
    monkeypatch.undo()
    monkeypatch.setenv("ATTNLAB_ROUNDS", "1")
    before, threads = torch.get_num_threads(), []
    assert timed({"a": {1: lambda: threads.append(torch.get_num_threads())}}).rounds == 1
    assert set(threads) == {1}
    assert torch.get_num_threads() == before


def test_a_figure_needs_a_text_and_says_where_this_machine_disagrees(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw, metadata: shown.append((data, metadata)))
    figure, axes = plots.canvas(2.0, 2.0)
    measured = Clock(SQUARE, [Slope("a", 0, 1)])
    plots.band(axes, measured, "a", "black")
    with pytest.raises(ValueError, match="text for those who can't see it"):
        plots.show(figure)
    figure.set_label("from 1 to 16 seconds")
    plots.show(figure, clock=measured)
    plots.table(["a", "b"], [["x", 1], ["yy", 10]], clock=measured)
    (picture, noted), (table, _) = shown
    assert 'alt="from 1 to 16 seconds"' in picture["text/html"]
    assert "the time of a grows as size to the 2.00" in picture["text/html"]
    assert noted[clock.KEY]["claims"][0]["of"] == "a"
    assert table["text/plain"] == "a    b\nx    1\nyy  10"
    assert "<td style=\"text-align:right\">10</td>" in table["text/html"]
