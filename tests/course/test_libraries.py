"""The page of libraries: a row has a script or is asked live, every script is there, and the filters work."""

import re

import pytest
from attnlab_course.published import libraries

from attnlab.conventions.questions import QUESTIONS
from tests.support import ROOT

FINDINGS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "findings").glob("*.sh")}
PAGE = (ROOT / "notebooks/lessons/libraries.md").read_text(encoding="utf-8")
RECORD = {row["name"]: row for row in libraries.record()}


@pytest.mark.parametrize("name", RECORD)
def test_every_row_is_asked_live_or_has_a_script_of_its_version(name):
    row = RECORD[name]
    assert (name in libraries.ASKED) != ("script" in row)
    assert "script" not in row or row["version"] in FINDINGS[row["script"]]


def test_what_is_asked_live_is_recorded():
    assert [*libraries.ASKED] == [*RECORD][: len(libraries.ASKED)]
    assert {*libraries.COLUMNS} <= {*QUESTIONS}


def test_every_script_that_the_page_names_is_there():
    named = re.findall(r"`(?:findings/)?(\w+)\.sh`", PAGE)
    assert len(named) > 10
    assert {*named} <= {*FINDINGS}


def test_versions_are_those_that_ci_installs():
    pins = (ROOT / ".ci/run").read_text(encoding="utf-8") + (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for name in libraries.ASKED:
        package = {"PyTorch": "torch", "JAX": "jax"}.get(x := name.split(":")[0], x)
        assert f"{package}=={RECORD[name]['version']}" in pins, name


def test_each_button_of_the_table_leaves_the_rows_with_its_answer():
    table = libraries.table()
    buttons = re.findall(r'id="convention-(\d)-(\d+)"[^>]*> ([^<]+)<', table)
    rows = re.findall(r"<tr (data-.*?)>(.*?)</tr>", table)
    assert len(rows) == len(RECORD)
    for at, number, answer in buttons:
        if number == "0":
            continue
        assert f'.conventions:has(#convention-{at}-{number}:checked) tbody tr:not([data-{at}="{number}"])' in table
        left = [row["answers"][libraries.FILTERS[int(at)]] == answer for row in RECORD.values()]
        assert [f'data-{at}="{number}"' in data for data, _ in rows] == left
        assert any(left)
        assert not all(left)
