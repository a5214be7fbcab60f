"""Whether a wrong result is the right answer to other arguments."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

from attnlab.check.compare import agree, tolerance
from attnlab.check.exercise import Case, Exercise
from attnlab.check.probes.factors import candidates
from attnlab.check.guard import Watch
from attnlab.check.library import library_of
from attnlab.check.outcome import Outcome
from attnlab.check.results import parameters
from attnlab.check.probes.subsets import subsets

import numpy as np

SECONDS = 3.0  # for how long other arguments are tried


Change = Callable[[tuple], dict[int, Any]]
"""New values of some arguments, by position, made of all arguments of a case."""


def other_arguments(exercise: Exercise, seen: list, outcome: Callable) -> str:
    """That in all inputs, right or wrong, the result is the right one for changed arguments; or nothing."""
    if exercise.gradients and not any(_apart(row) for row in seen):
        return ""  # the value is right; gradients by other arguments are no gradients at these
    watch = Watch()
    library = exercise.library if exercise.run else library_of(exercise.reference, exercise.library)
    ordered = sorted(seen, key=lambda row: row[3])  # the wrong ones first

    def made(case: Case) -> Any:
        return outcome(exercise, exercise.reference, case, 1.0, library)

    for said, change in _changes(exercise, [case for case, *_ in ordered]):
        if watch.seconds() > SECONDS:
            return ""
        if all(_explains(change, case, found, made) for case, found, *_ in ordered):
            return f"{'The value' if exercise.gradients else 'Your result'} is the right one for {said}."
    return ""


def _explains(change: Change, case: Case, found: Outcome, made: Callable) -> bool:
    """Whether what is ``made`` of changed arguments is what was found."""
    try:
        new = change(case.args)
    except (IndexError, ValueError, ZeroDivisionError):  # this case has no such axis, or nothing along it
        return False
    changed = replace(case, args=tuple(new.get(i, x) for i, x in enumerate(case.args)))
    other = made(changed)
    finite = any(np.isfinite(x.astype(float)).any() for x in other.arrays.values())
    return finite and not other.kind and agree(_value(found), _value(other), tolerance(case))


def _apart(row: tuple[Case, Outcome, Outcome, bool]) -> bool:
    """Whether the value in a row of ``seen`` is not the one that is wanted."""
    case, found, wanted, _ = row
    return not agree(_value(found), _value(wanted), tolerance(case))


def _value(found: Outcome) -> Outcome:
    """An outcome without its gradients."""
    return replace(found, arrays={name: x for name, x in found.arrays.items() if not name.startswith("gradient")})


def _changes(exercise: Exercise, cases: list[Case]) -> Iterator[tuple[str, Change]]:
    """Ways of changing arguments: two exchanged, a flag or a number that is another, then those of arrays."""
    names, first = parameters(exercise), cases[0].args
    if len(names) != len(first):  # the answer is run on something else than the case
        return
    for i, j in combinations(range(len(names)), 2):
        if type(first[i]) is type(first[j]):
            yield f"{names[i]} and {names[j]} exchanged", lambda args, i=i, j=j: {i: args[j], j: args[i]}
    for i, x in enumerate(first):
        if isinstance(x, bool):
            yield f"{names[i]} = not {names[i]}", lambda args, i=i: {i: not args[i]}
            yield from ((f"{names[i]} = {flag}", lambda args, i=i, flag=flag: {i: flag}) for flag in (True, False))
        elif isinstance(x, int):
            yield f"{names[i]} + 1", lambda args, i=i: {i: args[i] + 1}
            yield f"{names[i]} - 1", lambda args, i=i: {i: args[i] - 1}
        elif isinstance(x, list) and x and all(isinstance(y, int) for y in x):
            for off in (1, -1):
                yield f"each of {names[i]} {off:+}", lambda args, i=i, off=off: {i: [y + off for y in args[i]]}
        elif isinstance(x, np.ndarray) and x.dtype == bool:
            yield f"{names[i]} with True and False exchanged", lambda args, i=i: {i: ~args[i]}
            yield f"{names[i]} all True", lambda args, i=i: {i: np.ones_like(args[i])}
    yield from subsets(names, first)
    every = [case.args for case in cases]
    arrays = [i for i, column in enumerate(zip(*every)) if all(map(_is_array, column))]
    yield from _of_arrays(names, arrays, every)
    for i, (name, factor) in product(arrays, _factors(exercise, cases)):
        yield f"{names[i]} times {name}", lambda args, i=i, factor=factor: {
            i: (args[i] * factor[id(args)]).astype(args[i].dtype)
        }


def _is_array(x: Any) -> bool:
    """Whether an argument is an array of numbers that can be changed a little."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _of_arrays(names: list[str], arrays: list[int], every: list[tuple]) -> Iterator[tuple[str, Change]]:
    """Ways of changing the arguments ``arrays``: their order, their shape, their numbers; what stands at the end."""
    for i in arrays:
        yield f"{names[i]} the other way round", lambda args, i=i: {i: args[i][::-1].copy()}
        for said, f in {"e^%s": np.exp, "%s²": np.square, "|%s|": np.abs, "ones like %s": np.ones_like}.items():
            yield f"{said % names[i]} instead of {names[i]}", lambda args, i=i, f=f: {i: f(args[i])}
        if all(args[i].ndim > 1 for args in every):
            yield f"{names[i]} the identity", lambda args, i=i: {i: _identity(args[i])}
    for i, j in permutations(arrays, 2):
        yield f"{names[j]} in the place of {names[i]}", lambda args, i=i, j=j: {i: args[j]}
    square = [i for i in arrays if all(args[i].ndim == 2 and len(args[i]) == len(args[i].T) for args in every)]
    for some in (*((i,) for i in square), *([square] if square[1:] else [])):
        yield f"{', '.join(names[i] for i in some)} transposed", lambda args, some=some: {i: args[i].T for i in some}
    for axes in _shared(arrays, every):
        along = " and ".join(f"{names[i]}.shape[{axis}]" for i, axis in axes)
        for place, at in (("last", -1), ("first", 0)):
            yield f"inputs without the {place} entry along {along}", lambda args, axes=axes, at=at: {
                i: np.delete(args[i], at, axis) for i, axis in axes
            }


def _identity(x: np.ndarray) -> np.ndarray:
    """Rows of the identity for the rows of ``x``."""
    n = x.shape[-2]
    return np.broadcast_to(np.eye(n, dtype=x.dtype), (*x.shape[:-1], n)).copy()


def _shared(arrays: list[int], every: list[tuple]) -> list[list[tuple[int, int]]]:
    """The axes (argument, axis) of arrays, those together that have the same size in every case.

    Where the number of axes differs between the cases, they are counted from the last.
    """
    groups: dict[tuple, list[tuple[int, int]]] = {}
    for i in arrays:
        ranks = {args[i].ndim for args in every}
        for axis in range(min(ranks)) if len(ranks) == 1 else range(-min(ranks), 0):
            groups.setdefault(tuple(args[i].shape[axis] for args in every), []).append((i, axis))
    return [axes for axes in groups.values() if len({i for i, _ in axes}) == len(axes)]


def _factors(exercise: Exercise, cases: list[Case]) -> list[tuple[str, dict[int, float]]]:
    """Factors by name, and for each case, by its arguments' identity; of those that are equal everywhere the first."""
    tables = [candidates(exercise, case) for case in cases]
    common = [name for name in tables[0] if all(name in table for table in tables)]
    found = {tuple(table[name] for table in tables): name for name in reversed(common)}
    return [(name, {id(c.args): v for c, v in zip(cases, values)}) for values, name in reversed(found.items())]
