"""Examine an answer: is it right, is it as cheap as promised, and if not, which mistake is it?"""

from collections.abc import Callable
from importlib.util import find_spec

from attnlab.arguments import LIBRARIES
from attnlab.check.compare import agree, arguments, difference, tolerance
from attnlab.check.exercise import Case, Cost, Exercise, Mistake
from attnlab.check.guard import call, explain
from attnlab.check.library import given, library_of, precise
from attnlab.check.outcome import SECONDS, NotAttempted, Outcome, outcome
from attnlab.check.verdict import Verdict

ALIKE = 0.05  # two costs are the same if they differ by less than this fraction


def examine(exercise: Exercise, answer: Callable) -> Verdict:
    """The verdict on one answer."""
    name, library = exercise.name, library_of(answer, exercise.library)
    if exercise.needs and find_spec(exercise.needs) is None:
        return Verdict("not checked", f"{name}: not checked, because {exercise.needs} is not installed.")
    cases, left, first = exercise.cases(), SECONDS[library], None
    outcomes: list[Outcome] = []
    with precise(library):
        given(cases[0].args, library)  # the first use of a library starts it, which is not the answer's doing
    for case in cases:
        try:
            found = outcome(exercise, answer, case, left)
        except NotAttempted:
            return Verdict("not attempted", f"{name}: not attempted yet.")
        outcomes.append(found)
        left -= found.seconds
        problem = judge(exercise, found, case)
        if problem and first is None:
            first = (case, found, problem)
        if found.kind == "TimeUp":
            break
    if first is not None:
        known = _diagnose(exercise, cases, outcomes)
        return _verdict_of_failure(exercise, *first, known.say if known else "")
    for cost in exercise.costs:
        said = _too_expensive(exercise, cost, answer, library)
        if said:
            return Verdict("wrong", f"{name}: right values, but too expensive.", said)
    where = "" if library == exercise.library else f" ({LIBRARIES[library]})"
    within = ", and within what it may cost" if exercise.costs else ""
    return Verdict("right", f"{name}: right, on {len(cases)} inputs{where}{within}.")


def judge(exercise: Exercise, found: Outcome, case: Case) -> str | None:
    """What is wrong with an outcome; None if nothing is."""
    if exercise.judge is not None:
        return found.problem or exercise.judge(case, found.result)
    return difference(found, outcome(exercise, exercise.reference, case), case, exercise.dtype)


def _diagnose(exercise: Exercise, cases: list[Case], outcomes: list[Outcome]) -> Mistake | None:
    """The mistake whose wrong implementation does the same as the answer in all cases."""
    if len(outcomes) < len(cases):
        return None
    for mistake in exercise.mistakes:
        for function in mistake.wrong:
            if _same_in_all(exercise, function, cases, outcomes):
                return mistake
    return None


def _same_in_all(exercise: Exercise, function: Callable, cases: list[Case], outcomes: list[Outcome]) -> bool:
    """Whether ``function`` has these outcomes."""
    return all(
        agree(found, outcome(exercise, function, case), tolerance(case)) for case, found in zip(cases, outcomes)
    )


def _too_expensive(exercise: Exercise, cost: Cost, answer: Callable, library: str) -> str:
    """What to say of an answer that costs more than it may; empty if it does not."""
    done = call(cost.measure, (answer, library), SECONDS[library])
    if done.error is not None:
        return f"Its cost could not be measured: {explain(done.error, answer, SECONDS[library])}"
    if done.result <= cost.limit:
        return ""
    said = cost.say.format(found=done.result, limit=cost.limit)
    for mistake in exercise.mistakes:
        for function in mistake.wrong:
            if _alike(exercise, cost, function, done.result):
                return f"{mistake.say} ({said})"
    return said


def _alike(exercise: Exercise, cost: Cost, function: Callable, found: float) -> bool:
    """Whether a wrong function has right values and costs as much."""
    right = not any(judge(exercise, outcome(exercise, function, case), case) for case in exercise.cases())
    return right and abs(cost.measure(function, library_of(function, exercise.library)) - found) <= ALIKE * found


def _verdict_of_failure(exercise: Exercise, case: Case, found: Outcome, problem: str, say: str) -> Verdict:
    """The verdict on an answer that fails in ``case``."""
    seen = f"{'Seen on' if say else 'Smallest input that fails'}: {case.label}"
    printed = [f"It printed: {found.printed.strip()[:300]}"] if found.printed.strip() else []
    evidence = (seen, *arguments(exercise, case), f"  {problem}", *printed)
    return Verdict("wrong", f"{exercise.name}: not right yet.", say, evidence)
