"""Read a lesson and make its two notebooks, not yet run: what an author writes, and what becomes of it.

A lesson is written once, in lessons/NN_name.md: a MyST Markdown notebook. A page such as lessons/reproductions.md is
written in the same way; it has no exercises and becomes one notebook. An exercise, and the cell that checks it:

    ```{code-cell}                            ```{code-cell}
    :tags: [exercise]                         :tags: [check, points-2]

    def double(x):                            check.answer(double)
        "Twice x."                            ```
        ### SOLUTION double
    ```

The solution is written once, too: as the reference in attnlab_course/lessons/lesson01/exercises/double.py. The solved
notebook has its body there, without annotations, between ### BEGIN SOLUTION and ### END SOLUTION; the learner's has a
stub, and both are ready for nbgrader. Where a lesson wants a text of its own on purpose, or the reference needs what
the notebook doesn't have, the lesson has the solution between these two lines, and the first says why: ### BEGIN
SOLUTION ours: a loop shows the order. Only authors see the reason. An exercise is named by the first function in it
(grade_id 01-double), its check by the exercise before it (01-double-check; one point unless a tag says otherwise). The
tags hide-input, hide-output and hide-cell also fold the cell in JupyterLab; nbval-ignore-output, nbval-skip and
raises-exception mean what nbval says. Three tags are our own:

- predict: the cell that answers a *Predict, then run*. The learner's notebook stores no output of it.
- authors: what the authors assert so that the text stays true. It's in the solved notebook alone, folded; a page, which
  has no other notebook, keeps it off the site.
- long: minutes in a browser, so the site runs it only when it's asked to, like a cell that measures time.

After the title every notebook gets one more cell, folded and not on the site, which installs the course on Google
Colab: from the address in pyproject.toml, [project.urls] Source, or from uploaded wheels if none is given there.
"""

import ast
import hashlib
import json
import re
import tomllib
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupytext.myst import MystMetadataParsingError, myst_to_notebook
from nbformat import NotebookNode

STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")  # nbgrader's own
BOTH = ["source", "outputs"]
FOLDS = {"hide-input": ["source"], "hide-output": ["outputs"], "hide-cell": BOTH, "authors": BOTH}
PYTHON = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python", "pygments_lexer": "ipython3"}
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
COLAB = """\
# Google Colab: {how}. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    %pip install --quiet {what}"""
UPLOAD = "upload the two wheels of {name} (README, Other places), then run this cell"
WHEELS = '"$(ls {name}-*.whl)" "$(ls {name}_course-*.whl)"'
SOURCES = '"{name} @ git+{source}" "{name}-course @ git+{source}#subdirectory=notebooks"'


class LessonError(Exception):
    """A fault of a lesson, told in one sentence."""


@dataclass
class Job:
    """One notebook to make: its lesson, its file, its cells, and for each cell the first line in the lesson."""

    lesson: Path
    path: Path
    notebook: NotebookNode
    lines: list[int]
    solved: bool = True

    def where(self, index: int, line: int = 1) -> str:
        """Name a line of a cell as an author finds it in the lesson; in an exercise the first: solutions move lines."""
        cell = self.notebook.cells[index]
        line = self.lines[index] + (0 if "exercise" in tags(cell) else line - 1)
        return f"{self.lesson.name}, line {line} (cell {cell.id} of {self.path.parent.name}/{self.path.name})"


def plan(folder: Path, chosen: list[str]) -> list[Job]:
    """The two notebooks of every lesson, or of the chosen ones; a page has one."""
    jobs = []
    lessons = {short(path): path for path in sorted((folder / "lessons").glob("*.md"))}
    if unknown := set(chosen) - set(lessons):
        raise LessonError(f"There is no lesson {', '.join(sorted(unknown))}; there are {', '.join(lessons) or 'none'}.")
    for number, lesson in lessons.items():
        if not re.fullmatch(r"\d\d_\w+|[a-z]\w*", lesson.stem):
            raise LessonError(f"lessons/{lesson.name}: a lesson is called NN_name.md, a page name.md.")
        if not chosen or number in chosen:
            solved, lines = read(lesson)
            name = f"{lesson.stem}.ipynb"
            if not number.isdigit() and any("exercise" in tags(cell) for cell in solved.cells):
                raise LessonError(f"lessons/{lesson.name}: exercises belong in a lesson, called NN_name.md.")
            if number.isdigit():
                jobs.append(Job(lesson, folder / "solutions" / name, solved, lines))
                jobs.append(learners(jobs[-1], folder / name))
                for cell in solved.cells:  # a page is one folder above the solutions
                    if cell.cell_type == "markdown":
                        cell.source = re.sub(r"\]\((?=[a-z_]+\.ipynb\))", "](../", cell.source)
            else:
                jobs.append(Job(lesson, folder / name, solved, lines))
    return jobs


