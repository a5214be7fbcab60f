"""The lessons: a folder each, with its figures, its experiments and their data, and its exercises."""

import difflib
import functools
import importlib
import pkgutil
import re
from pathlib import Path

from attnlab_course.checker.exercise import Exercise


@functools.cache
def lessons() -> dict[str, list[str]]:
    """The names of the exercises, by the number of their lesson."""
    folders = sorted(Path(__file__).parent.glob("lesson[0-9][0-9]/exercises"))
    return {folder.parent.name[-2:]: [m.name for m in pkgutil.iter_modules([str(folder)])] for folder in folders}


def catalogue() -> dict[str, dict[str, int]]:
    """The stars of the exercises, in the order of the course, read from their files: nothing is imported."""
    folder = Path(__file__).parent
    stars = {
        number: {name: int(re.search(r"stars=(\d)", _text(folder, number, name))[1]) for name in found}
        for number, found in lessons().items()
    }
    return {number: dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0]))) for number, found in stars.items()}


def _text(folder: Path, number: str, name: str) -> str:
    return (folder / f"lesson{number}" / "exercises" / f"{name}.py").read_text(encoding="utf-8")


def names() -> list[str]:
    """All exercises, by name."""
    return [name for found in lessons().values() for name in found]


def find(name: str) -> Exercise:
    """The exercise called ``name``; ValueError names those that are spelled most like it."""
    for number, found in lessons().items():
        if name in found:
            return importlib.import_module(f"attnlab_course.lessons.lesson{number}.exercises.{name}").EXERCISE
    like = ", ".join(difflib.get_close_matches(name, names(), n=3))
    way = f"the nearest names are {like}" if like else 'say which it answers, as in check.answer(f, "average")'
    raise ValueError(f"no exercise is called {name!r}; {way}")
