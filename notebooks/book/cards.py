"""The first page's pictures: the hook, and a card for each lesson with its line in the README and its first figure."""

import base64
import html
import re
from pathlib import Path

import matplotlib
import nbformat

from attnlab.plots import STYLE, hook

LINE = re.compile(r"^\| (\d\d · .+?|Reproductions) \| (.+) \|$", re.MULTILINE)
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


def cards(notebooks: Path, sources: Path) -> str:
    """The cards of all lessons as text of a page; their pictures are written to ``sources``/figures."""
    lines = dict(LINE.findall((notebooks.parent / "README.md").read_text(encoding="utf-8")))
    made = []
    for path in sorted(notebooks.glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        title = re.search(r"^# (.+)$", "\n".join(cell.source for cell in notebook.cells), re.MULTILINE)[1]
        alt, png = picture(notebook)
        file = Path("figures") / f"{path.stem[:2]}.png"
        (sources / file).write_bytes(base64.b64decode(png))
        made.append(CARD.format(title=title, page=f"/{path.stem}", picture=f"/{file}", alt=alt, line=lines[title]))
    return "".join(made)


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