def short(path: Path) -> str:
    """The number of a lesson, or the name of a page."""
    return path.stem[:2] if path.stem[:1].isdigit() else path.stem


def read(lesson: Path) -> tuple[NotebookNode, list[int]]:
    """Read a lesson: its notebook, without outputs, and each cell's first line."""
    text = lesson.read_text(encoding="utf-8")
    try:
        notebook = myst_to_notebook(text, add_source_map=True)
    except MystMetadataParsingError as error:
        raise LessonError(f"{lesson.name}: {error}") from None
    rows, lines = text.splitlines(), []
    for number, (cell, start) in enumerate(zip(notebook.cells, notebook.metadata.source_map, strict=True), 1):
        cell.id = f"{short(lesson)}-{number:03}"
        first = cell.source.split("\n")[0]
        lines.append(next((row for row in range(start, len(rows)) if rows[row] == first), start) + 1)
        if cell.cell_type == "code":
            cell.source = solve(cell.source, lesson, f"{lesson.name}, line {lines[-1]}")
        if "authors" in tags(cell):
            cell.metadata.tags = [*tags(cell), "remove-cell"]
        hidden = [part for tag in tags(cell) for part in FOLDS.get(tag, [])]
        if hidden:
            cell.metadata["jupyter"] = {f"{part}_hidden": True for part in hidden}
    if (pyproject := lesson.parents[2] / "pyproject.toml").exists():
        notebook.cells.insert(1, colab(pyproject, f"{short(lesson)}-colab"))
        lines.insert(1, lines[0])
    grade(notebook, lesson, lines)
    digest = hashlib.sha256(json.dumps([describe(cell) for cell in notebook.cells]).encode()).hexdigest()
    record = {"lesson": lesson.name, "source": digest[:16]}
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": PYTHON, "attnlab": record})
    return notebook, lines


def solve(source: str, lesson: Path, where: str) -> str:
    """Put in the bodies of the references that a cell names; where a solution is the lesson's own, drop the reason."""
    rows = []
    for row in source.split("\n"):
        before, marker, name = row.partition("### SOLUTION")
        begin, _, reason = row.partition(" ours: ")
        if marker and before != "    ":
            raise LessonError(f"{where}: ### SOLUTION stands in a function, by itself.")
        if marker:
            rows += ["    ### BEGIN SOLUTION", *reference(lesson, name.strip(), where), "    ### END SOLUTION"]
        elif "BEGIN SOLUTION" in row and not reason:
            raise LessonError(f"{where}: a solution of the lesson's own says why: ### BEGIN SOLUTION ours: a reason.")
        else:
            rows.append(begin if "BEGIN SOLUTION" in row else row)
    return "\n".join(rows)


def reference(lesson: Path, name: str, where: str) -> list[str]:
    """The body of an exercise's reference as a lesson writes code: without annotations."""
    file = f"attnlab_course/lessons/lesson{short(lesson)}/exercises/{name}.py"
    path = lesson.parents[1] / file
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        raise LessonError(f"{where}: there is no exercise {name}; it would be a function in {file}.")
    docstring, *body = found[0].body
    inner, rows = [node for statement in body for node in ast.walk(statement)], source.encode().split(b"\n")
    notes = [(node.annotation, ": ") for node in inner if isinstance(node, ast.arg) and node.annotation]
    notes += [(node.returns, " -> ") for node in inner if isinstance(node, ast.FunctionDef) and node.returns]
    for note, sign in sorted(notes, key=lambda pair: -pair[0].col_offset):  # from right to left: offsets stay true
        row = rows[note.lineno - 1]
        rows[note.lineno - 1] = row[: note.col_offset - len(sign)] + row[note.end_col_offset :]
    return b"\n".join(rows[docstring.end_lineno : found[0].end_lineno]).decode().lstrip("\n").split("\n")


