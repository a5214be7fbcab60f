"""How a wrong array differs from the right one, in every input that fails: sentences with {which} for what it is."""

from collections.abc import Callable

from attnlab_course.checker.compare import close, tolerance
from attnlab_course.checker.exercise import Case

import numpy as np

Pair = tuple[Case, np.ndarray, np.ndarray]  # what was found, and what is wanted
Probe = Callable[[list[Pair]], str]


def same(case: Case, found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether an array is the right one."""
    return found.shape == wanted.shape and close(found, wanted, tolerance(case))


def unlike(case: Case, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where an array is wrong; whole numbers and booleans differ by any difference, as in :func:`close`."""
    if wanted.dtype.kind in "biu":
        return np.asarray(found != wanted)
    found, wanted = found.astype(float), wanted.astype(float)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0) or 1.0
    return ~np.isclose(found, wanted, rtol=0, atol=scale * tolerance(case), equal_nan=True)


def _failing(pairs: list[Pair], like: Callable) -> list[Pair]:
    """The pairs that differ; none of them if ``like`` does not hold for all."""
    pairs = [pair for pair in pairs if not same(*pair)]
    return pairs if all(like(found, wanted) for _, found, wanted in pairs) else []


def _differing(pairs: list[Pair]) -> tuple[list[tuple], list[np.ndarray]]:
    """The wrong numbers, each with the right one, and the right arrays; nothing if shapes or kinds differ."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and (f.dtype.kind == w.dtype.kind or w.dtype.kind == "f"))
    return [(x, y) for c, f, w in wrong for x, y in zip(f[unlike(c, f, w)], w[unlike(c, f, w)])], [w for *_, w in wrong]


def _changed(change: Callable, said: str) -> Probe:
    """A probe: in all inputs the result is the right one, changed, which makes a difference in those that fail."""

    def probe(pairs: list[Pair]) -> str:
        fits = all(same(c, f, change(w)) for c, f, w in pairs)
        return said if fits and not all(same(c, 1.0 * change(w), 1.0 * w) for c, _, w in pairs) else ""

    return probe


def _digits(pairs: list[Pair]) -> str:
    """A small difference everywhere."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and w.dtype.kind == "f")
    for digits in (5, 4, 3, 2):
        if wrong and all(close(found, wanted, 10**-digits) for _, found, wanted in wrong):
            return f"{{which}} is right to {digits} digits and no more: is a small number added, or something rounded?"
    return ""


def _one_wanted(pairs: list[Pair]) -> str:
    """Whether all that is wrong should be the same number, which is 0 or infinite, or the same truth."""
    differ, wanted = _differing(pairs)
    values = {"f": (0.0, -np.inf, np.inf), "b": (False, True)}
    for value in values.get(wanted[0].dtype.kind, ()) if differ else ():
        if any((w != value).any() for w in wanted) and all(y == value for _, y in differ):
            there = "" if isinstance(value, bool) else f"; there it is {differ[0][0]:.4g}"
            return f"{{which}} is wrong only where {value if there == '' else f'{value:g}'} is right{there}."
    return ""


def _one_found(pairs: list[Pair]) -> str:
    """Whether all that is wrong is the same number, where several are right."""
    differ, _ = _differing(pairs)
    values = {repr(float(x)) for x, _ in differ}
    if values == {"nan"}:
        return "{which} is NaN wherever it is wrong: inf - inf, 0/0 or 0 · inf is computed there."
    if len(values) != 1 or len({float(y) for _, y in differ}) < 2 or differ[0][1].dtype.kind != "f":
        return ""
    return f"{{which}} is {float(values.pop()):.5g} wherever it is wrong."


