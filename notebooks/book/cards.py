"""What is said of each lesson: cards and the sidebar's contents on the first page, the instructors' tables."""

import math
import re
from collections.abc import Iterable
from pathlib import Path

import nbformat
from addresses import install
from attnlab_course.checker.engine import examine
from attnlab_course.lessons import find
from front import band
from glyphs import glyph

PART = re.compile(r"^\| \*\*(Part .+?)\*\* \| .+ \|\n((?:\| \d\d · .+\n)*)", re.MULTILINE)
LINE = re.compile(r"^\| (\d\d) · .+? \| (.+) \|$", re.MULTILINE)
MINUTES = re.compile(r"About (\d+) minutes to read, (\d+) for the exercises")
HEAD = "| lesson | minutes | before | exercises | points |\n|---|---|---|---|---|\n"
BEFORE = re.compile(r"Before:\s+(?:lessons?\s+)?(.+?)[.;]", re.DOTALL)
READ = re.compile(r"%read ([\d ]+)%")
EXERCISE = re.compile(r"^\*\*(★+)", re.MULTILINE)
VERDICT = "```{{raw}} html\n{}\n```\n"
CARD = """
:::{{grid-item-card}} {title}
:link: {page}
:link-type: doc

```{{raw}} html
{glyph}
```

{line}

<span class="minutes">{minutes}</span>
:::
"""

GRID = "### {}\n\n::::{{grid}} 1 2 3 4\n:gutter: 3\n:class-container: cards\n{}\n::::\n\n"
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
    text = text.replace("%install%\n", f"{install()}\n").replace("%verdict%\n", VERDICT.format(wrong_answer()))
    return text.replace("%cards%\n", grids).replace("%contents%\n", contents)


def lessons(notebooks: Path) -> dict[str, Path]:
    """The learner's notebooks, by number."""
    return {path.stem[:2]: path for path in sorted(notebooks.glob("[0-9]*.ipynb"))}


def source(path: Path) -> str:
    """The text of a notebook."""
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)


def card(path: Path, line: str) -> str:
    """The card of a lesson."""
    text = source(path)
    title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]
    return CARD.format(title=title, page=f"/{path.stem}", glyph=glyph(path.stem[:2]), line=line, minutes=minutes(text))


def wrong_answer() -> str:
    """What the checker says of an answer to lesson 03 that forgets to rescale, as HTML."""

    def online_stats(stream: Iterable[float]) -> tuple[float, float]:
        m, total = -math.inf, 0.0
        for x in stream:
            m = max(m, x)
            total += math.exp(x - m)
        return m, total

    return examine(find("online_stats"), online_stats).html()


def minutes(text: str) -> str:
    """How long a lesson takes, the stars of its exercises, and the lessons before it, from its text."""
    (read, solve), need = costs_of(text), before(text)
    return f"{read} + {solve} minutes · {sum(map(len, EXERCISE.findall(text)))} ★" + (need and f"<br>after {need}")


def before(text: str) -> str:
    """What a lesson needs, from its text."""
    found = BEFORE.search(text)
    return " ".join(found[1].split()) if found else ""


def costs_of(text: str) -> tuple[int, int]:
    """A lesson's minutes to read and those for its exercises."""
    read, solve = MINUTES.search(text).groups()
    return int(read), int(solve)


def tables(text: str, notebooks: Path) -> str:
    """The instructors' page with its table of the lessons, and the minutes to read of its plans."""
    texts = {number: source(path) for number, path in lessons(notebooks).items()}
    rows = "".join(row(lessons(notebooks)[number], text) for number, text in texts.items())
    text = text.replace("%lessons%\n", HEAD + rows)
    return READ.sub(lambda found: str(sum(costs_of(texts[number])[0] for number in found[1].split())), text)


def row(path: Path, text: str) -> str:
    """A lesson's row in the instructors' table."""
    stars = sorted(EXERCISE.findall(text))
    title = re.match(r"# (.+)", text)[1]
    need = before(text) or "–"
    cells = f"[{title}](../{path.name})", sum(costs_of(text)), need, ", ".join(stars), sum(map(len, stars))
    return f"| {' | '.join(map(str, cells))} |\n"
