"""Which divisions and which natural exponentials and logarithms an answer computes, in any library."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

from attnlab_course.checker.exercise import Function
from attnlab_course.checker.jaxprs import is_variable, operations, trace_program
from attnlab_course.checker.library import to_library
from attnlab_course.checker.promises import Measure

import numpy as np

NATURAL = ("exp", "expm1", "log", "log1p", "logaddexp", "logsumexp", "softmax", "log_softmax", "logistic")


class Operation(NamedTuple):
    """``kind`` is "division", by computed numbers, "natural", of numbers that were computed, or "other"."""

    kind: str
    by: int = 0  # how many numbers it divides by
    size: int = 0  # of its result


def done(answer: Function, args: tuple, library: str) -> list[Operation] | None:
    """What a call computes, in order; None where that cannot be seen."""
    if library == "jax":
        try:
            return in_jax(trace_program(answer, args).jaxpr)
        except ValueError:  # a while loop
            return None
    if library == "torch":
        return in_torch(answer, to_library(args, "torch"))
    seen: list[Operation] = []
    with watch_new_arrays(seen):
        answer(*(watch_array(x.copy(), seen) if isinstance(x, np.ndarray) else x for x in args))
    return seen or None  # np.asarray leaves nothing to see


def exponentials_at_once(make: Callable[[], tuple], unit: int) -> Measure:
    """The most exponentials that one operation computes, over ``unit``; None where none is seen."""

    def found(answer: Function, library: str) -> float | None:
        seen = [x.size for x in done(answer, make(), library) or () if x.kind == "natural"]
        return max(seen) / unit if seen else None

    return found


class Watched(np.ndarray):
    """An array that notes what is computed from it in the list ``seen``."""

    seen: list[Operation]

    def __array_finalize__(self, source: Any) -> None:
        self.seen = getattr(source, "seen", [])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple = (), **options: Any) -> Any:
        """Do what the ufunc does, and note it."""
        if out:
            options["out"] = tuple(map(plain, out))
        options = {name: plain(x) if name == "where" else x for name, x in options.items()}
        result = getattr(ufunc, method)(*map(plain, inputs), **options)
        self.seen.append(make_note(ufunc.__name__, inputs, np.size(result)))
        if out:
            return out[0]
        return watch_array(result, self.seen) if isinstance(result, np.ndarray | np.generic) else result

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """np.where and the like return plain arrays otherwise."""
        result = super().__array_function__(function, types, args, options)
        return watch_array(result, self.seen) if type(result) is np.ndarray else result


def watch_array(x: Any, seen: list[Operation]) -> Watched:
    """A view that notes; numbers become arrays without axes."""
    x = np.asarray(x).view(Watched)
    x.seen = seen
    return x


@contextlib.contextmanager
def watch_new_arrays(seen: list[Operation]) -> Iterator[None]:
    """What np.zeros and its kin return notes, too, as results may be written into it."""
    with contextlib.ExitStack() as stack:
        for name in ("zeros", "ones", "empty", "full"):
            noting = functools.partial(_make_watched, getattr(np, name), seen)
            stack.enter_context(patch.object(np, name, noting))
        yield


def _make_watched(make: Callable, seen: list[Operation], *args: Any, **options: Any) -> Watched:
    """What one of NumPy's makers returns, as a view that notes."""
    return watch_array(make(*args, **options), seen)


def plain(x: Any) -> Any:
    """A view that does not."""
    return x.view(np.ndarray) if isinstance(x, Watched) else x


def make_note(name: str, inputs: tuple, size: int) -> Operation:
    """An operation of NumPy or PyTorch by its name; a divisor counts if it is an array that was computed, or a row."""
    name, last = name.rstrip("_"), inputs[-1]
    if name == "reciprocal" or (name in ("power", "pow") and isinstance(last, int | float) and last < 0):
        return Operation("division", math.prod(getattr(inputs[0], "shape", ())), size)
    if name in ("divide", "div", "true_divide") and hasattr(last, "shape"):
        computed = not isinstance(last, np.ndarray | np.generic) or isinstance(last, Watched) or np.size(last) > 1
        return Operation("division", math.prod(last.shape), size) if computed else Operation("other")
    return Operation("natural" if name.lstrip("_") in NATURAL else "other", 0, size)


def in_torch(answer: Function, args: tuple) -> list[Operation]:
    """What PyTorch dispatches."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[Operation] = []

    class Notes(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            operands = tuple(x for x in args if not isinstance(x, list | tuple))
            if operands:
                size = result.numel() if hasattr(result, "numel") else 0
                seen.append(make_note(function.overloadpacket.__name__, operands, size))
            return result

    with Notes():
        answer(*args)
    return seen


def in_jax(jaxpr: Any) -> list[Operation]:
    """What a jaxpr computes. JAX before 0.12 writes log2(x) as log(x) / log(2), of which nothing counts."""
    seen: list[Operation] = []
    equations = list(operations(jaxpr))
    constants = [x.outvars[0] for x, _ in equations if x.primitive.name == "log" and not is_variable(x.invars[0])]
    in_log2 = [x.invars[0] for x, _ in equations if x.primitive.name == "div" and x.invars[1] in constants]
    for equation, times in equations:
        name, size = equation.primitive.name, equation.outvars[0].aval.size if equation.outvars else 0
        last = equation.invars[-1] if equation.invars else None
        counts = name in NATURAL and equation.outvars[0] not in constants + in_log2
        kind = "natural" if counts else "other"
        if name == "div" and is_variable(last) and last not in [*jaxpr.constvars, *constants]:
            kind = "division"
        if name in ("pow", "integer_pow") and equation.params.get("y", getattr(last, "val", 0)) < 0:
            kind = "division"
        by = equation.invars[-1 if name == "div" else 0].aval.size if kind == "division" else 0
        seen += times * [Operation(kind, by, size)]
    return seen
