"""The course's modules are documented and annotated like the package's, and a core speaks in its lesson's equations."""

import importlib
import re

import attnlab_course
import pytest
from attnlab_course.ladder import LADDER

from tests.attnlab.call.test_signatures import (
    CORES,
    annotating_shapes,
    check_imports,
    comments_of,
    modules,
    undocumented,
)  # fmt: skip
from tests.support import ROOT, needs, typechecker
from tests.support.libraries import LIBRARIES


@pytest.mark.parametrize("name", modules(attnlab_course))
def test_modules_and_public_functions_have_docstrings(name):
    if name in ("attnlab_course.instruments.compiled", "attnlab_course.instruments.interpreted"):
        needs("triton")
    assert importlib.import_module(name).__doc__
    if not name.startswith(("attnlab_course.lessons.", "attnlab_course.games.")):  # an exercise says what it asks for
        assert undocumented(name) == []


@pytest.mark.parametrize("first", LIBRARIES)
def test_files_of_different_backends_never_import_one_another(first):
    check_imports(attnlab_course, first)


def test_every_annotated_shape_is_checked():
    checked = tuple(typechecker.modules())
    assert [name for name in annotating_shapes(attnlab_course) if not name.startswith(checked)] == []


@pytest.mark.parametrize("file", CORES + [f"tiled/{library}_grad" for library in LIBRARIES])
def test_the_fold_speaks_in_equations_of_its_lesson(file):
    """A core's comments name equations; each is a tag of the lesson that derives the algorithm."""
    named = {tag for comment in comments_of(file) for tag in re.findall(r"\((\d+\.\d+)\)", comment)}
    number = "10" if file.endswith("_grad") else LADDER[file.partition("/")[0]].lesson
    (lesson,) = (ROOT / "notebooks" / "lessons").glob(f"{number}_*.md")
    assert len(named) >= 2
    assert named <= set(re.findall(r"\\tag\{(\d+\.\d+)\}", lesson.read_text()))
