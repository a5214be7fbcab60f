"""On which arguments a result is wrong, if it is right on others: said where the labels of the inputs do not tell."""

from collections.abc import Iterator
from itertools import combinations, permutations

from attnlab_course.checker.exercise import Case, Exercise
from attnlab_course.checker.results import parameters

import numpy as np

Seen = list[tuple[Case, bool]]  # each input, and whether the result is right
PARTS = "C", "Ck", "Cq", "Bc", "Br", "size", "splits", "devices", "heads", "kv_heads"
"""Besides names that begin with block: what cuts an axis into parts, of which the last one may be short."""


def region(exercise: Exercise, seen: Seen) -> str:
    """Where a result is wrong: what its inputs have in common, and at least half of the others have not; or nothing.

    Outside of the region nothing is wrong, and inside at least half of it is.
    """
    found, most = "", 0
    wrong = sum(not right for _, right in seen)
    words = sorted({x for case, _ in seen for x in case.args if isinstance(x, str)})
    facts = [dict(_facts(exercise, case, words)) for case, _ in seen]
    for phrase in facts[0] if wrong >= 2 else ():
        inside = [fact.get(phrase) for fact in facts]
        outside = sum(not x for x in inside)
        if (
            None not in inside
            and all(x or right for x, (_, right) in zip(inside, seen))
            and outside > max(most, 1)
            and 2 * outside >= len(seen) - wrong
            and 2 * wrong >= sum(inside)
        ):
            found, most = phrase, outside
    return f"Of {len(seen)} inputs only those fail where {found}." if found else ""


def _facts(exercise: Exercise, case: Case, words: list[str]) -> Iterator[tuple[str, bool]]:
    """What is true or false of a case's arguments; ``words``: the strings among those of all cases."""
    named = list(zip(parameters(exercise), case.args))
    for name, x in named:
        values = (True,) if isinstance(x, bool) else words if isinstance(x, str) else (None,)
        for value in values:
            yield f"{name} is {value!r}", x == value if isinstance(x, bool | str) else x is None
            yield f"{name} is not {value!r}", x != value if isinstance(x, bool | str) else x is not None
    sizes = dict(pair for name, x in named for pair in _sizes(name, x))
    for name, size in sizes.items():
        for few in (0, 1, 2):
            yield f"{name} is {few}", size == few
            yield f"{name} is not {few}", size != few
    for (a, x), (b, y) in combinations(sizes.items(), 2):
        if a.partition(".")[2] == b.partition(".")[2]:  # the same axis of two arrays, or two numbers
            yield f"{a} is not {b}", x != y
    for (a, x), (b, y) in permutations(sizes.items(), 2):
        if b.startswith("block") or (b in PARTS and a not in parameters(exercise)):
            yield f"{a} is not a multiple of {b}", y > 0 and x % y > 0


def _sizes(name: str, x: object) -> list[tuple[str, int]]:
    """A whole number, the length of a list, or the sizes of an array."""
    if isinstance(x, np.ndarray):
        return [(f"{name}.shape[{i}]", size) for i, size in enumerate(x.shape)]
    if isinstance(x, dict):
        return [pair for key, item in x.items() for pair in _sizes(str(key), item)]
    if isinstance(x, list):
        return [(f"len({name})", len(x))]
    return [(name, x)] if isinstance(x, int) and not isinstance(x, bool) else []
