"""Run an answer on an exercise's inputs, beside the reference, and say in words what was found."""

import copy
import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One input: arguments, and what is special about them in the words of the course."""

    label: str
    args: tuple


@dataclass(frozen=True)
class Exercise:
    """Statement, reference, inputs (smallest first), what the answer may cost, and graded hints."""

    name: str
    lesson: str
    stars: int
    reference: Callable
    cases: Callable[[], list[Case]]
    hints: tuple[str, ...]
    cost: Callable[[Callable], str | None] = field(default=lambda answer: None)


@dataclass(frozen=True)
class Verdict:
    """``state`` is "right", "wrong" or "not attempted"; ``text`` says why."""

    state: str
    text: str


def examine(exercise: Exercise, answer: Callable) -> Verdict:
    """The verdict on one answer."""
    try:
        cases = exercise.cases()
        for case in cases:
            problem = compare(exercise, answer, case)
            if problem:
                return Verdict("wrong", f"{exercise.name}: not right yet.\n{problem}")
        problem = exercise.cost(answer)
    except NotAttempted:
        return Verdict("not attempted", f"{exercise.name}: not attempted yet.")
    if problem:
        return Verdict("wrong", f"{exercise.name}: right values, but {problem}")
    return Verdict("right", f"{exercise.name}: right, on {len(cases)} inputs.")


class NotAttempted(Exception):
    """The answer is still the stub."""


def compare(exercise: Exercise, answer: Callable, case: Case) -> str | None:
    """Run one case; None if the answer is right, otherwise what to tell the learner."""
    given = copy.deepcopy(case.args)
    try:
        got = answer(*given)
    except NotImplementedError:
        raise NotAttempted from None
    except (Exception, RecursionError) as error:
        return f"{describe(case)}\n  {where(error, answer)}"
    if got is ...:
        raise NotAttempted
    if not all(same(a, b) for a, b in zip(given, case.args)):
        return f"{describe(case)}\n  your function changes its inputs; work on a copy."
    expected = exercise.reference(*case.args)
    problem = difference(got, expected)
    return problem and f"{describe(case)}\n  {problem}"


def describe(case: Case) -> str:
    """The input in words."""
    return f"  Smallest input that fails: {case.label}"


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, NaN included."""
    return np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")


def difference(got: Any, expected: Any) -> str | None:
    """None if ``got`` is ``expected`` (numbers up to rounding, relative to the largest); otherwise how it differs."""
    if got is None:
        return "your function returned None; is a return missing?"
    try:
        found = np.asarray(got)
    except (ValueError, RuntimeError):
        return f"your function returned a {type(got).__name__} that is not an array"
    wanted = np.asarray(expected)
    if found.shape != wanted.shape:
        return f"expected shape {wanted.shape}, got {found.shape}"
    if found.dtype.kind not in {"b": "b", "i": "iu", "f": "f"}[wanted.dtype.kind]:
        return f"expected {wanted.dtype} numbers, got {found.dtype}"
    if wanted.dtype.kind == "f":
        scale = np.abs(wanted).max(initial=0)
        close = np.allclose(found, wanted, rtol=0, atol=1e-6 * scale, equal_nan=True)
    else:
        close = np.array_equal(found, wanted)
    return None if close else f"expected {text(wanted)}\n  got      {text(found)}"


def text(x: np.ndarray) -> str:
    """A small array on one line, or the beginning of a large one."""
    if x.dtype.kind == "b":
        x = x.astype(int)
    line = np.array2string(x, precision=4, suppress_small=True, threshold=40, separator=", ")
    return line.replace("\n", "\n" + 11 * " ")


def where(error: BaseException, answer: Callable) -> str:
    """The error, at the learner's own line."""
    code = getattr(answer, "__code__", None)
    message = f"{type(error).__name__}: {error}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    if not frames:
        return message
    line = frames[-1].lineno or code.co_firstlineno
    source = linecache.getline(code.co_filename, line).strip()
    return f"{message}\n  in your line {line - code.co_firstlineno + 1}: {source}"
