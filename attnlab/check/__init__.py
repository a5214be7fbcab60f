"""Exercise checkers: ``check.answer(my_function)`` finds the exercise by the function's name.

    check.answer(attention_row)        is it right? if not, the smallest input that fails
    f = check.use(attention_row)       the learner's function if it is right, the course's otherwise
    check.hint("attention_row")        one hint more at each call
    check.progress()                   what is done, in this notebook

``check.lesson("01").exercise("attention_row")(f)`` is the long spelling of ``check.answer``, for a
function of another name. Nothing is uploaded and nothing is hidden: each exercise is one small file in
attnlab/check/exercises, with its reference solution.
"""

import importlib
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from attnlab.check.engine import Exercise, Verdict, examine

_verdicts: dict[str, Verdict] = {}
_hints: dict[str, int] = {}


def find(name: str) -> Exercise:
    """The exercise called ``name``; ValueError lists the names there are."""
    if name not in names():
        raise ValueError(f"no exercise is called {name!r}; there are {', '.join(names())}")
    return importlib.import_module(f"{__name__}.exercises.{name}").EXERCISE


def names() -> list[str]:
    """All exercises, by name."""
    return [module.name for module in pkgutil.iter_modules(importlib.import_module(f"{__name__}.exercises").__path__)]


def answer(function: Callable, name: str | None = None) -> None:
    """Check an answer and print what was found. Under nbgrader a missing or wrong answer is an AssertionError."""
    exercise = find(name or function.__name__)
    verdict = _verdicts[exercise.name] = examine(exercise, function)
    print(verdict.text)
    if os.environ.get("NBGRADER_EXECUTION"):
        assert verdict.state == "right", verdict.text


def use(function: Callable, name: str | None = None) -> Callable:
    """``function`` if it is right, otherwise the course's own, so that later cells work either way."""
    exercise = find(name or function.__name__)
    verdict = examine(exercise, function)
    right = verdict.state == "right"
    print(f"{exercise.name}: using {'yours' if right else f'the one of the course, as yours is {verdict.state}'}.")
    return function if right else exercise.reference


def hint(name: str) -> None:
    """Print the next hint of an exercise."""
    hints = find(name).hints
    given = _hints[name] = min(_hints.get(name, 0) + 1, len(hints))
    print(f"Hint {given} of {len(hints)}: {hints[given - 1]}")


def progress() -> None:
    """Print a table of the exercises and how far they are, as checked in this notebook."""
    rows = sorted((find(name) for name in names()), key=lambda e: (e.lesson, e.stars, e.name))
    width = max(len(e.name) for e in rows)
    for e in rows:
        state = _verdicts[e.name].state if e.name in _verdicts else "not checked"
        print(f"{e.lesson}  {e.name:<{width}}  {'★' * e.stars:<3}  {state}")


@dataclass(frozen=True)
class Lesson:
    """The exercises of one lesson."""

    number: str

    def exercise(self, name: str) -> Callable[[Callable], None]:
        """The checker of one exercise: call it with an answer of any name."""
        if find(name).lesson != self.number:
            raise ValueError(f"exercise {name!r} belongs to lesson {find(name).lesson}, not {self.number}")
        return lambda function: answer(function, name)


def lesson(number: str) -> Lesson:
    """The exercises of the lesson with this number, such as "01"."""
    return Lesson(number)
