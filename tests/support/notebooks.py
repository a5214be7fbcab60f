"""Joins the two notebooks of a lesson into one that a single kernel runs: the learner's, then the solved one's rest.

    python -m tests.support.notebooks FOLDER      writes the joined notebooks and the pages into FOLDER, for nbval

This is what a learner does who opens a lesson, runs all of it, and then solves the exercises: first the learner's
notebook from top to bottom; then, in the same kernel, the solved one from its first exercise on. The cells before are
the same in both, with the same outputs, so they run once; a lesson in which they differ is refused.
"""

import re
import sys
from pathlib import Path

import nbformat

from tests.support import ROOT

NOTEBOOKS = ROOT / "notebooks"
PICTURE = re.compile("base64,[A-Za-z0-9+/=]+")


def code(path):
    """A notebook without its text."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return notebook


def tags(cell):
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def stored(cell):
    """What nbval compares of a cell: source and tags, and outputs that are not ignored."""
    ignored = {"nbval-ignore-output", "nbval-skip"} & set(tags(cell))
    return cell.source, tags(cell), [] if ignored else [text(output) for output in cell.outputs]


def text(output):
    """An output without pictures, which differ from one version of a library to the next."""
    data = {kind: PICTURE.sub("", x) for kind, x in output.get("data", {}).items() if not kind.startswith("image/")}
    return output.output_type, output.get("name"), output.get("text"), data


def joined(learner, solved):
    """The learner's notebook, followed by the solved one from its first exercise on."""
    assert [cell.id for cell in learner.cells] == [cell.id for cell in solved.cells]
    first = next(i for i, cell in enumerate(solved.cells) if "exercise" in tags(cell))
    for ours, theirs in zip(learner.cells[:first], solved.cells[:first]):
        assert stored(ours) == stored(theirs), f"cell {ours.id}, before the first exercise, differs when solved"
    again = [nbformat.from_dict({**cell, "id": f"{cell.id}-solved"}) for cell in solved.cells[first:]]
    return nbformat.from_dict({**learner, "cells": learner.cells + again})


def write(folder):
    """A notebook for each lesson and each page."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.ipynb"):
        old.unlink()
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        solved = NOTEBOOKS / "solutions" / path.name
        nbformat.write(joined(code(path), code(solved)) if solved.exists() else code(path), folder / path.name)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
