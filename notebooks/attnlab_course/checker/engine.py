"""Examine an answer: is it right, is it as cheap as promised, and if not, which mistake is it?"""

from collections.abc import Callable
from importlib.util import find_spec

from attnlab.core.arguments import LIBRARIES
from attnlab_course.checker.compare import arguments, difference
from attnlab_course.checker.diagnosis import by_costs, by_outcomes, by_slips
from attnlab_course.checker.error_words import BUSY, explain
from attnlab_course.checker.exercise import Case, Exercise
from attnlab_course.checker.jaxprs import asks_for_values
from attnlab_course.checker.library import named_library, precise, to_library
from attnlab_course.checker.outcome import SECONDS, NotAttempted, Outcome, outcome
from attnlab_course.checker.probes import observations
from attnlab_course.checker.sandbox import Watch, call
from attnlab_course.checker.suspicions import KEPT, find_borrowed, judge_loops, redraw_numbers
from attnlab_course.checker.verdict import Verdict


def examine(exercise: Exercise, answer: Callable, own: bool = False) -> Verdict:
    """The verdict on one answer; with ``own``, one that leaves its task to a library is wrong."""
    if exercise.needs and find_spec(exercise.needs) is None:
        return Verdict("not checked", f"{exercise.name}: not checked, because {exercise.needs} is not installed.")
    cases = exercise.cases()
    try:
        stopped = judge_loops(exercise, answer)
        if stopped is not None:
            return stopped
        library, first, watch = _library_and_first(exercise, answer, cases[0])
        wrong = _judge_values(exercise, answer, library, cases, first, watch)
        verdict = wrong or _judge_costs(exercise, answer, library)
        return verdict if verdict.state != "right" else _judge_borrowing(exercise, answer, library, verdict, own)
    except NotAttempted:
        return Verdict("not attempted", f"{exercise.name}: not attempted yet.")


def _library_and_first(exercise: Exercise, answer: Callable, case: Case) -> tuple[str, Outcome, Watch]:
    """The library that an answer names, what the answer makes of the first case, and a watch on the time it took.

    If it names none and its arrays have not the method or keyword it uses, it is in the library in which it runs; so is
    one that names PyTorch and makes its tensors from NumPy's arrays.
    """
    named = None if exercise.run else named_library(answer)
    library = named or exercise.library
    with precise(library):
        to_library(case.args, library)  # the first use of a library starts it, which is not the answer's doing
    watch = Watch()
    found = outcome(exercise, answer, case, SECONDS[library], library, watch)
    if found.kind in ("AttributeError", "TypeError") and not exercise.run:
        for other in {None: ("torch", "jax"), "numpy": ("torch", "jax"), "torch": ("numpy",)}.get(named, ()):
            if other != library and find_spec(other):
                watch_there = Watch()
                found_there = outcome(exercise, answer, case, SECONDS[other], other, watch_there)
                if not found_there.kind:
                    return other, found_there, watch_there
    return library, found, watch


def _judge_values(
    exercise: Exercise, answer: Callable, library: str, cases: list[Case], first: Outcome, watch: Watch
) -> Verdict | None:
    """The verdict on an answer that is wrong in some case; None if there is none."""
    outcomes = [first]
    for case in cases[1:]:
        if outcomes[-1].kind == "TimeUp":
            break
        outcomes.append(outcome(exercise, answer, case, SECONDS[library], library, watch))
    problems = [judge(exercise, found, case) for found, case in zip(outcomes, cases)]
    if any(found.starved for found in outcomes):
        return Verdict("not checked", f"{exercise.name}: not checked. {BUSY}")
    if not any(problems):
        return _judge_again(exercise, answer, library, cases)
    known = by_outcomes(exercise, cases, outcomes, judge)
    told = known.say if known else _observed(exercise, cases, outcomes, problems)
    i = _telling(cases, problems, known.seen if known else "", bool(told))
    first = not known and not any(problems[:i])
    seen = f"{'First input that fails' if first else 'Seen on'}: {cases[i].label}"
    said = outcomes[i].printed.strip()
    printed = [f"It printed: {said[:300]}"] if said else []
    evidence = (seen, *arguments(exercise, cases[i]), f"  {problems[i]}", *printed)
    return Verdict("wrong", f"{exercise.name}: not right yet.", told, evidence)


def _telling(cases: list[Case], problems: list[str | None], seen: str, told: bool) -> int:
    """Which case to show: the one that a mistake names, or the first that fails.

    Where something is ``told`` of the values and that case shows another type alone, it is the first that shows values.
    """
    failing = [i for i, problem in enumerate(problems) if problem]
    named = [i for i in failing if seen and cases[i].label.startswith(seen)]
    values = [i for i in failing if told and "\n  got " in problems[i]]
    return (named or ("expected dtype" in problems[failing[0]] and values) or failing)[0]


