"""Joins the two notebooks of a lesson into one that a single kernel runs: the learner's, then what else is solved.

    python -m tests.support.notebooks FOLDER      writes the joined notebooks and the pages into FOLDER, for nbval

This is what a learner does who opens a lesson, runs all of it, and then solves the exercises: first the learner's
notebook from top to bottom; then, in the same kernel, each cell of the solved one that has another source, another
stored output, or reads a name that such a cell has set. The others have run already. What stands before the first
exercise must be the same in both, or the lesson is refused. Cells that only the authors see stand in their place, and
a prediction has the output that the solved notebook stores. ``make test-all`` runs both notebooks whole.
"""

import re
import symtable
import sys
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from tests.support import ROOT

NOTEBOOKS = ROOT / "notebooks"
NIGHT = {"reproductions"}  # recomputes at length what lessons compute
PICTURE = re.compile("image/[a-z+]+;base64,[A-Za-z0-9+/=]+")


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
    if "predict" in tags(cell):
        return cell.source, ["predict"], []
    ignored = {"nbval-ignore-output", "nbval-skip"} & set(tags(cell))
    return cell.source, tags(cell), [] if ignored else [text(output) for output in cell.outputs]


def text(output):
    """An output without pictures, which differ from one version of a library to the next."""
    data = {kind: PICTURE.sub("", x) for kind, x in output.get("data", {}).items() if not kind.startswith("image/")}
    return output.output_type, output.get("name"), output.get("text"), data


def names(source):
    """The global names that a cell reads, and those that it defines."""
    tables = [top := symtable.symtable(TransformerManager().transform_cell(source), "cell", "exec")]
    for table in tables:
        tables += table.get_children()
    defined = {x.get_name() for x in top.get_symbols() if x.is_assigned() or x.is_imported()}
    symbols = [(table, x) for table in tables for x in table.get_symbols() if x.is_referenced()]
    return {x.get_name() for table, x in symbols if table is top or x.is_global()}, defined


def rerun(learner, solved):
    """The cells of the solved notebook that are not as they were in the learner's, or need one that is not."""
    changed = set()
    for ours, theirs in zip(learner, solved):
        reads, defines = names(theirs.source)
        if stored(ours) != stored(theirs) or reads & changed:
            changed |= defines
            yield theirs


def joined(learner, solved):
    """The learner's notebook, followed by what is to be run again once its exercises are solved."""
    ours = {cell.id: cell for cell in learner.cells}
    assert list(ours) == [cell.id for cell in solved.cells if "authors" not in tags(cell)]
    first = [cell if {"predict", "authors"} & set(tags(cell)) else ours[cell.id] for cell in solved.cells]
    again = list(rerun(first, solved.cells))
    assert "exercise" in tags(again[0]), f"cell {again[0].id}, before the first exercise, differs when solved"
    again = [nbformat.from_dict({**cell, "id": f"{cell.id}-solved"}) for cell in again]
    return nbformat.from_dict({**learner, "cells": first + again})


def write(folder):
    """A notebook for each lesson, and for each page but those that are left to the night."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.ipynb"):
        old.unlink()
    for path in sorted(path for path in NOTEBOOKS.glob("*.ipynb") if path.stem not in NIGHT):
        solved = NOTEBOOKS / "solutions" / path.name
        nbformat.write(joined(code(path), code(solved)) if solved.exists() else code(path), folder / path.name)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
