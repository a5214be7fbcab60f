"""The poster shows the code of lesson 00 and what the closed forms say."""

from attnlab_course.plots.poster import D, N, functions, new_places, poster

from attnlab import costs
from attnlab.measure import binary
from tests.support import ROOT

SOURCES = functions((ROOT / "notebooks/lessons/00_start_here.md").read_text(encoding="utf-8"))


def test_the_stored_poster_is_that_of_today():
    assert (ROOT / "notebooks/figures/poster.svg").read_text(encoding="utf-8") == poster(SOURCES)


def test_what_is_new_is_marked():
    lines = SOURCES["safe"].split("\n")
    marked = {lines[row][start:stop] for row, start, stop in new_places("safe", SOURCES)}
    assert {"s", "max", "-"} <= marked
    assert not marked & {"np", "exp", "return", "sum", "V"}
    assert not [*new_places("naive", SOURCES)]


def test_costs_stand_beneath():
    assert f"holds {binary(4 * costs.extra_elements('tiled', N, N, D, D), 3)} ·" in poster(SOURCES)
