"""Exercise checkers: ``check.answer(my_function)`` finds the exercise by the function's name.

    check.answer(attention_row)        is it right? if not, which mistake is it, and on what input does it show
    f = check.use(attention_row)       the learner's function if it is right, the course's otherwise
    check.hint("attention_row")        one hint more at each call
    check.progress()                   what is done, in this notebook

A function of another name is checked by ``check.answer(f, "attention_row")``. Answers may be written in NumPy, JAX or
PyTorch. Nothing is uploaded and nothing is hidden: each exercise is one small file in
attnlab_course/lessons/lessonNN/exercises, with its reference.
"""

import html
import os
from collections.abc import Callable

from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Exercise
from attnlab_course.checker.verdict import Verdict, show
from attnlab_course.lessons import find, lessons, names

__all__ = ["answer", "find", "hint", "lessons", "names", "progress", "use"]

_verdicts: dict[str, Verdict] = {}
_hints: dict[str, int] = {}


def _installed(name: str) -> Exercise | None:
    """The exercise, or None where the library that it is about is missing."""
    try:
        return find(name)
    except ModuleNotFoundError:
        return None


def _asked(function: Callable, name: str | None) -> Exercise:
    """The exercise that a call is about: the one called ``name``, or else like the function."""
    if not callable(function):
        raise TypeError(f"give the function itself, without quotes and without calling it; got {repr(function)[:100]}")
    name = name or getattr(function, "__name__", None)
    if name in (None, "<lambda>"):
        raise TypeError('this callable has no name: say which exercise it answers, as in check.answer(f, "average")')
    return find(name)


def answer(function: Callable, name: str | None = None, own: bool | None = None) -> None:
    """Check an answer and show what was found. Under nbgrader a missing or wrong answer is an AssertionError.

    ``own``: refuse an answer that calls a library's function for what the exercise asks for; None: under nbgrader only.
    """
    exercise, graded = _asked(function, name), bool(os.environ.get("NBGRADER_EXECUTION"))
    verdict = _verdicts[exercise.name] = examine(exercise, function, graded if own is None else own)
    show(verdict.text, verdict.html())
    if graded:
        assert verdict.state == "right", verdict.text


def use(function: Callable, name: str | None = None) -> Callable:
    """``function`` if it is right, otherwise the course's own, so that later cells work either way."""
    exercise = _asked(function, name)
    verdict = examine(exercise, function)
    right = verdict.state == "right"
    print(f"{exercise.name}: using {'yours' if right else f'the one of the course, as yours is {verdict.state}'}.")
    return function if right else exercise.reference


def hint(name: str) -> None:
    """Print the next hint of an exercise."""
    hints = find(name).hints
    given = _hints[name] = min(_hints.get(name, 0) + 1, len(hints))
    print(f"Hint {given} of {len(hints)}: {hints[given - 1]}")


def progress(number: str | None = None) -> None:
    """Show a table of the exercises and how far they are, as checked in this notebook.

    ``number``: a lesson such as "01"; otherwise the lessons of which something was checked here, or all.
    """
    begun = {n for n, found in lessons().items() if not _verdicts.keys().isdisjoint(found)} or lessons().keys()
    if number is not None and number not in lessons():
        raise ValueError(f"there is no lesson {number!r} with exercises; there are {', '.join(lessons())}")
    shown = {number} if number is not None else begun
    exercises = [e for n, found in lessons().items() if n in shown for e in map(_installed, found) if e]
    rows = [
        (e.lesson, e.name, "★" * e.stars, _verdicts[e.name].state if e.name in _verdicts else "not checked")
        for e in sorted(exercises, key=lambda e: (e.lesson, e.stars, e.name))
    ]
    width = max((len(row[1]) for row in rows), default=0)
    text = "\n".join(f"{n}  {name:<{width}}  {stars:<3}  {state}" for n, name, stars, state in rows)
    cells = ["".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) for row in rows]
    head = "".join(f"<th style='text-align:left'>{title}</th>" for title in ("lesson", "exercise", "", "state"))
    show(text, f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>")
