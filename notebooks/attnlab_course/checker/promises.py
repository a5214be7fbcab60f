"""Measures of what an answer costs: memory as the input grows, loads and stores; and what its rounding loses.

Each function returns a measure for :class:`attnlab_course.checker.exercise.Cost`. ``make(n)`` returns the arguments
of a call of size n, arrays in NumPy.
"""

import contextlib
import linecache
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from attnlab import measure
from attnlab_course.checker.exercise import Function, Stream
from attnlab_course.checker.jaxprs import held_bytes, trace_program
from attnlab_course.checker.library import precise, python_function, to_library, to_numpy
from attnlab_course.checker.outcome import evaluate_on
from attnlab_course.instruments.machine import CountingVector

import numpy as np

Measure = Callable[[Function, str], float | None]
SMALL = 4096  # bytes that nobody need account for: with them, the growth of almost nothing is 1


def growth(make: Callable[[int], tuple], small: int, large: int, gradients: tuple[int, ...] = ()) -> Measure:
    """Peak memory at size ``large`` over that at ``small``; with ``gradients``, of the call and its gradient."""

    def found(answer: Function, library: str) -> float:
        held = [SMALL + _held_bytes(answer, library, make(n), gradients) for n in (small, large)]
        return held[1] / held[0]

    found.line = lambda answer: line_of_peak(answer, make(large))
    return found


def peak(make: Callable[[int], tuple], n: int, unit: float | int, gradients: tuple[int, ...] = ()) -> Measure:
    """Peak memory at size ``n`` in elements of the first array's dtype, divided by ``unit``."""

    def found(answer: Function, library: str) -> float:
        args = make(n)
        size = next(x.itemsize for x in args if isinstance(x, np.ndarray))
        return _held_bytes(answer, library, args, gradients) / size / unit

    found.line = lambda answer: line_of_peak(answer, make(n))
    return found


def inverse(measure: Measure) -> Measure:
    """One over it, for what must not be too small; infinite for 0."""

    def found(answer: Function, library: str) -> float | None:
        number = measure(answer, library)
        return None if number is None else 1 / number if number else float("inf")

    return found


def loads_per_element(make: Callable[[int], tuple], n: int) -> Measure:
    """Loads from the counting vectors among the arguments, divided by ``n``."""
    return lambda answer, library: _count_accesses(answer, make(n), "loads") / n


def stores_per_element(make: Callable[[int], tuple], n: int) -> Measure:
    """Stores to the counting vectors among the arguments, divided by ``n``."""
    return lambda answer, library: _count_accesses(answer, make(n), "stores") / n


def _count_accesses(answer: Function, args: tuple, what: str) -> int:
    """All accesses of a kind during one call."""
    answer(*args)
    return sum(getattr(x, what) for x in args if isinstance(x, CountingVector))


def _held_bytes(answer: Function, library: str, args: tuple, gradients: tuple[int, ...] = ()) -> int:
    """Peak memory of a call beyond arguments and result: traced (NumPy, and whatever is given no array), profiled
    (PyTorch), or, in JAX, read from the program, which is not run."""
    if library == "jax" and any(isinstance(x, np.ndarray) for x in args):
        return held_bytes(trace_program(answer, args, gradients))
    evaluate_on(answer, to_library(args, library), gradients, library)  # a first call allocates what is kept as well
    fresh = tuple(_read_ahead(x) for x in to_library(args, library))

    def run(*_: Any) -> Any:
        result, _ = evaluate_on(answer, fresh, gradients, library)
        return tuple(x for x in (result if isinstance(result, tuple | list) else [result]) if hasattr(x, "nbytes"))

    tensors = [x for x in fresh if hasattr(x, "is_cuda")]
    if tensors:
        return measure.torch_bytes(run, *tensors)
    with traced_memory() as high:
        result = run()
        held = high()
    return held - measure.result_bytes(result)


def line_of_peak(answer: Function, args: tuple) -> str:
    """The line of an answer in NumPy during which most memory is held, in words; nothing where it cannot be seen."""
    own = getattr(python_function(answer), "__code__", None)
    peaks: dict[tuple[CodeType, int], int] = {}
    now: list[tuple[CodeType, int]] = []

    def look(frame: FrameType, event: str, arg: Any) -> Callable | None:
        if frame.f_code.co_filename != own.co_filename:
            return None
        if now:
            peaks[now[0]] = max(peaks.get(now[0], 0), tracemalloc.get_traced_memory()[1])
        tracemalloc.reset_peak()
        now[:] = [(frame.f_code, frame.f_lineno)]
        return look

    if own is None or sys.gettrace():
        return ""
    inputs = to_library(args, "numpy")  # copies, which aren't the answer's
    with traced_memory():
        sys.settrace(look)
        try:
            answer(*inputs)
        finally:
            sys.settrace(None)
    if not peaks:
        return ""
    most = max(peaks.values())
    code, line = next(at for at, held in peaks.items() if held >= 0.9 * most)  # later ones find it there
    source = linecache.getline(code.co_filename, line).strip()
    code = own if code.co_name.startswith("<") else code  # a comprehension
    whose = "your" if code is own else f"{code.co_name},"
    return f"Most is held in {whose} line {line - code.co_firstlineno + 1}: {source}"


def _read_ahead(x: Any) -> Any:
    """A stream whose items exist already, so that making them is not counted; anything else as it is."""
    if not isinstance(x, Stream):
        return x
    items = list(x.make())
    return Stream(lambda: items)


@contextlib.contextmanager
def traced_memory() -> Iterator[Callable[[], int]]:
    """Python's memory from here on: the function that is given tells the peak so far, in bytes."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def lost_in_rounding(answer: Function, library: str) -> float:
    """The part of small weights that rounding loses: attention(query, key, value, 1) of one query over 256 keys.

    The key in the middle has weight 1 before normalizing and value 1, the others weight 0.8 · 2⁻⁵³ and value 0, which
    added to 1 is lost. A fold loses those after the middle; in a tree small sums meet first, and nearly all are kept.
    """
    chunks, weight = 256, 0.8 * 2.0**-53
    key, value = np.full((chunks, 1), np.log(weight)), np.zeros((chunks, 1))
    key[chunks // 2], value[chunks // 2] = 0.0, 1.0
    with precise(library):
        found = to_numpy(answer(*to_library((np.ones((1, 1)), key, value, 1), library)))
    small = (chunks - 1) * weight
    return float((np.reshape(found, ()) - 1 / (1 + small)) / small)