def _sums(pairs: list[Pair]) -> str:
    """Rows that should add up to 1, as weights, or to 0, as gradients by scores."""
    for total, kind in ((1, _weights), (0, _balanced)):
        long = 2 if total else 1  # a single weight is 1, whatever is wrong
        wrong = _failing(pairs, lambda f, w, kind=kind, n=long: f.shape == w.shape and w.shape[-1:] >= (n,) and kind(w))
        rows = [(x, any(y)) for _, f, w in wrong for x, y in zip(np.ravel(f.sum(-1)), w.reshape(-1, w.shape[-1]))]
        sums = [x for x, seen in rows if seen or (total == 0 and x)]  # an empty row adds up to 0
        off = [x for x in sums if np.isfinite(x) and abs(x - total) > 1e-3]
        if off and len(off) == len(sums) and any(seen for _, seen in rows):
            return f"{{which}} has rows that add up to {off[0]:.4g} instead of {total}."
    return ""


def _weights(x: np.ndarray) -> bool:
    """Whether all rows add up to 1, or to 0 where nothing is seen."""
    sums = x.sum(-1)
    return bool(x.dtype.kind == "f" and (x >= 0).all() and (np.isclose(sums, 1) | (sums == 0)).all())


def _balanced(x: np.ndarray) -> bool:
    """Whether all rows add up to 0."""
    return bool(x.dtype.kind == "f" and (abs(x.sum(-1)) <= 1e-9 * abs(x).sum(-1)).all())


def _rows(pairs: list[Pair]) -> str:
    """Whether only the last or only the first rows are wrong, or only some, of those that are not NaN throughout."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and w.ndim and len(w))
    given = [~np.isnan(w.astype(float)).reshape(len(w), -1).all(1) for *_, w in wrong]
    rows = [unlike(*pair).reshape(len(x), -1).any(1)[x].tolist() for pair, x in zip(wrong, given)]
    if not rows or any(map(all, rows)):
        return ""
    kind = {1: "entries", 2: "rows"}.get(wrong[0][1].ndim, "entries along the first axis")
    for place, kept in (("last", sorted), ("first", lambda row: sorted(row, reverse=True))):
        if all(row == kept(row) for row in rows):
            return f"{{which}} is wrong in its {place} {kind} only."
    bad = [str(i) for i, is_wrong in zip(np.flatnonzero(given[0]), rows[0]) if is_wrong]
    some = ", ".join(bad[:20]) + " and others" * (len(bad) > 20)
    return f"{{which}} is right in some of its {kind}; in the first input that fails, those at index {some} are wrong."


def _side(pairs: list[Pair]) -> str:
    """Whether all that is wrong is too large, or too small."""
    differ, wanted = _differing(pairs)
    if len(differ) < 3 or len(wanted) < 2 or wanted[0].dtype.kind not in "fiu":
        return ""
    signs = {np.sign(float(x) - float(y)) for x, y in differ}
    word = {1.0: "large", -1.0: "small"}.get(signs.pop(), "") if len(signs) == 1 else ""
    return f"{{which}} is too {word} wherever it is wrong." if word else ""


def _zeros(pairs: list[Pair]) -> str:
    """Whether each array has a 0 that is wrong, or something else where that is right; more may be wrong."""
    numbers = _failing(pairs, lambda f, w: f.shape == w.shape and {f.dtype.kind, w.dtype.kind} <= set("iuf"))
    wrong = [(f != 0, w != 0, unlike(c, f, w)) for c, f, w in numbers if w.ndim]
    for said, one, other in (("is 0 where it should not be", 1, 0), ("is not 0 where it should be", 0, 1)):
        spots = [np.argwhere(pair[one] & ~pair[other] & pair[2]) for pair in wrong]
        if spots and all(map(len, spots)):
            return f"{{which}} {said}, first at [{', '.join(map(str, spots[0][0]))}]."
    return ""


EXACT: tuple[Probe, ...] = (
    _changed(lambda w: -1.0 * w, "{which} has the wrong sign."),
    _changed(lambda w: 2.0 * w, "{which} is twice the right one."),
    _changed(lambda w: 0.5 * w, "{which} is half the right one."),
    _changed(np.transpose, "{which} is right after transposing."),
    _changed(lambda w: w[::-1] if w.ndim else w, "{which} is right, in the reverse order."),
)
"""What tells how the whole array differs."""
PLACES: tuple[Probe, ...] = (_digits, _one_wanted, _one_found, _sums, _rows, _side, _zeros)
"""What tells where it differs, or on which side."""
