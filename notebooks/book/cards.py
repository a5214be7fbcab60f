"""The first page: by the parts of README's table a card for each lesson, and the sidebar's contents."""

import re
from pathlib import Path

import nbformat
from front import band
from glyphs import glyph

PART = re.compile(r"^\| \*\*(Part .+?)\*\* \| .+ \|\n((?:\| \d\d · .+\n)*)", re.MULTILINE)
LINE = re.compile(r"^\| (\d\d) · .+? \| (.+) \|$", re.MULTILINE)
CARD = """
:::{{grid-item-card}} {title}
:link: {page}
:link-type: doc

```{{raw}} html
{glyph}
```

{line}
:::
"""

GRID = "### {}\n\n::::{{grid}} 1 2 3 3\n:gutter: 3\n:class-container: cards\n{}\n::::\n\n"
CONTENTS = "```{{toctree}}\n:caption: {}\n:hidden:\n:maxdepth: 1\n\n{}\n```\n\n"


def first_page(text: str, notebooks: Path) -> str:
    """The first page with its band, its cards and its contents."""
    readme, files = (notebooks.parent / "README.md").read_text(encoding="utf-8"), lessons(notebooks)
    grids = contents = ""
    for part, table in PART.findall(readme):
        rows = [(files.pop(number), line) for number, line in LINE.findall(table) if number in files]
        if rows:
            grids += GRID.format(part, "".join(card(path, line) for path, line in rows))
            contents += CONTENTS.format(part, "\n".join(path.stem for path, _ in rows))
    if files:
        raise ValueError(f"README's table of the lessons leaves out {', '.join(files)}")
    text = text.replace("%band%\n", band())
    return text.replace("%cards%\n", grids).replace("%contents%\n", contents)


def lessons(notebooks: Path) -> dict[str, Path]:
    """The learner's notebooks, by number."""
    return {path.stem[:2]: path for path in sorted(notebooks.glob("[0-9]*.ipynb"))}


def card(path: Path, line: str) -> str:
    """The card of a lesson."""
    notebook = nbformat.read(path, as_version=4)
    title = re.search(r"^# (.+)$", "\n".join(cell.source for cell in notebook.cells), re.MULTILINE)[1]
    return CARD.format(title=title, page=f"/{path.stem}", glyph=glyph(path.stem[:2]), line=line)
