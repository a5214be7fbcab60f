"""Every cell of both notebooks of a lesson is run: those that are the same in both once, all others twice."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.support.notebooks import NIGHT, NOTEBOOKS, code, joined, stored, write


def cell(name, source, said, *tags):
    output = new_output("stream", name="stdout", text=said)
    return new_code_cell(source, id=name, outputs=[output], metadata={"tags": list(tags)})


def lesson(solution, verdict, start="1"):
    cells = [cell("a", "x = print(1)", start), cell("b", solution, "", "exercise"), cell("c", "check(f)", verdict)]
    cells += [cell("d", "print(x)", "1"), cell("e", "y = f or 1", ""), cell("f", "print(y)", "1")]
    return new_notebook(cells=cells)


LEARNERS, SOLVED = lesson("f = None", "not attempted"), lesson("f = 1", "right")


def test_what_is_the_same_runs_once_and_what_depends_on_a_solution_twice():
    found = joined(LEARNERS, SOLVED)
    nbformat.validate(found)
    assert found.cells[:6] == LEARNERS.cells
    assert [cell.id for cell in found.cells[6:]] == ["b-solved", "c-solved", "e-solved", "f-solved"]
    assert [cell.source for cell in found.cells[6:8]] == ["f = 1", "check(f)"]
    assert found.cells[7].outputs[0].text == "right"


def test_a_difference_before_the_first_exercise_is_refused():
    with pytest.raises(AssertionError, match="cell a, before the first exercise"):
        joined(LEARNERS, lesson("f = 1", "right", start="2"))
    with pytest.raises(AssertionError):
        joined(LEARNERS, new_notebook(cells=SOLVED.cells[1:]))


def test_pictures_and_ignored_outputs_may_differ():
    pictures = (f'<img src="data:image/{x}">' for x in ("png;base64,AA", "svg+xml;base64,BB"))
    one, other = (new_output("display_data", {"text/html": picture}) for picture in pictures)
    assert stored(new_code_cell("plot()", outputs=[one])) == stored(new_code_cell("plot()", outputs=[other]))
    one, other = (cell("a", "time()", said, "nbval-ignore-output") for said in "12")
    assert stored(one) == stored(other)


def test_every_cell_of_the_course_is_run(tmp_path):
    write(tmp_path)
    paths = [path for path in NOTEBOOKS.rglob("*.ipynb") if path.stem not in NIGHT]
    for path in paths:
        run = [stored(cell) for cell in code(tmp_path / path.name).cells]
        assert all(stored(cell) in run for cell in code(path).cells), path
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths}


EVERY = [*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("solutions/*.ipynb")]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_link_to_a_file_leads_to_one(path):
    prose = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    for link in re.findall(r"\]\(([\w./-]+\.\w+)(?:#[\w-]+)?\)", prose):
        assert (path.parent / link).is_file(), link
