"""For which sizes of its arguments a result is wrong, if it is right for others: said where no label tells."""

from collections.abc import Iterator

from attnlab_course.checker.exercise import Case, Exercise
from attnlab_course.checker.results import parameters

import numpy as np

Seen = list[tuple[Case, bool]]  # each input, and whether the result is right


def region(exercise: Exercise, seen: Seen) -> str:
    """Where a result is wrong: what its inputs have in common, and at least half of the others have not; or nothing.

    Outside of the region nothing is wrong, and inside at least half of it is.
    """
    found, most = "", 0
    wrong = sum(not right for _, right in seen)
    sizes = [dict(size for pair in zip(parameters(exercise), case.args) for size in _sizes(*pair)) for case, _ in seen]
    for name, few, equal in ((x, few, equal) for x in sizes[0] for few in (0, 1, 2) for equal in (True, False)):
        if wrong < 2 or any(name not in each for each in sizes):
            continue
        inside = [(each[name] == few) is equal for each in sizes]
        outside = inside.count(False)
        wrong_inside_only = all(x or right for x, (_, right) in zip(inside, seen))
        most_of_it = 2 * outside >= len(seen) - wrong and 2 * wrong >= sum(inside)
        if wrong_inside_only and most_of_it and outside > max(most, 1):
            found, most = f"{name} is {'' if equal else 'not '}{few}", outside
    return f"Of {len(seen)} inputs only those fail where {found}." if found else ""


def _sizes(name: str, x: object) -> Iterator[tuple[str, int]]:
    """A whole number, the length of a list, or the sizes of an array."""
    if isinstance(x, np.ndarray):
        yield from ((f"{name}.shape[{i}]", size) for i, size in enumerate(x.shape))
    elif isinstance(x, dict):
        for key, item in x.items():
            yield from _sizes(str(key), item)
    elif isinstance(x, list):
        yield f"len({name})", len(x)
    elif isinstance(x, int) and not isinstance(x, bool):
        yield name, x