def _judge_again(exercise: Exercise, answer: Callable, library: str, cases: list[Case]) -> Verdict | None:
    """The verdict on an answer that is right on all inputs, and wrong on one that has the shapes of one of them."""
    case = redraw_numbers(exercise, cases)
    found = Outcome() if case is None else outcome(exercise, answer, case, SECONDS[library], library)
    if case is None or found.kind == "TimeUp":
        return None
    problem = judge(exercise, found, case)
    evidence = (f"Seen on: {case.label}", *arguments(exercise, case), f"  {problem}")
    return Verdict("wrong", f"{exercise.name}: not right yet.", KEPT, evidence) if problem else None


def _observed(exercise: Exercise, cases: list[Case], outcomes: list[Outcome], problems: list[str | None]) -> str:
    """What holds of a wrong answer's results, if it had time for all inputs."""
    if len(outcomes) < len(cases):
        return ""
    wanted = [Outcome() if exercise.judge else outcome(exercise, exercise.reference, case) for case in cases]
    rows = list(zip(cases, outcomes, wanted, (not problem for problem in problems)))
    failing_first = sorted(rows, key=lambda row: row[3])
    return observations(exercise, rows, lambda: by_slips(exercise, [row[:2] for row in failing_first]))


def judge(exercise: Exercise, found: Outcome, case: Case) -> str | None:
    """What is wrong with an outcome; None if nothing is."""
    if exercise.judge is None:
        problem = difference(found, outcome(exercise, exercise.reference, case), case, exercise)
    elif found.problem:
        problem = found.problem
    else:
        judged = call(exercise.judge, (case, found.result), SECONDS["numpy"])
        found.starved = judged.starved
        problem = judged.result if judged.error is None else explain(judged.error, None, SECONDS["numpy"])
    if problem and found.again and found.kind != "TimeUp":
        found.kind = "stream"
        problem = "your function reads the stream a second time, when nothing is left: it flows by only once."
    return problem


def _judge_costs(exercise: Exercise, answer: Callable, library: str) -> Verdict:
    """The verdict on an answer whose values are right."""
    name, seconds = exercise.name, SECONDS[library]
    numbers: list[float | None] = []
    for cost in exercise.costs:
        with precise(library):
            done = call(cost.measure, (answer, library), seconds)
            if done.error is None and done.result is not None and not done.result <= cost.limit:
                done = call(cost.measure, (answer, library), seconds)  # another thread may hold memory, too
        if done.starved:
            return Verdict("not checked", f"{name}: right values; its cost could not be measured. {BUSY}")
        if library == "jax" and asks_for_values(done.error):
            numbers.append(None)
            continue
        if done.error is not None:
            said = f"Its cost could not be measured: {explain(done.error, answer, seconds)}"
            return Verdict("wrong", f"{name}: right values, but too expensive.", said)
        numbers.append(done.result)
    for cost, number in zip(exercise.costs, numbers):
        if number is not None and not number <= cost.limit:
            known, said = by_costs(exercise, numbers, library, judge), cost.words(number)
            said = f"{known.say} ({said})" if known else said
            look = getattr(cost.measure, "line", None)
            line = call(look, (answer,), seconds).result if look and library == "numpy" else ""
            return Verdict("wrong", f"{name}: right values, but too expensive.", said, (line,) if line else ())
    where = "" if library == exercise.library else f" ({LIBRARIES[library]})"
    right = f"{name}: right, on {len(exercise.cases())} inputs{where}{_kept(numbers, LIBRARIES[library])}."
    return Verdict("right", right)


def _kept(numbers: list[float | None], library: str) -> str:
    """What can be said of costs that are kept or, None, not measured."""
    if not numbers:
        return ""
    if all(number is None for number in numbers):
        return f"; its cost is not measured in {library}"
    measured = f", as far as that is measured in {library}" if None in numbers else ""
    return f", and within what it may cost{measured}"


def _judge_borrowing(exercise: Exercise, answer: Callable, library: str, right: Verdict, own: bool) -> Verdict:
    """The verdict on a right answer, ``right`` unless a library does its task."""
    names = find_borrowed(exercise, answer, library, own)
    if not names:
        return right
    said = f"It calls {', '.join(names)}"
    if own:
        return Verdict("wrong", f"{exercise.name}: right, but not your own.", f"{said}: write that yourself.")
    return Verdict("right", f"{right.headline} {said}, where you could write your own.")