def colab(pyproject: Path, cell_id: str) -> NotebookNode:
    """The cell that installs the course on Google Colab."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    name, source = project["name"], project.get("urls", {}).get("Source")
    if source:
        code = COLAB.format(how="this cell installs the course", what=SOURCES.format(name=name, source=source))
    else:
        code = COLAB.format(how=UPLOAD.format(name=name), what=WHEELS.format(name=name))
    metadata = {"tags": ["hide-input", "remove-cell"], "jupyter": {"source_hidden": True}}
    return nbformat.v4.new_code_cell(code, id=cell_id, metadata=metadata)


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def describe(cell: NotebookNode) -> list:
    """What a cell is, apart from its outputs."""
    return [cell.cell_type, cell.get("id"), cell.source, cell.metadata]


def grade(notebook: NotebookNode, lesson: Path, lines: list[int]) -> None:
    """Give exercises and their checks the metadata that nbgrader reads."""
    exercise, seen = "", Counter()
    for cell, line in zip(notebook.cells, lines, strict=True):
        where = f"{lesson.name}, line {line}"
        if "exercise" in tags(cell) or (cell.cell_type == "code" and "BEGIN SOLUTION" in cell.source):
            exercise = name = f"{lesson.name[:2]}-{function_of(cell, where)}"
        elif "check" in tags(cell):
            if not exercise:
                raise LessonError(f"{where}: there is no exercise before this check.")
            name = f"{exercise}-check"
        else:
            continue
        seen[name] += 1
        name += f"-{seen[name]}" if seen[name] > 1 else ""
        check = "check" in tags(cell)
        cell.metadata["nbgrader"] = nbgrader = nbformat.from_dict({"schema_version": 3, "grade_id": name})
        nbgrader.update(grade=check, solution=not check, locked=check, task=False)
        if check:
            points = [int(tag.removeprefix("points-")) for tag in tags(cell) if tag.startswith("points-")]
            nbgrader["points"] = sum(points) or 1


def function_of(cell: NotebookNode, where: str) -> str:
    """The function that an exercise asks for."""
    name = re.search(r"^(?:async )?(?:def|class) (\w+)", cell.source, re.MULTILINE)
    if not name or "exercise" not in tags(cell) or "BEGIN SOLUTION" not in cell.source:
        raise LessonError(
            f"{where}: the tag `exercise` is for a cell that defines a function with ### SOLUTION in it,"
            " and each such cell has it."
        )
    return name[1]


def learners(solved: Job, path: Path) -> Job:
    """The learner's notebook: stubs for solutions, predictions still to be made, nothing that the authors assert."""
    kept = [(deepcopy(cell), line) for cell, line in zip(solved.notebook.cells, solved.lines, strict=True)
            if "authors" not in tags(cell)]
    for cell, line in kept:
        if "exercise" in tags(cell):
            cell.source = stub(cell.source, f"{solved.lesson.name}, line {line}")
        if "predict" in tags(cell):
            cell.metadata.tags = sorted({*tags(cell), "nbval-ignore-output"})
    notebook = nbformat.from_dict({**solved.notebook, "cells": [cell for cell, _ in kept]})
    return Job(solved.lesson, path, notebook, [line for _, line in kept], solved=False)


def stub(source: str, where: str) -> str:
    """Replace solutions as nbgrader's ClearSolutions does."""
    kept, inside = [], False
    for row in source.split("\n"):
        begins, ends = "BEGIN SOLUTION" in row, "END SOLUTION" in row
        indent = row[: len(row) - len(row.lstrip())]
        if (begins and (inside or not indent)) or (ends and not inside):
            raise LessonError(f"{where}: a solution begins and ends once, inside a function.")
        if begins:
            kept += [indent + line for line in STUB]
        elif not inside:
            kept.append(row)
        inside = begins or (inside and not ends)
    if inside:
        raise LessonError(f"{where}: ### END SOLUTION is missing.")
    return "\n".join(kept)
