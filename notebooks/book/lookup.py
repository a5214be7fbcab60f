"""Pages on which something is looked up, and which therefore answer first.

Reproductions begin with the table of all verdicts, and their errata get a page of their own. Recipes begin with names:
those of the literature (names.md), those of arguments (what the package's errors say, other_names.py), and the tables
of what other libraries do.
"""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from attnlab.core.other_names import BEYOND_THE_SIX, BY_FUNCTION, OF_THE_SIX, ONLY_THE_SIX, Rows

ERRATUM = re.compile(r"^\*\*(\d+)\. (.+?)\*\*", re.MULTILINE | re.DOTALL)
ERRATA = """\
# Errata

{}

They're the last part of [Reproductions](/reproductions.ipynb): what they call *above*, by a section's number or by a
function's name, is on that page.

{}"""
ELSEWHERE = """\
{}

The {} places where a source is wrong have [a page of their own](/errata.ipynb), each with an address that you can cite.
"""
ARGUMENTS = """
````{{dropdown}} Arguments, by the names that other libraries give them

You don't have to learn this table: an argument by another library's name is an error that says what it's called here.

| elsewhere | here |
|---|---|
{}
````
"""


def reproductions(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The page with the section that shows everything at a glance, which is computed last, in front; without errata."""
    begin, end = section(cells, "Errata")
    head, numbers = cells[begin].source.split("\n")[0], ERRATUM.findall(text(cells[begin:end]))
    pointer = nbformat.v4.new_markdown_cell(ELSEWHERE.format(head, len(numbers)), id=cells[begin].id)
    cells = [*cells[:begin], pointer, *cells[end:]]
    begin, end = section(cells, "Everything at a glance")
    cells[begin].source = re.sub(r"^## \d+\. ", "## ", cells[begin].source)
    return [cells[0], *cells[begin:end], *cells[1:begin]]


def errata(page: NotebookNode) -> NotebookNode:
    """The notebook of the errata: a list, and for each its address."""
    cells = page.cells[slice(*section(page.cells, "Errata"))]
    _, said, first = cells[0].source.split("\n\n", 2)
    titles = [(number, " ".join(title.split()).rstrip(".")) for number, title in ERRATUM.findall(text(cells))]
    contents = "\n".join(f"- [Erratum {number}](#erratum-{number}): {title}" for number, title in titles)
    cells[0].source = ERRATA.format(said, f"{contents}\n\n{first}")
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = ERRATUM.sub(r"(erratum-\1)=\n**[\1.](#erratum-\1) \2**", cell.source)
    return nbformat.from_dict({**page, "cells": cells})


def recipes(cells: list[NotebookNode], names: Path) -> list[NotebookNode]:
    """The page with all tables of names before its first line of code."""
    code = next(index for index, cell in enumerate(cells) if cell.cell_type == "code")
    tables, _ = section(cells, "Coming from another library")
    known = nbformat.v4.new_markdown_cell(names.read_text(encoding="utf-8") + arguments(), id="names")
    return [*cells[:code], known, cells[tables], *cells[code:tables], *cells[tables + 1 :]]


def arguments() -> str:
    """The table of what arguments are called elsewhere and here: all functions first, then those that differ."""
    rows = table(OF_THE_SIX, "{}")
    for function, names in BY_FUNCTION.items():
        rows += table(names, f"`{function}`: {{}}")
    rows += table(BEYOND_THE_SIX + ONLY_THE_SIX, "beyond the six: {}")
    return ARGUMENTS.format("\n".join(f"| {there} | {here} |" for there, here in rows))


def table(rows: Rows, where: str) -> list[tuple[str, str]]:
    """The rows of a table: names elsewhere, and the one here."""
    return [(", ".join(f"`{name}`" for name in names.split()), where.format(hint)) for names, hint in rows]


def section(cells: list[NotebookNode], title: str) -> tuple[int, int]:
    """Where the section begins, and where the next one does."""
    heads = [index for index, cell in enumerate(cells) if cell.source.startswith("## ")]
    begin = next(index for index in heads if title in cells[index].source.split("\n")[0])
    return begin, next((index for index in heads if index > begin), len(cells))


def text(cells: list[NotebookNode]) -> str:
    """The words of some cells."""
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
