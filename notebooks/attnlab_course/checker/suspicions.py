"""What values don't tell: a loop without an end, what is kept from call to call, what is left to a library."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any
from unittest.mock import patch

from attnlab_course.checker.error_words import BUSY
from attnlab_course.checker.exercise import Case, Exercise
from attnlab_course.checker.library import codes_of, library_of, own_functions, python_function, unjitted
from attnlab_course.checker.outcome import SECONDS, outcome
from attnlab_course.checker.verdict import Verdict

import numpy as np

STOPPED = "It was stopped after {:.0f} seconds. Is there a loop that doesn't end?"
KEPT = (
    "Your function is right on every input, but wrong when it's called again with different numbers in arrays of the "
    "same shapes. Is anything kept from one call to the next?"
)
PACKAGES = ("attnlab", "attnlab_course", "flax", "jax", "scipy", "torch")
TOOLS = (
    "attnlab.core.geometry", __package__, "attnlab_course.instruments.machine.machine",
    "attnlab_course.instruments.machine.vector",
)
"""Modules of ours that lessons hand to their readers, and the checker itself."""
WORDS = ("backward", "dropout", "forward", "merge", "softmax")
"""Tasks, beside attention, that a function's name tells: a function that shares one with the exercise does its task."""
AUTODIFF = ("grad", "value_and_grad", "vjp")
"""Functions of JAX and PyTorch that do the task of an exercise whose name tells of a derivative."""


def judge_loops(exercise: Exercise, answer: Callable) -> Verdict | None:
    """The verdict on an answer whose JAX while_loop isn't seen to end, not compiled, on some input; None on any other.

    It runs inside C, where no time limit reaches; here it runs as a loop of Python's first. One under vmap runs
    compiled all the same, so it isn't stopped.
    """
    if exercise.run or "while_loop" not in _names_in(answer) or library_of(answer, exercise.library) != "jax":
        return None
    with unjitted("jax"):
        for case in exercise.cases():
            found = outcome(exercise, answer, case, SECONDS["jax"], "jax")
            if found.starved:
                return Verdict("not checked", f"{exercise.name}: not checked. {BUSY}")
            if found.kind == "TimeUp":
                return Verdict("wrong", f"{exercise.name}: not right yet.", STOPPED.format(SECONDS["jax"]))
    return None


def _names_in(answer: Callable) -> set[str]:
    """The names that the code of an answer refers to."""
    return {name for f in own_functions(answer) for code in codes_of(f) for name in code.co_names}


def redraw_numbers(exercise: Exercise, cases: list[Case]) -> Case | None:
    """The last of an exercise's inputs that draws numbers at random, with others; None if there is none."""
    make = np.random.default_rng  # draws others than it does, from the same seeds
    with patch.object(np.random, "default_rng", lambda seed=None: make(np.random.SeedSequence(seed, spawn_key=(1,)))):
        drawn = exercise.cases()
    for old, new in zip(cases[::-1], drawn[::-1]):
        pairs = [(x, y) for x, y in zip(old.args, new.args) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
        alike = all(x.shape == y.shape and x.dtype == y.dtype for x, y in pairs)
        if alike and not all(np.array_equal(*pair) for pair in pairs):
            return replace(new, label=f"{new.label}; with other numbers than before")
    return None


def find_borrowed(exercise: Exercise, answer: Callable, library: str, own: bool) -> list[str]:
    """The functions of packages that do the exercise's task in an answer, without those that the reference calls.

    For each package it's the first call that does the task: any attention; softmax or autodiff if that is the exercise;
    a function of its name.
    The first and the last input are traced; unless ``own`` is asked for, only if the answer names such a function.
    """
    if exercise.run or not (own or any(_asked(exercise, name) for name in _names_in(answer))):
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

    before = sys.getprofile()
    for case in dict.fromkeys((0, len(cases) - 1)):
        with unjitted(library):
            sys.setprofile(look)
            try:
                outcome(exercise, function, cases[case], SECONDS[library], library)
            finally:
                sys.setprofile(before)
    return found
