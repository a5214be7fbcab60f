"""Pages on which something is looked up, and which therefore answer first.

Reproductions begin with the table of all verdicts, errata with a list of them. Recipes begin with names: those of the
literature (names.md), those of arguments (what the package's errors say, other_names.py), and the tables
of what other libraries do.
"""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from attnlab.core.other_names import BEYOND_THE_SIX, BY_FUNCTION, OF_THE_SIX, ONLY_THE_SIX, Rows

ERRATUM = re.compile(r"^\*\*(\d+)\. (.+?)\*\*", re.MULTILINE | re.DOTALL)
ARGUMENTS = """
````{{dropdown}} Arguments, by the names that other libraries give them

You don't have to learn this table: an argument by another library's name is an error that says what it's called here.

| elsewhere | here |
|---|---|
{}
````
"""


def reproductions(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The page with the section that shows everything at a glance, which is computed last, in front."""
    begin, end = section(cells, "Everything at a glance")
    cells[0].source = re.sub(r"\(#\d+\.-([\w-]+)\)", lambda link: f"(#{link[1].lower()})", cells[0].source)
    cells[begin].source = re.sub(r"^## \d+\. ", "## ", cells[begin].source)
    return [cells[0], *cells[begin:end], *cells[1:begin]]


def errata(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The page with a list of the errata in front, and for each its address."""
    numbered = ERRATUM.findall("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))
    titles = [(number, " ".join(title.split()).rstrip(".")) for number, title in numbered]
    contents = "\n".join(f"- [Erratum {number}](#erratum-{number}): {title}" for number, title in titles)
    cells[0].source += f"\n\n{contents}"
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = ERRATUM.sub(r"(erratum-\1)=\n**[\1.](#erratum-\1) \2**", cell.source)
    return cells


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
