"""A lesson's cells, run in the reader's browser by Pyodide; worker.js calls this.

A cell runs as it does in Jupyter. What it prints, what it displays and the value of its last line are sent on as they
come: a kind and a text. The kinds are "text" and "html"; "error"; "needs", where a cell needs what is not here; and
"stored", for what the page shows already: listings and tables from files, and pictures where matplotlib is missing.
"""

import ast
import contextlib
import importlib.abc
import importlib.util
import io
import linecache
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from typing import Any
from unittest.mock import MagicMock

import numpy as np

ELSEWHERE = {"torch": "PyTorch", "jax": "JAX", "triton": "Triton", "ml_dtypes": "JAX", "ipywidgets": "JupyterLab",
             "pydoc_data": "all of Python's library"}
PROCESSES = "other processes or threads"
INSTALLED = "the installed course: {}"
LONG = "a cell above that takes long: run that one first"
DRAWING = ("/figures", "/plots/")  # files that draw

Send = Callable[[str, str], None]


class Page:
    """The cells of one page: what they have defined, and what is missing."""

    def __init__(self, send: Send) -> None:
        self.send, self.names = send, {"__name__": "__main__"}
        self.missing: dict[str, str] = {}  # a name, and what the cell needs that defines it
        self.begun: dict[str, str] = {}  # the same for names that a cell gave a value before it failed
        self.pictures = importlib.util.find_spec("matplotlib") is not None
        sys.modules["IPython"], sys.modules["IPython.display"] = jupyter(send)
        if not self.pictures:
            no_pictures(send)

    def run(self, number: int, code: str) -> bool:
        """Run a cell; False if it did not come to its end."""
        file = f"<cell {number}>"
        linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file  # for tracebacks and inspect
        with contextlib.redirect_stdout(Printer(self.send)), contextlib.redirect_stderr(Printer(self.send)):
            try:
                self._execute(ast.parse(code, file), file)
            except BaseException as error:
                self._failed(error, code)
                return False
        return True

    def skip(self, code: str) -> None:
        """Don't run a cell: it takes long."""
        self.missing |= dict.fromkeys(set(defined(ast.parse(code))) - self.names.keys(), LONG)

    def _execute(self, tree: ast.Module, file: str) -> None:
        """Run the statements; show the value of the last one if it is an expression."""
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        for statement in tree.body:
            with self._lacking(statement):
                exec(compile(ast.Module([statement], []), file, "exec"), self.names)
        if last is not None:
            with self._lacking(last):
                value = eval(compile(ast.Expression(last.value), file, "eval"), self.names)
                if value is not None:
                    self.send(*shown(value))

    @contextlib.contextmanager
    def _lacking(self, statement: ast.stmt) -> Iterator[None]:
        """Go on where a statement only imports what is missing, or draws without matplotlib."""
        try:
            yield
        except Exception as error:
            need = self.need(error)
            imports = isinstance(statement, ast.Import | ast.ImportFrom)
            if need and imports:
                self.names |= dict.fromkeys(defined(statement), Absent(need))
            elif not (need or imports or self.pictures) and draws(error):
                self.send("stored", "")
            else:
                raise

    def _failed(self, error: BaseException, code: str) -> None:
        """Say why it did not come to its end."""
        need = self.need(error)
        if not need and isinstance(error, KeyError):  # in a dictionary that another cell began to fill
            need = next((self.begun[name] for name in read(ast.parse(code)) if name in self.begun), "")
        if need:
            for name in defined(ast.parse(code)):
                (self.begun if name in self.names else self.missing)[name] = need
            self.send("needs", need)
            return
        told = traceback.TracebackException.from_exception(error)
        told.stack[:] = [frame for frame in told.stack if frame.filename.startswith("<cell")]
        self.send("error", "".join(told.format(chain=False)))

    def need(self, error: BaseException | None) -> str:
        """What an error says is missing: a library, processes, or a name that another cell would have defined."""
        while error is not None:
            if isinstance(error, Missing):
                return str(error)
            if isinstance(error, ImportError):
                library = (error.name or "").partition(".")[0]
                if library in ELSEWHERE or library == "_multiprocessing":
                    return INSTALLED.format(ELSEWHERE.get(library, PROCESSES))
            if isinstance(error, NameError) and error.name in self.missing:
                return self.missing[error.name]
            if found := re.search("<absent: (.*?)>", str(error)):
                return found[1]
            if "support processes" in str(error) or "start new thread" in str(error):
                return INSTALLED.format(PROCESSES)
            error = error.__cause__ or error.__context__
        return ""


