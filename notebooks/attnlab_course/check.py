"""Exercise checkers: ``check.answer(my_function)`` finds the exercise by the function's name.

    check.answer(attention_row)        is it right? if not, which mistake is it, and on what input does it show
    f = check.use(attention_row)       the learner's function if it is right, the course's otherwise
    check.hint("attention_row")        one hint more at each call
    check.progress()                   what is done, in all notebooks, and what comes next

A function of another name is checked by ``check.answer(f, "attention_row")``. Answers may be written in NumPy, JAX or
PyTorch. Nothing is uploaded and nothing is hidden: each exercise is one small file in
attnlab_course/lessons/lessonNN/exercises, with its reference, and a right answer is kept as work/answers/NAME.py, which
you may read, edit and delete.
"""

import html
import os
from collections.abc import Callable
from dataclasses import replace

from attnlab.core.other_names import errors_end_at_calls
from attnlab_course.checker import kept
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Exercise
from attnlab_course.checker.verdict import Verdict, show
from attnlab_course.lessons import catalogue, find, lessons, names

__all__ = ["answer", "find", "hint", "lessons", "names", "progress", "use"]

_verdicts: dict[str, Verdict] = {}
_hints: dict[str, int] = {}


def _asked(function: Callable, name: str | None) -> Exercise:
    """The exercise that a call is about: the one called ``name``, or else like the function."""
    if not callable(function):
        raise TypeError(f"give the function itself, without quotes and without calling it; got {repr(function)[:100]}")
    name = name or getattr(function, "__name__", None)
    if name in (None, "<lambda>"):
        raise TypeError('this callable has no name: say which exercise it answers, as in check.answer(f, "average")')
    return find(name)


def answer(function: Callable, name: str | None = None, own: bool | None = None) -> None:
    """Check an answer and show what was found; keep it if it is right, see ``attnlab_course.checker.kept``.

    Under nbgrader nothing is kept, and a missing or wrong answer is an AssertionError.
    ``own``: refuse an answer that calls a library's function for what the exercise asks for; None: under nbgrader only.
    """
    exercise, graded = _asked(function, name), bool(os.environ.get("NBGRADER_EXECUTION"))
    verdict = _verdicts[exercise.name] = examine(exercise, function, graded if own is None else own)
    if verdict.state == "right" and not graded:
        why = kept.keep(function, exercise.name, exercise.lesson)
        verdict = replace(verdict, stars=exercise.stars, diagnosis=f"It isn't kept in a file: {why}." if why else "")
    elif verdict.state == "wrong" and not graded:
        more = f'check.hint("{exercise.name}") has {len(exercise.hints)} hints.'
        verdict = replace(verdict, evidence=(*verdict.evidence, more))
    states = {_verdicts[name].state if name in _verdicts else "" for name in lessons()[exercise.lesson]}
    if not graded and "" not in states and states & {"right", "wrong"}:
        kept.note_read(exercise.lesson)
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
    if given == len(hints):
        print("That's the last one. The solutions of each lesson are in notebooks/solutions.")


def progress(number: str | None = None) -> None:
    """Show what is done, by the answers that are kept and those that were checked here, and what comes next.

    A lesson counts as read once each of its exercises was checked in one notebook and one was tried, right or not.

    ``number``: the exercises of a lesson such as "01"; otherwise those of the lessons of which something was checked
    in this notebook, or where there are none a line a lesson.
    """
    course = catalogue()
    if number is not None and number not in course:
        raise ValueError(f"there is no lesson {number!r} with exercises; there are {', '.join(course)}")
    right = kept.names() | {name for name, verdict in _verdicts.items() if verdict.state == "right"}
    begun = {n for n, found in course.items() if not _verdicts.keys().isdisjoint(found)}
    shown = {number} if number is not None else begun
    read = kept.read()
    states = dict.fromkeys(right, "right") | {name: verdict.state for name, verdict in _verdicts.items()}
    rows = [
        (n, name, "★" * stars, states.get(name, "not checked"))
        for n in sorted(shown) for name, stars in course[n].items()
    ] or [(n, "read" if n in read else "", "", _earned(found, right)) for n, found in course.items()]
    everything = {name: stars for found in course.values() for name, stars in found.items()}
    following = next(((n, name) for n, found in course.items() for name in found if name not in right), None)
    last = f"{_earned(everything, right)} in the whole course, {len(read)} of {len(course)} lessons read"
    last += "; next is {1} in lesson {0}".format(*following) if following else ""
    width = max(len(row[1]) for row in rows)
    text = "\n".join(f"{n}  {name:<{width}}  {stars:<3}  {state}" for n, name, stars, state in rows)
    cells = ["".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) for row in rows]
    titles = ("lesson", "exercise", "", "state") if shown else ("lesson", "", "", "stars")
    head = "".join(f"<th style='text-align:left'>{title}</th>" for title in titles)
    table = f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
    if kept.folder():  # else nothing outlives this notebook, and there is no sum to speak of
        text, table = f"{text}\n{last}.", f"{table}<div>{last}.</div>"
    show(text, table)


def _earned(exercises: dict[str, int], right: set[str]) -> str:
    """How many stars of these exercises are earned."""
    return f"{sum(stars for name, stars in exercises.items() if name in right)} of {sum(exercises.values())} ★"


errors_end_at_calls(__name__)
