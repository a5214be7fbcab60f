"""Which mistake of the catalogue an answer has made, or which slip: the one that does the same."""

import math
from collections.abc import Callable, Iterator
from functools import partial

from attnlab_course.checker.compare import agree, tolerance
from attnlab_course.checker.exercise import Case, Exercise, Mistake
from attnlab_course.checker.library import library_of
from attnlab_course.checker.outcome import Outcome, outcome
from attnlab_course.checker.sandbox import Watch
from attnlab_course.checker.slips import Slip, slips

import numpy as np

ALIKE = 0.02  # two costs are the same if they differ by less than this fraction
SECONDS = 20.0  # for how long the catalogue is searched
SLIPS = 5.0  # for how many seconds slips are
ROW = 5.0  # for how many a slip of the catalogue may run on one input
TELLING = ("stream", "inputs", "type", "library")  # kinds of problem that say what an answer does


def rows(exercise: Exercise) -> list[tuple[Mistake, list[Slip]]]:
    """The words for what is left out, and the slips that leave it out. ValueError if no slip does."""
    found: dict[str, list[Slip]] = {}
    for text, say in exercise.without.items():
        gone = [slip for slip in slips(exercise.reference) if text in slip.gone and slip.function]
        if not gone:
            known = sorted({text for slip in slips(exercise.reference) for text in slip.gone})
            raise ValueError(f"no slip of {exercise.name} leaves out {text!r}; what slips leave out: {known}")
        found.setdefault(say, []).extend(gone)
    return [(Mistake(say), gone) for say, gone in found.items()]


def _catalogue(exercise: Exercise) -> Iterator[tuple[Mistake, Callable, Callable[[Case], Outcome]]]:
    """Mistakes, then rows: each with a wrong function and what that makes of a case, until the time is over."""
    watch = Watch()
    found = [(mistake, f, partial(outcome, exercise, f)) for mistake in exercise.mistakes for f in mistake.wrong]
    of_rows = [(row, slip) for row, gone in rows(exercise) for slip in gone]
    found += [(row, slip.function, partial(run_slip, exercise, slip, seconds=ROW)) for row, slip in of_rows]
    for one in found:
        if watch.seconds() > SECONDS:
            return
        yield one


def by_outcomes(exercise: Exercise, cases: list[Case], outcomes: list[Outcome], judge: Callable) -> Mistake | None:
    """The mistake whose wrong implementation does the same as the answer in all cases, and is wrong in one.

    Not if the answer is NaN everywhere, which has many causes; errors everywhere must be the same to the word.
    """
    exactly = not any(map(_telling, outcomes))
    if len(outcomes) < len(cases) or (exactly and not all(found.problem for found in outcomes)):
        return None
    for mistake, _, run in _catalogue(exercise):
        same = all(_same(exercise, run(case), case, found, judge, exactly) for case, found in zip(cases, outcomes))
        if same and not _right(exercise, run, judge):
            return mistake
    return None


def by_slips(exercise: Exercise, rows: list[tuple[Case, Outcome]]) -> str:
    """What to say of a wrong answer that does in all cases what a slip does; nothing if none is found in time.

    ``rows``: cases, those that tell most first, and what the answer made of them.
    """
    if not any(_telling(found) for _, found in rows):
        return ""
    watch = Watch()
    for slip in slips(exercise.reference):
        if watch.seconds() > SLIPS:
            return ""
        if slip.function and all(agree(found, run_slip(exercise, slip, case), tolerance(case)) for case, found in rows):
            return slip.say(exercise.where)
    return ""


def run_slip(exercise: Exercise, slip: Slip, case: Case, seconds: float = 1.0) -> Outcome:
    """What a slip makes of a case, if it ends soon."""
    return outcome(exercise, slip.function, case, seconds)


def _right(exercise: Exercise, run: Callable[[Case], Outcome], judge: Callable) -> bool:
    """Whether the values that a function makes of the cases are all right."""
    return not any(judge(exercise, run(case), case) for case in exercise.cases())


def _telling(found: Outcome) -> bool:
    """Whether an outcome says what an answer does."""
    begins = (x.flat[:100_000].astype(float) for x in found.arrays.values())
    return found.kind in TELLING or any(np.isfinite(x).any() for x in begins)


def _same(exercise: Exercise, own: Outcome, case: Case, found: Outcome, judge: Callable, exactly: bool) -> bool:
    """Whether a mistake's ``own`` outcome is the one found in a case; ``exactly``: with the same words."""
    if own.again:
        judge(exercise, own, case)  # which tells whether it mattered
    words = found.problem.split("\n")[0], own.problem.split("\n")[0]
    return agree(found, own, tolerance(case)) and (words[0] == words[1] or not exactly)


def by_costs(exercise: Exercise, numbers: list[float | None], library: str, judge: Callable) -> Mistake | None:
    """The mistake whose wrong implementation, in the same library, has right values and the same costs.

    ``numbers`` are the answer's. The cost that the answer exceeds must be exceeded by the mistake as well.
    """
    if not all(number is None or math.isfinite(number) for number in numbers):
        return None
    for mistake, function, run in _catalogue(exercise):
        if library_of(function, exercise.library) == library and _right(exercise, run, judge):
            own = (cost.measure(function, library) for cost in exercise.costs)
            if all(_alike(a, b, c.limit) for a, b, c in zip(numbers, own, exercise.costs)):
                return mistake
    return None


def _alike(number: float | None, own: float | None, limit: float) -> bool:
    """Whether two costs are the same, and on the same side of the limit."""
    if number is None or own is None:
        return number is own
    return abs(number - own) <= ALIKE * number and (number > limit) == (own > limit)
