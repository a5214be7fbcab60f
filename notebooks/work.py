"""Keep the learner's copies of the notebooks, in work/.

    python notebooks/work.py fill        copy the notebooks that are not in work/ yet
    python notebooks/work.py reset 01    put lesson 01 back; the learner's copy goes to work/backups/

Nothing in work/ is ever overwritten or deleted.
"""

import argparse
import html
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parent
FIGURE = re.compile(r'<img alt="([^"]*)"')
FILE = re.compile(r"(?<!\[)`([\w/]+\.(?:md|sh))`")
SENTENCE = re.compile(r".{,180}?\.(?=\s|$)|.+?(?=[:.](?:\s|$))", re.DOTALL)  # of a long one not the data after a colon


def lessons(notebooks: Path) -> list[Path]:
    """The notebooks made for learners, in the order of the course."""
    return sorted(notebooks.glob("*.ipynb"))


def short(path: Path) -> str:
    """The number of a lesson, or the name of a page."""
    return path.stem[:2] if path.stem[:1].isdigit() else path.stem


def put(source: Path, target: Path) -> None:
    """Copy so that an interruption leaves the whole file or none, and without the cell for Google Colab.

    The copy and its solution are signed as this user's own: of a notebook without a signature JupyterLab shows no
    drawing that moves. The copy names the kernel as that does itself: else JupyterLab changes the name, and calls a
    lesson unsaved that was opened.
    """
    import nbformat.sign  # these take seconds, and most times there is nothing to copy
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.kernelspec import get_kernel_dict

    notebook = json.loads(source.read_text(encoding="utf-8"))
    kernel = {"name": "python3", **{key: get_kernel_dict()[key] for key in ("display_name", "language")}}
    notebook["metadata"].update(kernelspec=kernel, language_info=IPythonKernel.language_info)
    cells = [cell for cell in notebook["cells"] if not cell["id"].endswith("-colab")]
    solved = source.parent / "solutions" / source.name
    notary = nbformat.sign.NotebookNotary()
    if source.stem[:2].isdigit() and solved.exists():
        answers = nbformat.read(solved, as_version=4)
        cells = list(numbered(cells, answers.cells, int(source.stem[:2])))
        link = f"*Stuck, or done? Here are [our solutions](../notebooks/solutions/{source.name}).*"
        cells.append({"cell_type": "markdown", "id": "solutions", "metadata": {}, "source": link})
        notary.sign(answers)
    notebook["cells"] = [untouched(cell, source.parents[1]) for cell in cells]
    part = target.with_suffix(".part")
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    part.write_text(text, encoding="utf-8")
    os.replace(part, target)
    notary.sign(nbformat.reads(text, as_version=4))


def untouched(cell: dict[str, Any], root: Path) -> dict[str, Any]:
    """A cell as a learner opens it: no code has been run, text that folds is set apart, a file of the course is a link.

    ``root``: the folder of the course, in which the name of a file must be, or in its findings.
    """
    if cell["cell_type"] == "code":
        outputs = [{**x, "execution_count": None} if "execution_count" in x else x for x in cell["outputs"]]
        return {**cell, "execution_count": None, "outputs": outputs}

    def link(name: re.Match) -> str:
        path = next((path for path in (name[1], f"findings/{name[1]}") if (root / path).is_file()), None)
        return f"[{name[0]}](../{path})" if path else name[0]

    text = "".join(cell["source"]).replace("<details>", '<details style="margin-bottom: 1em">')
    return {**cell, "source": FILE.sub(link, text)}


def numbered(cells: list[dict], solved: list[dict], lesson: int) -> Iterator[dict]:
    """The cells, and below each figure its number and its caption: those of the site (book/linkable.py).

    A figure that is to be predicted, which only the solved notebook has, gets no words: they'd tell what it shows.
    """
    number, below, answers = 0, "", {cell["id"]: cell for cell in solved}
    for cell in cells:
        if below and cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            own = re.match(r"\*(?!\*)", text)
            cell["source"] = f"*Figure {lesson}.{number}: {text[1:]}" if own else f"*{below}*\n\n{text}"
        elif below:
            yield {"cell_type": "markdown", "id": f"{cell['id']}-figure", "metadata": {}, "source": f"*{below}*"}
        below = ""
        if found := [*FIGURE.findall(shown(cell)), *FIGURE.findall(shown(answers[cell["id"]]))]:
            number += 1
            said = SENTENCE.match(html.unescape(found[0]).rstrip(".") + ".")[0] if FIGURE.search(shown(cell)) else ""
            below = f"Figure {lesson}.{number}" + (f": {said.rstrip('.')}." if said else "")
        yield cell


def shown(cell: dict[str, Any]) -> str:
    """The HTML that a cell's outputs hold."""
    return "".join("".join(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", []))


def version(notebook: Path) -> str | None:
    """The version of the lesson that a notebook was made from; None if it does not say."""
    try:
        return json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["attnlab"]["source"]
    except (ValueError, KeyError, TypeError):
        return None


def fill(notebooks: Path, work: Path) -> None:
    """Copy what is not there yet, and say which lessons have changed since they were copied."""
    work.mkdir(exist_ok=True)
    for source in lessons(notebooks):
        target, number = work / source.name, short(source)
        if not target.exists():
            put(source, target)
            print(f"New in work/: {source.name}")
        elif version(target) not in (None, version(source)):
            print(
                f"Lesson {number} has a newer version; `make reset LESSON={number}` gets it"
                " and keeps a backup of yours."
            )


def reset(notebooks: Path, work: Path, lesson: str) -> None:
    """Move the learner's notebook to work/backups/ under a new number and copy the lesson again."""
    names = {short(path): path for path in lessons(notebooks)}
    number = lesson.removesuffix(".ipynb").split("_")[0]
    source = names.get(number.zfill(2)) if number else None
    if source is None:
        sys.exit(f"Say which lesson, e.g. make reset LESSON=01. There are: {', '.join(names) or 'none'}.")
    work.mkdir(exist_ok=True)
    target = work / source.name
    if target.exists():
        backups = work / "backups"
        backups.mkdir(exist_ok=True)
        count = 1
        while (backup := backups / f"{source.stem}-{count}.ipynb").exists():
            count += 1
        target.rename(backup)
        print(f"Your notebook is kept as work/backups/{backup.name}.")
    put(source, target)
    print(f"work/{target.name} is as at the start. If it is open in JupyterLab: File > Reload Notebook from Disk.")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["fill", "reset"])
    parser.add_argument("lesson", nargs="?", default="", help="number of the lesson to reset")
    options = parser.parse_args()
    work = NOTEBOOKS.parent / "work"
    if options.command == "fill":
        fill(NOTEBOOKS, work)
    else:
        reset(NOTEBOOKS, work, options.lesson)


if __name__ == "__main__":
    main()
