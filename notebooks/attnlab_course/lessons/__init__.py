"""The lessons: a folder each, with its figures, its experiments and their data, and its exercises."""

import difflib
import importlib
import pkgutil
from pathlib import Path

from attnlab_course.checker.exercise import Exercise


def lessons() -> dict[str, list[str]]:
    """The names of the exercises, by the number of their lesson."""
    folders = sorted(Path(__file__).parent.glob("lesson[0-9][0-9]/exercises"))
    return {folder.parent.name[-2:]: [m.name for m in pkgutil.iter_modules([str(folder)])] for folder in folders}


def names() -> list[str]:
    """All exercises, by name."""
    return [name for found in lessons().values() for name in found]


def find(name: str) -> Exercise:
    """The exercise called ``name``; ValueError names those that are spelled most like it."""
    for number, found in lessons().items():
        if name in found:
            return importlib.import_module(f"attnlab_course.lessons.lesson{number}.exercises.{name}").EXERCISE
    like = ", ".join(difflib.get_close_matches(name, names(), n=3, cutoff=0))
    raise ValueError(f"no exercise is called {name!r}; the nearest names are {like}")