class Missing(Exception):
    """What is used is not in a browser; its text says which library."""


class Absent:
    """Stands for what could not be imported: a cell fails where it uses it, not where it imports it."""

    def __init__(self, need: str) -> None:
        self._need = need

    def __getattr__(self, name: str) -> Any:
        if name == "set_num_threads":  # all that the first cell of a lesson does with PyTorch
            return lambda count: None
        raise Missing(self._need)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise Missing(self._need)

    def __repr__(self) -> str:
        return f"<absent: {self._need}>"  # where a library refuses it, it says so: see Page.need


def draws(error: BaseException) -> bool:
    """Whether the error comes from a file that draws."""
    return any(part in frame.filename for frame in traceback.extract_tb(error.__traceback__) for part in DRAWING)


def defined(tree: ast.AST) -> Iterator[str]:
    """The names that a cell defines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name
            case ast.alias():
                yield node.asname or node.name.partition(".")[0]


def read(tree: ast.AST) -> Iterator[str]:
    """The names that a cell reads."""
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


class Printer(io.TextIOBase):
    """Where a cell prints."""

    def __init__(self, send: Send) -> None:
        self.send = send

    def write(self, text: str) -> int:
        """Send the text on."""
        self.send("text", text)
        return len(text)


def shown(value: Any, raw: bool = False) -> tuple[str, str]:
    """How a value is displayed; ``raw``: it is a dictionary of texts by their type."""
    page = value.get("text/html") if raw else getattr(value, "_repr_html_", lambda: None)()
    if page:
        return "html", page
    if getattr(value, "kind", "") == "Markdown":
        return "stored", ""
    return "text", f"{value.get('text/plain', '') if raw else repr(value)}\n"


def jupyter(send: Send) -> tuple[types.ModuleType, types.ModuleType]:
    """As much of IPython and of IPython.display as the package uses."""

    def kind(name: str) -> type:
        def start(self: Any, data: str = "", **_: Any) -> None:
            self.kind, self.data = name, data

        said = {"_repr_html_": lambda self: self.data} if name in ("HTML", "SVG") else {}
        return type(name, (), {"__init__": start, **said})

    def display(*values: Any, raw: bool = False, **_: Any) -> None:
        for value in values:
            send(*shown(value, raw))

    top, below = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    shell = type("ZMQInteractiveShell", (), {})()
    top.get_ipython, top.display = lambda: shell, below
    below.display = display
    for name in ("HTML", "Markdown", "SVG"):
        setattr(below, name, kind(name))
    return top, below


def no_pictures(send: Send) -> None:
    """Where matplotlib is missing, what draws with it does nothing, and the page keeps its stored pictures."""
    sys.meta_path.append(Nothing())
    from attnlab_course import plots

    plots.show = plots.style.show = lambda *_, **__: send("stored", "")


class Nothing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a matplotlib that draws nothing."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Any module of matplotlib is found."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "matplotlib" else None

    def create_module(self, spec: ModuleSpec) -> Any:
        """Every name in it is there, and does nothing."""
        module = MagicMock()
        module.Figure = lambda **_: MagicMock(subplots=axes)
        return module

    def exec_module(self, module: Any) -> None:
        """There is nothing to run."""


def axes(nrows: int = 1, ncols: int = 1, **_: Any) -> Any:
    """As many axes as a figure is asked for, in the shape in which matplotlib returns them."""
    made = np.empty((nrows, ncols), dtype=object)
    made[:] = MagicMock()
    return made.squeeze()[()]
