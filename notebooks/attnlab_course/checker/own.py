"""Whether an answer leaves what the exercise asks for to a function of a library: seen by tracing its calls."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from attnlab_course.checker.exercise import Exercise
from attnlab_course.checker.library import codes_of, own_functions, python_function, unjitted
from attnlab_course.checker.outcome import SECONDS, outcome

PACKAGES = ("attnlab", "attnlab_course", "flax", "jax", "scipy", "torch")
TOOLS = (
    "attnlab.core.geometry", __package__,
    *(f"attnlab_course.instruments.machine.{name}" for name in ("machine", "sram", "vector", "work")),
)
"""Modules of ours that lessons hand to their readers, and the checker itself."""
WORDS = ("backward", "dropout", "forward", "merge", "softmax")
"""Tasks, beside attention, that a function's name tells: a function that shares one with the exercise does its task."""
AUTODIFF = ("grad", "value_and_grad", "vjp")
"""Functions of JAX and PyTorch that do the task of an exercise whose name tells of a derivative."""


def borrowed(exercise: Exercise, answer: Callable, library: str, own: bool) -> list[str]:
    """The functions of packages that do the exercise's task in an answer, without those that the reference calls.

    For each package it's the first call that does the task: any attention; softmax or autodiff if that is the exercise;
    a function of its name.
    The first and the last input are traced; unless ``own`` is asked for, only if the answer names such a function.
    """
    names = {name for f in own_functions(answer) for code in codes_of(f) for name in code.co_names}
    if exercise.run or not (own or any(_asked(exercise, name) for name in names)):
        return []
    found = _called(exercise, answer, library)
    theirs = _called(exercise, exercise.reference, exercise.library) if found else {}
    return [name for package, name in found.items() if package not in theirs]


def _asked(exercise: Exercise, name: str) -> bool:
    """Whether a function of this name does what the exercise asks for."""
    same = name.replace("_", "") == exercise.name.replace("_", "")
    shared = any(word in name.replace("softmin", "softmax") and word in exercise.name for word in WORDS)
    derived = name in AUTODIFF and exercise.name.endswith(("backward", "vjp"))
    return not name.startswith("_") and (same or shared or derived or "attention" in name)


def _called(exercise: Exercise, function: Callable, library: str) -> dict[str, str]:
    """The first function of each package that ``function`` calls for the exercise's task."""
    cases, found = exercise.cases(), {}
    own = getattr(python_function(function), "__code__", None)

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event == "call" and frame.f_code is not own:
            module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        elif event == "c_call":
            home = getattr(called, "__module__", None) or type(getattr(called, "__self__", None)).__module__
            module, name = str(home), called.__name__
        else:
            return
        package = module.split(".")[0]
        if package in PACKAGES and not module.startswith(TOOLS) and _asked(exercise, name):
            found.setdefault(package, f"{package}'s {name}")

    for case in dict.fromkeys((0, len(cases) - 1)):
        with unjitted(library), _profiled(look):
            outcome(exercise, function, cases[case], SECONDS[library], library)
    return found


@contextlib.contextmanager
def _profiled(look: Callable) -> Iterator[None]:
    """Call ``look`` at every call while this context is open."""
    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)
