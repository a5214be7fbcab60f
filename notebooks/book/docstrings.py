"""Sphinx extension: the docstrings of attnlab, which are plain text, as reStructuredText.

Plain text stays as it is, with these shapes recognized:

    an indented block                      code, or a formula or table in its own lines
    lines with columns, three spaces apart the same
    "Arguments ...:" over "name: text"     a definition list
    *, | and _ in running text             themselves
    "notebook 03"                          a link to that lesson
"""

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from attnlab.core.signature import ARGUMENTS

SHARED = inspect.cleandoc(ARGUMENTS)
SEE = "Arguments, result and errors: those of :func:`tiled_attention`."
LESSONS = {path.name[:2]: path.stem for path in Path(__file__).parents[1].glob("[0-9]*.ipynb")}
LITERAL = re.compile(r"(``.+?``|:\w+:`.+?`|(?<![\w*])\*\w[\w ]*\w\*(?![\w*]))", re.DOTALL)


def rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Called by autodoc with the lines of every docstring; changes them in place."""
    text = "\n".join(lines).strip()
    if name != "attnlab.tiled_attention":  # one page shows the arguments once
        text = text.replace(SHARED, SEE)
    lines[:] = "\n\n".join(map(block, re.split(r"\n\s*\n", text))).split("\n")


def block(text: str) -> str:
    """One block of a docstring: what stands between two blank lines."""
    rows = text.split("\n")
    if rows[0].startswith("  ") or re.search(r"\S {3,}\S", rows[0]):
        return literal(textwrap.dedent(text))
    if len(rows) > 1 and rows[0].endswith(":") and all(row.startswith("  ") for row in rows[1:]):
        return f"{escape(rows[0])}\n\n{definitions(textwrap.dedent(chr(10).join(rows[1:])))}"
    return escape(text)


def literal(text: str) -> str:
    """Code if it is Python, else lines to be kept."""
    try:
        ast.parse(text)
        language = "python"
    except SyntaxError:
        language = "text"
    return f".. code-block:: {language}\n\n{textwrap.indent(text, '   ')}"


def definitions(text: str) -> str:
    """Items "name: text", continued on indented lines."""
    items = (re.sub(r"\s*\n\s+", " ", item).partition(": ") for item in re.split(r"\n(?! )", text))
    return "\n\n".join(f"{term}\n   {escape(said)}" for term, _, said in items)


def escape(text: str) -> str:
    """Running text, in which only literals, roles and words between asterisks are markup."""
    parts = LITERAL.split(text)
    parts[::2] = [re.sub(r"([*|`\\]|_(?!\w))", r"\\\1", part) for part in parts[::2]]
    text = re.sub(r":(func|class):`(?=\w)(?!attnlab)", r":\1:`.", "".join(parts))  # a dot: wherever it is defined
    return re.sub(r"[Nn]otebooks? [0-9a-z(), ]+", lambda found: re.sub(r"\d\d", link, found[0]), text)


def link(number: re.Match) -> str:
    """The number of a lesson as a link to it, if there is one."""
    return f":doc:`{number[0]} </{LESSONS[number[0]]}>`" if number[0] in LESSONS else number[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
