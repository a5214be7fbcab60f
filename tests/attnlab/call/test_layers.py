"""Rooms of the package import downwards only: read from the source, names of modules in strings among it."""

import ast
import re
from pathlib import Path

import pytest

import attnlab

PACKAGE = Path(attnlab.__file__).parent
LAYERS = [
    {"typing", "arguments", "misnamed", "signature"},
    {"geometry", "torch_operator"},
    {"call"},
    {"arrays"},
    {"softmax", "dropout", "rotation"},
    {"scores"},
    {"kernels"},  # on tiles of their own; attnlab.tiled calls them for arrays on a GPU
    set(attnlab.METHODS),
    {"adapters", "cache", "compat", "paged", "linear", "ring"},
    {"methods"},  # the table of algorithms, which the package itself shows
    {"costs"},
    {"machine", "measure", "hardware"},
    {"plots"},
    {"model"},
    {"serve"},
    {"bench"},  # measures the server, too
    {"check"},
    {"course"},
]
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}

ALLOWED = {
    # The checker looks an exercise up by its name, in the lesson's folder; exercises are written with attnlab_course.check.
    ("check", "course"),
    # The program that draws README's figures times with the lessons' clock.
    ("plots", "course"),
}


def room(path):
    """The first part of a file's path, a folder or a file of the package."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def owner(module, name=""):
    """The room that ``from module import name`` reads; names of the package itself are those of its table."""
    parts = [*module.split("."), *([name] if module == "attnlab" else [])][1:]
    return parts[0] if parts and parts[0] in HEIGHT else "methods"


def imported(tree):
    """Rooms that a file imports, by statements and by names in strings, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "attnlab":
            yield from ((owner(node.module, alias.name), node.lineno) for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] == "attnlab"]
            yield from ((owner(name), node.lineno) for name in names)
        elif isinstance(node, ast.JoinedStr) and ast.unparse(node)[2:].startswith("attnlab."):
            yield owner(ast.unparse(node)[2:-1]), node.lineno
        elif isinstance(node, ast.Constant) and re.fullmatch(r"attnlab(\.\w+)+", str(node.value)):
            yield owner(node.value), node.lineno


FILES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}


def test_every_room_has_a_place():
    assert {room(path) for path in FILES.values()} - {"__init__"} <= set(HEIGHT)


@pytest.mark.parametrize("file", FILES)
def test_imports_go_down(file):
    here = room(FILES[file])
    if here == "__init__":
        return
    for there, line in imported(ast.parse(FILES[file].read_text(encoding="utf-8"))):
        down = there == here or HEIGHT[there] < HEIGHT[here]
        assert down or (here, there) in ALLOWED, f"attnlab/{file}, line {line}: {here} imports {there}"


@pytest.mark.parametrize(("code", "rooms"), [
    ("from attnlab_course.plots.style import INK", ["plots"]),
    ("from attnlab import METHODS, costs", ["methods", "costs"]),
    ("import attnlab", ["methods"]),
    ("def f():\n    import attnlab_course.instruments.machine.flash", ["machine"]),
    ("importlib.import_module('attnlab.tiled.triton')", ["tiled"]),
    ("importlib.import_module(f'attnlab.{method}.{library}')", ["methods"]),
    ("import_module(f'attnlab_course.check.{name}')", ["check"]),
    ("GRADIENT = 'attnlab.tiled.torch.tiled_attention_backward'", ["tiled"]),
    ('"""attnlab.tiled is a room."""', []),
    ("import numpy\nfrom os import path\nimportlib.import_module('numpy')", []),
])  # fmt: skip
def test_imports_are_found(code, rooms):
    assert [found for found, _ in imported(ast.parse(code))] == rooms
