"""Right answers are kept as files that stand alone; progress is read from them, in any kernel and folder."""

import math
import os
import re
import subprocess
import sys
from math import sqrt as root

import nbformat
import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker import kept
from nbclient import NotebookClient

POWERS, FAR, ARRAY = {"one": [1, 2.5]}, math.inf, np.ones(2)


def total(weights):
    """A helper, which calls another."""
    return doubled(weights).sum() / root(4)


def doubled(weights):
    return min(POWERS["one"][0] + 1, FAR) * weights


def average(weights, values):
    return weights @ np.asarray(values) / total(weights)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNLAB_ANSWERS", str(tmp_path / "answers"))
    check._verdicts.clear()
    return tmp_path / "answers"


def test_a_right_answer_is_kept_with_what_it_needs(folder, capsys):
    check.answer(average)
    assert capsys.readouterr().out == "average: right, on 6 inputs.  ✓ ★\n"
    text = (folder / "average.py").read_text(encoding="utf-8")
    assert text.startswith('"""A right answer to average, lesson 00')
    assert sorted(os.listdir(folder)) == ["average.py", "read.txt"]
    alone = "from average import average; import numpy as np; print(average(np.ones(2), np.arange(2.0)))"
    found = subprocess.run([sys.executable, "-c", alone], cwd=folder, capture_output=True, text=True, check=True)
    assert found.stdout == "0.5\n"
    check.answer(kept.load(folder / "average.py", "average"))
    assert "right" in capsys.readouterr().out


def test_a_function_of_another_name_is_kept_under_the_exercises(folder):
    def mean(weights, values):
        return weights @ values / weights.sum()

    check.answer(mean, "average")
    assert kept.load(folder / "average.py", "average").__name__ == "mean"


def test_a_wrong_answer_leaves_no_file_and_the_right_one_alone(folder):
    def forgets(weights, values):
        return weights @ values

    check.answer(forgets, "average")
    assert not (folder / "average.py").exists()
    check.answer(average)
    before = (folder / "average.py").read_bytes()
    check.answer(forgets, "average")
    assert (folder / "average.py").read_bytes() == before


def closed(n=1):
    def average(weights, values):
        return n * weights @ values / weights.sum()

    return average


def with_array(weights, values):
    return ARRAY[0] * weights @ values / weights.sum()


@pytest.mark.parametrize(("answer", "why"), [
    (closed(), "it uses n of a function around it"),
    (lambda w, v: w @ v / w.sum(), "it has no name of its own"),
    (with_array, "it uses ARRAY, a ndarray that was made outside of it"),
    (eval("lambda w, v: w @ v / w.sum()"), "its source cannot be had"),
])  # fmt: skip
def test_what_cannot_stand_alone_is_right_and_says_why_it_is_not_kept(folder, capsys, answer, why):
    check.answer(answer, "average")
    said = capsys.readouterr().out
    assert said.startswith("average: right")
    assert f"It isn't kept in a file: {why}" in said
    assert not [*folder.glob("*.py")]


def test_nothing_is_kept_under_nbgrader_nor_where_the_folder_is_empty(folder, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    check.answer(average)
    monkeypatch.delenv("NBGRADER_EXECUTION")
    monkeypatch.setenv("ATTNLAB_ANSWERS", "")
    check.answer(average)
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_costs_nothing(folder, capsys):
    folder.write_text("a file")
    check.answer(average)
    assert "right, on 6 inputs" in (said := capsys.readouterr().out)
    assert "It isn't kept in a file" in said


def test_answers_lie_in_the_work_of_the_course_or_in_a_new_one(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTNLAB_ANSWERS")
    inside = tmp_path / "work" / "project"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert kept.folder() == inside / "work" / "answers"  # any folder may be called work
    (tmp_path / "work" / "00_start_here.ipynb").touch()
    for place in (inside, inside.parent, tmp_path):
        monkeypatch.chdir(place)
        assert kept.folder() == tmp_path / "work" / "answers"


def test_progress_counts_what_other_kernels_kept(folder, capsys):
    check.progress()
    before = capsys.readouterr().out
    assert len(before.splitlines()) == len(check.lessons()) + 1
    assert before.endswith("; next is average in lesson 00.\n")
    assert "0 of 1 ★" in before.splitlines()[0]
    check.answer(average)  # the only exercise of lesson 00: it's read
    check._verdicts.clear()
    capsys.readouterr()
    check.progress()
    after = capsys.readouterr().out
    assert re.match(r"00 +read +1 of 1 ★\n01 +0 of", after)
    assert after.splitlines()[-1].startswith("1 of ")
    assert after.endswith(" in the whole course, 1 of 27 lessons read; next is attention_row in lesson 01.\n")
    (folder / "average.py").unlink()
    assert (folder / "read.txt").read_text() == "00\n"
    (folder / "read.txt").unlink()
    check.progress()
    assert capsys.readouterr().out == before


def test_a_lesson_that_was_only_run_is_not_read(folder):
    def untouched(weights, values):
        raise NotImplementedError

    check.answer(untouched, "average")  # the only exercise of lesson 00
    assert not kept.read()
    check.answer(lambda weights, values: weights @ values, "average")  # wrong, but tried
    assert kept.read() == {"00"}


@pytest.mark.full
def test_a_kernel_keeps_what_another_counts(folder):
    """Cells of two notebooks: the source of an answer is that of its cell, with what other cells define."""
    first = ["import numpy as np\nscale = 2",
             "def average(weights, values):\n    return scale * weights @ values / total(weights)",
             "def total(weights):\n    return scale * np.sum(weights)",
             "from attnlab_course import check\ncheck.answer(average)"]  # fmt: skip
    said = []
    for cells in (first, ["from attnlab_course import check\ncheck.progress()"]):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        NotebookClient(notebook, timeout=300).execute()
        said.append(notebook.cells[-1].outputs[0]["data"])
    assert said[0]["text/plain"] == "average: right, on 6 inputs.  ✓ ★"
    assert "<span" in said[0]["text/html"]
    assert kept.load(folder / "average.py", "average")(np.ones(2), np.arange(2.0)) == 0.5
    assert said[1]["text/plain"].splitlines()[0].split()[:3] == ["00", "read", "1"]
    assert "next is attention_row in lesson 01" in said[1]["text/html"]


def test_stars_are_those_of_the_exercises():
    assert {name: stars for found in check.catalogue().values() for name, stars in found.items()} == {
        name: check.find(name).stars for name in check.names()
    }
