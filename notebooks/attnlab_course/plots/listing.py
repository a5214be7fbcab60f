"""Show in a notebook what is read from files and never pasted: the package's own source, and tables of verdicts."""

import ast
from pathlib import Path

import attnlab
import attnlab_course
from attnlab.core.arguments import LIBRARIES
from attnlab_course import published

__all__ = ["backends", "core", "excerpt", "fold", "functions", "measured", "source", "verdicts"]


def source(path: str) -> str:
    """The text of a file of attnlab, such as "naive/numpy.py", or of the course, "attnlab_course/serve/engine.py"."""
    package = attnlab_course if path.startswith("attnlab_course/") else attnlab
    return (Path(package.__file__).parent / path.removeprefix("attnlab_course/")).read_text(encoding="utf-8").strip()


def excerpt(path: str, *names: str) -> str:
    """The functions called ``names``, and those of the same file that they or their decorators name, in its order."""
    text = source(path)
    defined = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    shown, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name not in shown:
            shown.add(name)
            inside = (node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name))
            todo += [other for other in inside if other in defined]
    lines = text.splitlines()
    parts = []
    for node in sorted((defined[name] for name in shown), key=lambda node: node.lineno):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(parts)


def core(algorithm: str, library: str) -> str:
    """The core of an algorithm with its decorators, and the functions of its file that either needs."""
    return excerpt(f"{algorithm}/{library}.py", f"{algorithm}_attention")


def backends(algorithm: str, unfold: str = "numpy") -> None:
    """Display an algorithm in three libraries: one open, the others folded."""
    fold({library: (f"{algorithm}/{library}.py", core(algorithm, library)) for library in LIBRARIES}, unfold)


def functions(package: str, *names: str, unfold: str = "numpy") -> None:
    """Display functions of a package such as "softmax", and what they need of its files, in three libraries."""
    files = {library: f"{package}/{library}.py" for library in LIBRARIES}
    fold({library: (file, excerpt(file, *names)) for library, file in files.items()}, unfold)


def measured(name: str, command: str) -> None:
    """Display the table that ``command`` printed, stored as bench/NAME.md, or how to get it."""
    from IPython.display import Markdown, display

    path = Path(attnlab_course.__file__).parent / f"bench/{name}.md"
    missing = f"*Nothing is stored yet:* `{command}` *measures this machine in a few minutes.*"
    display(Markdown(path.read_text(encoding="utf-8") if path.exists() else missing))


def verdicts(table: str) -> None:
    """Display a table of verdicts, such as "03"."""
    from IPython.display import Markdown, display

    defined = f"*The {len(published.VERDICTS)} verdicts are defined on the page [Reproductions](reproductions.ipynb).*"
    display(Markdown(f"{published.verdicts(table)}\n\n{defined}"))


def fold(listings: dict[str, tuple[str, str]], unfold: str = "") -> None:
    """Display listings, (file, code) by their title or library, all but ``unfold`` folded."""
    from IPython.display import Markdown, display

    parts = []
    for title, (file, code) in listings.items():
        opened = " open" if title == unfold else ""
        where = file if file.startswith("attnlab_course/") else f"attnlab/{file}"
        head = f"<details{opened}><summary><b>{LIBRARIES.get(title, title)}</b> &nbsp; <code>{where}</code></summary>"
        parts.append(f"{head}\n\n```python\n{code}\n```\n\n</details>")
    display(Markdown("\n\n".join(parts)))
