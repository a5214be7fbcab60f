"""Predict, then run: the answer isn't there before the guess is made. And what the authors assert is out of sight."""

import functools
import re

import nbformat
import pytest

from tests.support import ROOT

LESSONS = sorted((ROOT / "notebooks" / "lessons").glob("[0-9]*.md"))
PREDICT = re.compile(r"\*\*Predict, then run\.\*\*")
CELL = re.compile(r"^```\{code-cell\}\n(?::tags: \[([^\]]*)\]\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)+(?![\w])|(?<![\w.])\d{3,}(?![\w.])")


@functools.cache
def both(path):
    """The cells of a lesson's notebooks, the learner's and the solved one."""
    folders = path.parents[1], path.parents[1] / "solutions"
    return [nbformat.read(folder / f"{path.stem}.ipynb", as_version=4).cells for folder in folders]


def tags_of(cell):
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem[:2])
def test_each_prediction_has_a_cell_that_keeps_its_answer(path):
    text = path.read_text(encoding="utf-8")
    found = [CELL.search(text, asked.end()) for asked in PREDICT.finditer(text)]
    assert all("predict" in (cell[1] or "").split(", ") for cell in found), [cell[2][:60] for cell in found]
    learner, solved = both(path)
    shown, kept = ([cell for cell in cells if "predict" in tags_of(cell)] for cells in (learner, solved))
    assert len(shown) == len(kept) >= len(found)
    assert not any(cell.outputs for cell in shown)
    assert all(cell.outputs for cell in kept)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem[:2])
def test_no_visible_line_of_a_prediction_gives_its_answer_away(path):
    """No number that the cell prints stands in its source, unless something before it has it; nothing is asserted."""
    before = ""
    for cell in both(path)[1]:
        if "predict" in tags_of(cell):
            assert not re.search(r"^\s*assert ", cell.source, re.MULTILINE), f"{cell.id}: an assertion tells the answer"
            said = "".join(output.get("text", "") or str(output.get("data", {}).get("text/plain", ""))
                           for output in cell.outputs)
            told = set(NUMBER.findall(cell.source)) & set(NUMBER.findall(said)) - set(NUMBER.findall(before))
            assert not told, f"{cell.id}: {told} can be read before the cell runs"
        before += cell.source


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem[:2])
def test_what_only_the_authors_see(path):
    learner, solved = both(path)
    assert not [cell.id for cell in learner if "authors" in tags_of(cell)]
    for cell in solved:
        if "authors" in tags_of(cell):
            assert {"remove-cell"} <= set(cell.metadata.tags), cell.id
            assert cell.metadata.jupyter == {"source_hidden": True, "outputs_hidden": True}
            assert not cell.outputs, f"{cell.id}: what only the authors see prints nothing"
            assert not re.search(r"\brng\.", cell.source), f"{cell.id}: draws numbers that later cells would have drawn"
