"""What a function returned, as named arrays of NumPy."""

import inspect
import types
from decimal import Decimal
from numbers import Rational
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Stream
from attnlab_course.checker.library import to_numpy
from attnlab_course.instruments.machine import CountingVector

import numpy as np


def read(exercise: Exercise, case: Case, args: list, result: Any, gradients: tuple) -> tuple[dict, str, str]:
    """The arrays of a result, or what is wrong with it and the kind of that; reading it may run the answer's code."""
    if not all(i in exercise.writes or _unchanged(*pair) for i, pair in enumerate(zip(args, case.args))):
        return {}, "your function changes its inputs; work on a copy.", "inputs"
    try:
        names, arrays = parameters(exercise), _named_parts(exercise, result, args)
        of = {f"gradient of {names[i]}": np.asarray(to_numpy(g)) for i, g in zip(exercise.gradients, gradients)}
        return arrays | of, "", ""
    except TypeError as error:
        return {}, str(error), "type"


def parameters(exercise: Exercise) -> list[str]:
    """The names of the arguments."""
    return list(inspect.signature(exercise.reference).parameters)


def _named_parts(exercise: Exercise, result: Any, args: list) -> dict[str, np.ndarray]:
    """A result, or each part of a tuple, as an array, and what was written to counting vectors. TypeError otherwise.

    A list of as many items as the reference's tuple is one. Where the reference returns nothing, neither is looked at.
    """
    written = {
        name: np.array(x.values()) for name, x in zip(parameters(exercise), args) if isinstance(x, CountingVector)
    }
    if written and not exercise.returns:
        return written
    if isinstance(result, tuple) or (isinstance(result, list) and len(result) == len(exercise.parts) > 0):
        return {f"part {i + 1} of {len(result)}": _as_array(x) for i, x in enumerate(result)} | written
    return {"": _as_array(result)} | written


def _as_array(x: Any) -> np.ndarray:
    """A number, an array of any library or a list of them as an array."""
    if x is None:
        raise TypeError("your function returned None; is a return missing?")
    if isinstance(x, types.GeneratorType | types.AsyncGeneratorType):
        raise TypeError("your function returned a generator (through a yield, or parentheses); return the numbers.")
    if isinstance(x, types.CoroutineType):
        x.close()
        raise TypeError("your function is async; leave the async out.")
    try:
        found = np.asarray([to_numpy(item) for item in x] if isinstance(x, list) else to_numpy(x))
        if found.dtype == object and found.size and all(isinstance(n, Rational | Decimal) for n in found.flat):
            found = found.astype(float)  # exact numbers
    except Exception:
        found = np.asarray(None)
    if found.dtype.kind in "biuf" or found.dtype.name == "bfloat16":
        return found
    if found.dtype.kind == "c":
        raise TypeError("your function returned complex numbers.")
    name = type(x).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    objects = " (its dtype is object)" if isinstance(x, np.ndarray) else ""
    raise TypeError(f"your function returned {article} {name} that is not an array of numbers{objects}.")


def _unchanged(a: Any, b: Any) -> bool:
    """Equal to the bit, NaN included; the items of a stream as far as it was read; vectors are meant to be written."""
    if isinstance(b, CountingVector) or callable(b):
        return True
    if isinstance(b, Stream):
        return all(map(_unchanged, a.handed, b.make()))
    if isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(_unchanged, a, b))
    a = np.asarray(to_numpy(a))
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
