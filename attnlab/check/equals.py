"""Whether a wrong result is the right answer to other arguments."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from attnlab.check.compare import agree, tolerance
from attnlab.check.exercise import Case, Exercise
from attnlab.check.factors import candidates
from attnlab.check.guard import Watch
from attnlab.check.results import parameters

import numpy as np

SECONDS = 3.0  # for how long other arguments are tried


def other_arguments(exercise: Exercise, seen: list, outcome: Callable) -> str:
    """That in all inputs, right or wrong, the result is the right one for changed arguments; or nothing."""
    watch = Watch()
    wrong = [row for row in seen if not row[3]]
    ordered = wrong + [row for row in seen if row[3]]
    for said, change in _changes(exercise, wrong[0][0]):
        if watch.seconds() > SECONDS:
            return ""
        if all(_explains(exercise, change, case, found, outcome) for case, found, *_ in ordered):
            return f"Your result is the right one for {said}."
    return ""


def _explains(exercise: Exercise, change: Callable, case: Case, found: Any, outcome: Callable) -> bool:
    """Whether the reference, given changed arguments, has this outcome."""
    try:
        changed = replace(case, args=change(case))
    except (KeyError, IndexError):  # this case has no such size or axis
        return False
    other = outcome(exercise, exercise.reference, changed, 1.0)
    finite = any(np.isfinite(x.astype(float)).any() for x in other.arrays.values())
    return finite and not other.kind and agree(found, other, tolerance(case))


def _changes(exercise: Exercise, first: Case) -> Iterator[tuple[str, Callable[[Case], tuple]]]:
    """Ways of changing a case's arguments: two exchanged, a number that is one off, an array times a size."""
    names = parameters(exercise)
    for i, j in combinations(range(len(names)), 2):
        if type(first.args[i]) is type(first.args[j]):
            yield f"{names[i]} and {names[j]} exchanged", lambda case, i=i, j=j: _with(
                case, {i: case.args[j], j: case.args[i]}
            )
    for i, x in enumerate(first.args):
        if isinstance(x, bool):
            yield f"{names[i]} = not {names[i]}", lambda case, i=i: _with(case, {i: not case.args[i]})
        elif isinstance(x, int):
            yield f"{names[i]} + 1", lambda case, i=i: _with(case, {i: case.args[i] + 1})
            yield f"{names[i]} - 1", lambda case, i=i: _with(case, {i: case.args[i] - 1})
        elif isinstance(x, np.ndarray) and x.dtype.kind == "f":
            yield f"{names[i]} the other way round", lambda case, i=i: _with(case, {i: case.args[i][::-1].copy()})
            for name in candidates(exercise, first):
                yield f"{names[i]} times {name}", lambda case, i=i, name=name: _with(
                    case, {i: (case.args[i] * candidates(exercise, case)[name]).astype(case.args[i].dtype)}
                )


def _with(case: Case, new: dict[int, Any]) -> tuple:
    """The arguments of a case with some replaced."""
    return tuple(new.get(i, x) for i, x in enumerate(case.args))
