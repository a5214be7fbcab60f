"""Whether two outcomes are the same, and how to tell a learner that they are not."""

from typing import Any

from attnlab_course.checker.exercise import Case, Exercise
from attnlab_course.checker.outcome import Outcome
from attnlab_course.checker.results import parameters

import numpy as np

TOLERANCE = {"float64": 1e-6, "float32": 2e-5, "float16": 5e-3, "bfloat16": 4e-2}
"""Largest difference, relative to the largest number expected, by the least precise dtype among the inputs."""


def tolerance(case: Case) -> float:
    """The largest relative difference that passes, by the least precise dtype among the arrays of a case."""
    dtypes = [x.dtype.name for x in case.args if isinstance(x, np.ndarray)]
    return max((TOLERANCE[d] for d in dtypes if d in TOLERANCE), default=TOLERANCE["float64"])


def agree(a: Outcome, b: Outcome, within: float) -> bool:
    """Whether two functions did the same: the same arrays, or the same kind of problem."""
    if a.kind or b.kind:
        return a.kind == b.kind
    return a.arrays.keys() == b.arrays.keys() and all(
        x.shape == b.arrays[name].shape and close(x, b.arrays[name], within) and close(b.arrays[name], x, within)
        for name, x in a.arrays.items()
    )


def close(found: np.ndarray, wanted: np.ndarray, within: float) -> bool:
    """Equal up to ``within`` times the largest finite number wanted; whole numbers and booleans exactly."""
    if wanted.dtype.kind in "biu":
        return bool(np.array_equal(found, wanted))
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0) or 1.0
    return bool(np.allclose(found, wanted, rtol=0, atol=within * scale, equal_nan=True))


def difference(found: Outcome, wanted: Outcome, case: Case, exercise: Exercise) -> str | None:
    """None if ``found`` is right; otherwise what to tell the learner."""
    if found.problem:
        return found.problem
    if found.arrays.keys() != wanted.arrays.keys():
        _regroup(found, wanted)
    if found.arrays.keys() != wanted.arrays.keys():
        return f"expected {_count_results(wanted)}, got {_count_results(found)}"
    for name, want in wanted.arrays.items():
        problem = _array_difference(found.arrays[name], want, tolerance(case), exercise.dtype)
        if problem:
            if name.startswith("gradient") and not found.arrays[name].any():
                problem += "\n  No gradient arrives: is something detached, or computed outside the library?"
            if name and not exercise.returns and found.result is not None:
                problem += f"\n  What your function returns is not looked at: the result belongs in {name}."
            return f"{title(name, exercise)}:\n  {problem}" if name else problem
    return None


def title(name: str, exercise: Exercise) -> str:
    """What an array of an outcome is called: for "part 2 of 3" the name as well, where the exercise has one."""
    index = int(name.split()[1]) - 1 if name.startswith("part ") else len(exercise.parts)
    known = exercise.parts[index] if index < len(exercise.parts) else ""
    return f"{known} ({name})" if known else name


def _regroup(found: Outcome, wanted: Outcome) -> None:
    """Accept an array for a tuple of as many items, and a tuple for a list."""
    parts = [name for name in wanted.arrays if name.startswith("part ")]
    whole = found.arrays.get("")
    items = [name for name in found.arrays if name.startswith("part ")]
    shapes = {(len(items), *found.arrays[name].shape) for name in items}
    if "" in wanted.arrays and shapes == {wanted.arrays[""].shape}:
        found.arrays = {"": np.stack([found.arrays.pop(name) for name in items])} | found.arrays
    if whole is not None and whole.ndim and len(whole) == len(parts):
        del found.arrays[""]
        found.arrays = dict(zip(parts, map(np.asarray, whole))) | found.arrays


def _count_results(outcome: Outcome) -> str:
    """How many things a function returned."""
    return "one result" if "" in outcome.arrays else f"a tuple of {sum(x.startswith('part ') for x in outcome.arrays)}"


def _array_difference(found: np.ndarray, wanted: np.ndarray, within: float, dtype: bool | type) -> str | None:
    """None if ``found`` is ``wanted``; otherwise how it differs."""
    if found.size == wanted.size == 0 and found.shape == wanted.shape[: found.ndim]:
        return None  # [] for an array of no rows: nested lists cannot say how long a row would be
    if found.shape != wanted.shape:
        return f"expected shape {wanted.shape}, got {found.shape}"
    kinds = {"b": "b", "i": "iu", "u": "iu"}.get(wanted.dtype.kind, "fiuV")
    if found.dtype.kind not in kinds or (dtype is True and found.dtype != wanted.dtype):
        as_numbers = (x.astype(np.float64) for x in (found, wanted))
        values = "" if close(*as_numbers, within) else f", and other values:\n  {_shown(found, wanted)}"
        return f"expected dtype {wanted.dtype}, got {found.dtype}{values}"
    if isinstance(dtype, type) and np.promote_types(found.dtype, dtype) != found.dtype:
        return f"expected at least {np.dtype(dtype)}, got {found.dtype}"
    return None if close(found, wanted, within) else _shown(found, wanted)


def _shown(found: np.ndarray, wanted: np.ndarray) -> str:
    """Both arrays, with as many digits as it takes to see a difference, and where it is largest if they are long."""
    for digits in (4, 6, 8, 12, 17):
        said = [_format_array(x, digits=digits) for x in (wanted, found)]
        if ("e" in said[0]) != ("e" in said[1]):  # 1e-05 beside 0.0001 is hard to compare
            said = [_format_array(x, digits=digits, scientific=True) for x in (wanted, found)]
        if said[0] != said[1]:
            break
    lines = f"expected {said[0]}\n  got      {said[1]}"
    if said[0] != said[1] and "..." not in said[0]:
        return lines
    with np.errstate(all="ignore"):
        apart = np.nan_to_num(np.abs(found.astype(float) - wanted.astype(float)), nan=np.inf, posinf=np.inf)
    apart[(found == wanted) | (np.isnan(found.astype(float)) & np.isnan(wanted.astype(float)))] = 0
    at = np.unravel_index(apart.argmax(), apart.shape)
    place = ", ".join(map(str, at))
    return f"{lines}\n  largest difference at [{place}]: expected {wanted[at]:.9g}, got {found[at]:.9g}"


def _format_array(x: Any, indent: int = 11, digits: int = 4, scientific: bool = False) -> str:
    """A small array, its further lines indented, or the beginning of a large one."""
    x = np.asarray(x)
    x = x.astype(int) if x.dtype.kind == "b" else x.astype(float) if x.dtype.name == "bfloat16" else x
    power = {"float_kind": lambda number: np.format_float_scientific(number, precision=digits)} if scientific else None
    line = np.array2string(
        x, precision=digits, suppress_small=False, threshold=40, separator=", ", max_line_width=90, formatter=power
    )
    return line.replace("\n", "\n" + indent * " ")


def arguments(exercise: Exercise, case: Case) -> list[str]:
    """The arguments of a case, one a line, if they are numbers and few."""
    if sum(np.size(x) if isinstance(x, np.ndarray | int | float) else 99 for x in case.args) > 16:
        return []
    names = parameters(exercise)
    pairs = zip(names, case.args)
    width = max(len(name) for name in names)
    shown = ((name, _format_array(x, width + 5) if isinstance(x, np.ndarray) else x) for name, x in pairs)
    return [f"  {name:<{width}} = {x}" for name, x in shown]
