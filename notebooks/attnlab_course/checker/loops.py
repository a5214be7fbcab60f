"""JAX's while_loop, which runs inside C: first run as a loop of Python's, which a time limit can stop."""

from collections.abc import Callable

from attnlab_course.checker.exercise import Exercise
from attnlab_course.checker.library import codes_of, library_of, own_functions, unjitted
from attnlab_course.checker.outcome import SECONDS, outcome
from attnlab_course.checker.verdict import Verdict
from attnlab_course.checker.words import BUSY

STOPPED = "It was stopped after {:.0f} seconds. Is there a loop that doesn't end?"


def endless(exercise: Exercise, answer: Callable) -> Verdict | None:
    """The verdict on an answer whose while_loop isn't seen to end, not compiled, on some input; None on any other.

    A loop under vmap runs compiled all the same, so it isn't stopped.
    """
    names = {name for f in own_functions(answer) for code in codes_of(f) for name in code.co_names}
    if exercise.run or "while_loop" not in names or library_of(answer, exercise.library) != "jax":
        return None
    with unjitted("jax"):
        for case in exercise.cases():
            found = outcome(exercise, answer, case, SECONDS["jax"], "jax")
            if found.starved:
                return Verdict("not checked", f"{exercise.name}: not checked. {BUSY}")
            if found.kind == "TimeUp":
                return Verdict("wrong", f"{exercise.name}: not right yet.", STOPPED.format(SECONDS["jax"]))
    return None
