"""Where a wrong array differs from the right one, or on which side: sentences with {which} for what the array is."""

from collections.abc import Callable

from attnlab_course.checker.compare import close, tolerance
from attnlab_course.checker.exercise import Case
from attnlab_course.checker.probes.patterns import Pair, failing, same

import numpy as np


def unlike(case: Case, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where an array is wrong; whole numbers and booleans differ by any difference, as in :func:`close`."""
    if wanted.dtype.kind in "biu":
        return np.asarray(found != wanted)
    found, wanted = found.astype(float), wanted.astype(float)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0) or 1.0
    return ~np.isclose(found, wanted, rtol=0, atol=scale * tolerance(case), equal_nan=True)


def _differing(pairs: list[Pair]) -> tuple[list[tuple], list[np.ndarray]]:
    """The wrong numbers, each with the right one, and the right arrays; nothing if shapes or kinds differ."""
    wrong = failing(pairs, lambda f, w: f.shape == w.shape and (f.dtype.kind == w.dtype.kind or w.dtype.kind == "f"))
    return [(x, y) for c, f, w in wrong for x, y in zip(f[unlike(c, f, w)], w[unlike(c, f, w)])], [w for *_, w in wrong]


def _digits(pairs: list[Pair]) -> str:
    """A small difference everywhere."""
    wrong = failing(pairs, lambda f, w: f.shape == w.shape and w.dtype.kind == "f")
    for digits in (5, 4, 3, 2):
        if wrong and all(close(found, wanted, 10**-digits) for _, found, wanted in wrong):
            return f"{{which}} is right to {digits} digits and no more: is a small number added, or something rounded?"
    return ""


def _zeros(pairs: list[Pair]) -> str:
    """Whether all that is wrong should be the same number, which is 0 or infinite, or the same truth."""
    differ, wanted = _differing(pairs)
    values = {"f": (0.0, -np.inf, np.inf), "b": (False, True)}
    for value in values.get(wanted[0].dtype.kind, ()) if differ else ():
        if any((w != value).any() for w in wanted) and all(y == value for _, y in differ):
            there = "" if isinstance(value, bool) else f"; there it is {differ[0][0]:.4g}"
            return f"{{which}} is wrong only where {value if there == '' else f'{value:g}'} is right{there}."
    return ""


def _stuck(pairs: list[Pair]) -> str:
    """Whether all that is wrong is the same number, where several are right."""
    differ, _ = _differing(pairs)
    values = {repr(float(x)) for x, _ in differ}
    if values == {"nan"}:
        return "{which} is NaN wherever it is wrong: inf - inf, 0/0 or 0 · inf is computed there."
    if len(values) != 1 or len({float(y) for _, y in differ}) < 2 or differ[0][1].dtype.kind != "f":
        return ""
    return f"{{which}} is {float(values.pop()):.5g} wherever it is wrong."


def _added(pairs: list[Pair]) -> str:
    """The same number too much or too little, wherever something is wrong."""
    wrong = failing(pairs, lambda f, w: f.shape == w.shape and {f.dtype.kind, w.dtype.kind} <= set("fiu"))
    off = [x for c, f, w in wrong for x in (f.astype(float) - w)[unlike(c, f, w)]]
    if len(wrong) < 2 or len(off) < 3 or not np.isfinite(off).all() or np.ptp(off) > 1e-6 * abs(off[0]):
        return ""
    return f"{{which}} is too {'large' if off[0] > 0 else 'small'} by {abs(off[0]):.4g} wherever it is wrong."


def _renamed(pairs: list[Pair]) -> str:
    """A whole number in the place of another, always the same."""
    if not all(f.shape == w.shape and f.dtype.kind in "iu" and w.dtype.kind in "iu" for _, f, w in pairs):
        return ""
    names = {(int(x), int(y)) for _, f, w in pairs for x, y in zip(f.ravel()[:10_000], w.ravel()[:10_000])}
    apart = sorted((y, x) for x, y in names if x != y)
    if len({x for x, _ in names}) != len(names) or len({y for _, y in names}) != len(names) or len(names) > 4:
        return ""
    said = ", ".join(f"{x} where {y} is right" for y, x in apart)
    return f"{{which}} has {said}, and so everywhere." if said else ""


def _shuffled(pairs: list[Pair]) -> str:
    """The right numbers in other places, in every input that fails."""
    wrong = failing(pairs, lambda f, w: f.shape == w.shape and w.size > 1)
    fits = len(wrong) > 1 and all(same(c, np.sort(f, axis=None), np.sort(w, axis=None)) for c, f, w in wrong)
    return "{which} has the right numbers, in another order." if fits else ""


def _side(pairs: list[Pair]) -> str:
    """Whether all that is wrong is too large, or too small."""
    differ, wanted = _differing(pairs)
    if len(differ) < 3 or len(wanted) < 2 or wanted[0].dtype.kind not in "fiu":
        return ""
    signs = {np.sign(float(x) - float(y)) for x, y in differ}
    word = {1.0: "large", -1.0: "small"}.get(signs.pop(), "") if len(signs) == 1 else ""
    return f"{{which}} is too {word} wherever it is wrong." if word else ""


def _columns(pairs: list[Pair]) -> str:
    """Columns that add up to 1, where rows should."""
    wrong = failing(pairs, lambda f, w: f.shape == w.shape and w.ndim > 1 and min(w.shape[-2:]) > 1 and are_weights(w))
    fits = wrong and all(are_weights(f.swapaxes(-1, -2)) and not are_weights(f) for _, f, _ in wrong)
    return "{which} has columns that add up to 1, where each row should." if fits else ""


def _sums(pairs: list[Pair]) -> str:
    """Rows that should add up to 1, as weights, or to 0, as gradients by scores."""
    for total, kind in ((1, are_weights), (0, _balanced)):
        long = 2 if total else 1  # a single weight is 1, whatever is wrong
        wrong = failing(pairs, lambda f, w, kind=kind, n=long: f.shape == w.shape and w.shape[-1:] >= (n,) and kind(w))
        rows = [(x, any(y)) for _, f, w in wrong for x, y in zip(np.ravel(f.sum(-1)), w.reshape(-1, w.shape[-1]))]
        sums = [x for x, seen in rows if seen or (total == 0 and x)]  # an empty row adds up to 0
        off = [x for x in sums if np.isfinite(x) and abs(x - total) > 1e-3]
        if off and len(off) == len(sums) and any(seen for _, seen in rows):
            return f"{{which}} has rows that add up to {off[0]:.4g} instead of {total}."
    return ""


def are_weights(x: np.ndarray) -> bool:
    """Whether all rows add up to 1, or to 0 where nothing is seen."""
    sums = x.sum(-1)
    return bool(x.dtype.kind == "f" and (x >= 0).all() and (np.isclose(sums, 1) | (sums == 0)).all())


def _balanced(x: np.ndarray) -> bool:
    """Whether all rows add up to 0."""
    return bool(x.dtype.kind == "f" and (abs(x.sum(-1)) <= 1e-9 * abs(x).sum(-1)).all())


def _rows(pairs: list[Pair]) -> str:
    """Whether only the last or only the first rows are wrong, or only some, of those that are not NaN throughout."""
    wrong = failing(pairs, lambda f, w: f.shape == w.shape and w.ndim and len(w))
    given = [~np.isnan(w.astype(float)).reshape(len(w), -1).all(1) for *_, w in wrong]
    rows = [unlike(*pair).reshape(len(x), -1).any(1)[x].tolist() for pair, x in zip(wrong, given)]
    if not rows or any(map(all, rows)):
        return ""
    kind = {1: "entries", 2: "rows"}.get(wrong[0][1].ndim, "entries along the first axis")
    for place, kept in (("last", sorted), ("first", lambda row: sorted(row, reverse=True))):
        if all(row == kept(row) for row in rows):
            return f"{{which}} is wrong in its {place} {kind} only."
    some = ", ".join(str(i) for i, bad in zip(np.flatnonzero(given[0])[:20], rows[0]) if bad)
    begins = f"{{which}} is right in some of its {kind}"
    return f"{begins}; in the first input that fails, those at index {some} are wrong."


PLACES: tuple[Callable[[list[Pair]], str], ...] = (
    _digits,
    _zeros,
    _added,
    _stuck,
    _renamed,
    _columns,
    _sums,
    _rows,
    _shuffled,
    _side,
)
