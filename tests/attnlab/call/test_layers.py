"""Rooms of the package import downwards only, and nothing in it knows the course."""

import ast
from pathlib import Path

import pytest

import attnlab
from tests.support.layers import FACE, House

FLOORS = [
    {"core", "core.shapes", "core.arguments", "core.other_names", "core.signature"},
    {"core.geometry", "core.torch_operator"},
    {"core.bundle"},
    {"core.dispatch"},
    {"core.arrays"},
    {"core.dropout", "core.scores"},
    {"softmax", "rotation", "kernels"},  # kernels: on tiles of their own; tiled calls them for arrays on a GPU
    set(attnlab.METHODS),
    {"adapters", "cache", "compat", "linear", "paged", "ring"},
    {FACE},
    {"costs", "measure"},
    {"conventions"},
]
HOUSE = House(Path(attnlab.__file__).parent, FLOORS)


def test_every_file_has_a_room():
    assert {HOUSE.room(file) for file in HOUSE.files} == {room for floor in FLOORS for room in floor}


@pytest.mark.parametrize("file", [file for file in HOUSE.files if HOUSE.room(file) != FACE])
def test_imports_go_down(file):
    assert HOUSE.arrows_up(file) == []


def test_the_package_does_not_know_the_course():
    """But for the sentence that says where to look for what isn't here."""
    named = {file for file, path in HOUSE.files.items() if "attnlab_course" in path.read_text(encoding="utf-8")}
    assert named == {f"{FACE}.py"}
    text = HOUSE.files[f"{FACE}.py"].read_text(encoding="utf-8")
    (sentence,) = (x for x in ast.walk(ast.parse(text)) if getattr(x, "name", "") == "__getattr__")
    assert text.count("attnlab_course") == ast.get_source_segment(text, sentence).count("attnlab_course") == 2


def test_an_import_that_goes_up_is_found(tmp_path):
    """A floor up, on the same floor, and by a string."""
    (tmp_path / "house/low").mkdir(parents=True)
    code = "from house.high import x\nimport house.beside\nimport_module('house.high.x')\nfrom house.low.x import y\n"
    (tmp_path / "house/low/x.py").write_text(code)
    house = House(tmp_path / "house", [{"low", "beside"}, {"high"}])
    assert [line.partition(": ")[2] for line in house.arrows_up("low/x.py")] == [
        "low imports high", "low imports beside", "low imports high"]  # fmt: skip
