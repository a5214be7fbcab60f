"""Rooms of the course import downwards only; what they import of attnlab lies below them all."""

import ast
from pathlib import Path

import attnlab_course
import pytest

from tests.support.layers import FACE, House

FLOORS = [
    {FACE},  # the version alone
    {"instruments", "ladder", "model", "published"},
    {"checker", "serve"},
    {"bench", "plots"},
    {"lessons"},
    {"check"},
    {"games"},
]
HOUSE = House(Path(attnlab_course.__file__).parent, FLOORS)


def test_every_file_has_a_room():
    assert {HOUSE.room(file) for file in HOUSE.files} == {room for floor in FLOORS for room in floor}


@pytest.mark.parametrize("file", HOUSE.files)
def test_imports_go_down(file):
    assert HOUSE.arrows_up(file) == []


@pytest.mark.parametrize(("code", "rooms"), [
    ("from attnlab_course.plots.style import INK", ["plots"]),
    ("from attnlab_course import model, published", ["model", "published"]),
    ("def f():\n    import attnlab_course.instruments.machine.flash", ["instruments"]),
    ("import_module(f'attnlab_course.model.{library}')", ["model"]),
    ("import attnlab_course\nfrom attnlab import costs", [FACE]),
])  # fmt: skip
def test_imports_are_found(code, rooms):
    assert [found for found, _ in HOUSE.imported(ast.parse(code))] == rooms
