"""The ladder holds facts: each is checked against what the package, its README and the course do."""

import re

import pytest
from attnlab_course.instruments import machine
from attnlab_course.ladder import LADDER
from attnlab_course.plots.ladder_costs import alike

from attnlab import METHODS, costs
from tests.attnlab.algorithms.test_memory import AT_ONCE
from tests.support import ROOT
from tests.support.libraries import BLOCKS, SAFE

README = (ROOT / "attnlab/README.md").read_text(encoding="utf-8")


def test_a_rung_is_a_method():
    assert list(LADDER) == list(METHODS)


def test_facts_are_those_of_the_functions():
    """Block sizes, which scores are served, which exist at a time: tests/attnlab holds the functions to the same."""
    assert {name: rung.blocks for name, rung in LADDER.items()} == BLOCKS
    assert tuple(name for name, rung in LADDER.items() if rung.safe) == SAFE
    assert {name: rung.at_once for name, rung in LADDER.items()} == AT_ONCE


@pytest.mark.parametrize("name", LADDER)
def test_the_lesson_is_about_it(name):
    (path,) = (ROOT / "notebooks" / "lessons").glob(f"{LADDER[name].lesson}_*.md")
    assert name in path.stem


@pytest.mark.parametrize("name", LADDER)
def test_memory_is_the_closed_form(name):
    n, m, dv, rung = 1024, 2048, 64, LADDER[name]
    forms = {"N·M": n * m + n * 64, "N·(Dv + 2)": n * (dv + 2)}
    expected = forms.get(rung.memory)
    assert expected in (None, costs.extra_elements(name, n, m, 64, dv))
    assert rung.at_once == {"N·M": "matrix", "N·(Dv + 2)": "key"}.get(rung.memory, rung.at_once)
    assert callable(getattr(machine, f"{rung.program}_forward"))


def test_the_table_of_the_readme_is_this_one():
    right = {True: "any finite scores", False: "scores that neither overflow nor vanish"}
    rows = [f"| `{name}_attention` | {x.memory} | {right[x.safe]} |" for name, x in LADDER.items()]
    assert re.findall(r"^\| `\w+_attention` \|.*$", README, re.MULTILINE) == rows


def test_lines_that_coincide_share_a_label():
    groups = alike()
    assert groups["naive"] == ["naive", "safe"]
    assert [name for group in groups.values() for name in group] == list(LADDER)
    assert all(costs.forward(x, 9, 8, 7, 7).bytes == costs.forward(group[0], 9, 8, 7, 7).bytes
               for group in groups.values() for x in group)
