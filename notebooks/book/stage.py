"""Lay out the pages of the site in one folder: what Sphinx will read.

The page of a lesson is the learner's notebook as it was run. In it

- the cell that checks an exercise is followed by hints, each inside the one before, and by the solution with what the
  checker says of it, from the solved notebook: all closed;
- the answer to a prediction is folded, from the solved notebook;
- the source of one thing in several libraries becomes tabs;
- the pages on which something is looked up answer first (lookup.py);
- what moves in JupyterLab, and so has no output, is folded, with a line that says so;
- what the checker says before there is an answer is left out;
- below the title stands the button that runs the lesson in the browser (live.py);
- at the end stands a link to the lesson's concept questions, with how to cite it and, where the project
  has an address, where else it is (addresses.py).

The first page gets its band (front.py), its cards and the sidebar's contents (cards.py). All other pages are copied.
A page keeps the name that it has in notebooks/ or notebooks/book/.
"""

import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path

import nbformat
from addresses import foot
from attnlab_course.check import find
from attnlab_course.instruments.clock import KEY
from cards import first_page, tables
from live import bar
from lookup import errata, recipes, reproductions
from nbformat import NotebookNode

LISTING = re.compile(
    r"<details(?: open)?><summary><b>(\w+)</b> &nbsp; <code>(\S+)</code></summary>"
    r"\n\n```python\n(.*?)\n```\n\n</details>",
    re.DOTALL,
)
MARKER = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n", re.MULTILINE)
TABS = "`````{{tab-set}}\n:sync-group: library\n\n{}\n`````"
TAB = "````{{tab-item}} {0}\n:sync: {0}\n\n```{{code-block}} python\n:caption: {1}\n\n{2}\n```\n````"
SOLUTION = "````{{dropdown}} Solution\n:class-container: solution\n\n```{{code-block}} python\n{}\n```\n{}````"
HTML = "```{{raw}} html\n{}\n```"
VERDICT = f"\n{HTML}\n"
HINT = '<details class="hint"><summary>Hint {} of {}</summary>\n<p>{}</p>\n{}</details>'
MOVES = "*In JupyterLab this cell has something to move; the static pictures of this page say the same.*"
LOOKED_UP = ("reproductions", "errata", "recipes", "libraries")
QUESTIONS = "Have you understood it? [The concept questions of this lesson](/questions/{}.md)"


def stage(notebooks: Path, sources: Path) -> None:
    """Fill the folder ``sources`` with the pages of the site."""
    book = notebooks / "book"
    shutil.copytree(book, sources, ignore=shutil.ignore_patterns("*.py", "__pycache__", "static", "names.md"))
    shutil.copytree(notebooks / "figures", sources / "figures")
    first = sources / "index.md"
    first.write_text(first_page(first.read_text(encoding="utf-8"), notebooks), encoding="utf-8")
    teaching = sources / "instructors.md"
    teaching.write_text(tables(teaching.read_text(encoding="utf-8"), notebooks), encoding="utf-8")
    for page in sources.rglob("*.md"):
        page.write_text(from_root(page.read_text(encoding="utf-8")), encoding="utf-8")
    for path in notebooks.glob("*.ipynb"):
        nbformat.write(lesson(path, book), sources / path.name)


def from_root(text: str) -> str:
    """Links that go up to another page, counted from the folder of sources: there is only one level above."""
    return re.sub(r"\]\((?:\.\./)+", "](/", text)


def lesson(path: Path, book: Path) -> NotebookNode:
    """The page of a notebook."""
    notebook, solved = nbformat.read(path, as_version=4), path.parent / "solutions" / path.name
    answers = nbformat.read(solved, as_version=4).cells if solved.exists() else notebook.cells
    at = {answer.id: index for index, answer in enumerate(answers)}
    runs = bar(notebook) if path.stem not in LOOKED_UP else ""
    cells = [made for cell in notebook.cells for made in page_cells(cell, answers[: at[cell.id] + 1])]
    if runs:
        cells[0].source = below_title(cells[0].source, HTML.format(runs))
    if (book / "questions" / f"{path.name[:2]}.md").exists():
        title = re.match(r"# (.+)", cells[0].source)[1]
        cells.append(nbformat.v4.new_markdown_cell(QUESTIONS.format(path.name[:2]), id="questions"))
        cells.append(nbformat.v4.new_markdown_cell(foot(path.stem, title), id="foot"))
    if path.stem == "reproductions":
        cells = reproductions(cells)
    elif path.stem == "errata":
        cells = errata(cells)
    elif path.stem == "recipes":
        cells = recipes(cells, book / "names.md")
    notebook.cells = cells
    return notebook


def below_title(text: str, block: str) -> str:
    """The text of a page's first cell with a block below its title and what stands there in italics."""
    parts = text.split("\n\n")
    at = 1
    while at < len(parts) and re.fullmatch(r"\*(?!\*).+\*", parts[at], re.DOTALL):
        at += 1
    return "\n\n".join([*parts[:at], block, *parts[at:]])


def page_cells(cell: NotebookNode, answers: list[NotebookNode]) -> Iterator[NotebookNode]:
    """What becomes of one cell; ``answers`` are the cells of the solved notebook up to this one."""
    added = []
    tags = cell.metadata.setdefault("tags", [])
    if any(KEY in output.get("metadata", {}) for output in cell.get("outputs", [])):
        tags.append("long")  # which measures time
    if "predict" in tags:
        cell.outputs = answers[-1].outputs
        tags.append("hide-output")
        cell.metadata["mystnb"] = {"code_prompt_show": "Show what it prints", "code_prompt_hide": "Hide what it prints"}
    elif "check" in tags:
        cell.outputs = []  # nobody has answered here
        added = [hints(cell.source), solution(*answers[-2:])]
    elif cell.source.startswith("check.progress("):
        cell.outputs = []
    elif "interact" in cell.source and cell.cell_type == "code" and not cell.outputs:
        cell.metadata.tags = sorted({*tags, "hide-input"})
        added = [MOVES]
    elif cell.cell_type == "code":
        added = tabs(cell)
    yield cell
    for number, text in enumerate(added):
        yield nbformat.v4.new_markdown_cell(text, id=f"{cell.id}-{number}")


def hints(checks: str) -> str:
    """The hints of the exercise that a cell checks, each closed, and the next inside of it."""
    exercise = find(re.fullmatch(r"check\.answer\((\w+)\)", checks)[1])
    inside = ""
    for number, hint in reversed(list(enumerate(exercise.hints, 1))):
        inside = HINT.format(number, len(exercise.hints), escape(hint), inside)
    return HTML.format(inside)


def solution(answer: NotebookNode, check: NotebookNode) -> str:
    """A solution, closed, and what the checker says of it."""
    said = [output.data["text/html"] for output in check.outputs]
    return SOLUTION.format(MARKER.sub("", answer.source + "\n").strip(), "".join(map(VERDICT.format, said)))


def tabs(cell: NotebookNode) -> list[str]:
    """Take the listings in several libraries out of a cell's outputs, and make them tabs."""
    made, kept = [], []
    for output in cell.outputs:
        text = output.get("data", {}).get("text/markdown", "")
        listings = LISTING.findall(text)
        if len(listings) > 1:
            made.append(TABS.format("\n\n".join(TAB.format(*listing) for listing in listings)))
            continue
        kept.append(output)
    cell.outputs = kept
    return made
