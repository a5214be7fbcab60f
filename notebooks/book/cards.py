"""The first page: the hook, and by the parts of README's table a card for each lesson, and the sidebar's contents."""

import base64
import html
import re
from pathlib import Path

import matplotlib
import nbformat

from attnlab.plots import STYLE, hook

PART = re.compile(r"^\| \*\*(Part .+?)\*\* \| .+ \|\n((?:\| \d\d · .+\n)*)", re.MULTILINE)
LINE = re.compile(r"^\| (\d\d) · .+? \| (.+) \|$", re.MULTILINE)
PICTURE = re.compile(r'<img alt="([^"]*)"[^>]* src="data:image/png;base64,([^"]+)"')
CARD = """
:::{{grid-item-card}} {title}
:link: {page}
:link-type: doc
:img-top: {picture}
:img-alt: {alt}

{line}
:::
"""


GRID = "### {}\n\n::::{{grid}} 1 2 3 3\n:gutter: 3\n:class-container: cards\n{}\n::::\n\n"
CONTENTS = "```{{toctree}}\n:caption: {}\n:hidden:\n:maxdepth: 1\n\n{}\n```\n\n"


def first_page(text: str, notebooks: Path, sources: Path) -> str:
    """The first page with its cards and contents; the pictures are written to ``sources``/figures."""
    readme, files = (notebooks.parent / "README.md").read_text(encoding="utf-8"), lessons(notebooks)
    grids = contents = ""
    for part, table in PART.findall(readme):
        rows = [(files.pop(number), line) for number, line in LINE.findall(table) if number in files]
        if rows:
            grids += GRID.format(part, "".join(card(path, line, sources) for path, line in rows))
            contents += CONTENTS.format(part, "\n".join(path.stem for path, _ in rows))
    if files:
        raise ValueError(f"README's table of the lessons leaves out {', '.join(files)}")
    return text.replace("%cards%\n", grids).replace("%contents%\n", contents)


def lessons(notebooks: Path) -> dict[str, Path]:
    """The learner's notebooks, by number."""
    return {path.stem[:2]: path for path in sorted(notebooks.glob("[0-9]*.ipynb"))}


def card(path: Path, line: str, sources: Path) -> str:
    """The card of a lesson."""
    notebook = nbformat.read(path, as_version=4)
    title = re.search(r"^# (.+)$", "\n".join(cell.source for cell in notebook.cells), re.MULTILINE)[1]
    alt, png = picture(notebook)
    file = Path("figures") / f"{path.stem[:2]}.png"
    (sources / file).write_bytes(base64.b64decode(png))
    return CARD.format(title=title, page=f"/{path.stem}", picture=f"/{file}", alt=alt, line=line)


def picture(notebook: nbformat.NotebookNode) -> tuple[str, str]:
    """The alternative text and the data of a lesson's first figure after the ladders, which all lessons begin with."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    found = [image for output in outputs for image in PICTURE.findall(output.get("data", {}).get("text/html", ""))]
    alt, png = next(image for image in found if "ladders" not in image[0])
    return html.unescape(alt), png


def draw_hook(folder: Path) -> None:
    """Write hook.svg."""
    with matplotlib.rc_context(STYLE):
        hook().savefig(folder / "hook.svg", metadata={"Date": None})
