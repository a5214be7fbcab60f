"""What holds of a wrong array beside the right one, in all inputs: sentences with {which} for what the array is."""

from collections.abc import Callable

from attnlab.check.compare import close, tolerance
from attnlab.check.exercise import Case

import numpy as np

Pair = tuple[Case, np.ndarray, np.ndarray]  # what was found, and what is wanted


def same(case: Case, found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether an array is the right one."""
    return found.shape == wanted.shape and close(found, wanted, tolerance(case))


def _failing(pairs: list[Pair], like: Callable | None = None) -> list[Pair]:
    """The pairs that differ; none of them if ``like`` does not hold for all."""
    pairs = [pair for pair in pairs if not same(*pair)]
    return pairs if like is None or all(like(found, wanted) for _, found, wanted in pairs) else []


def _changed(change: Callable, said: str) -> Callable[[list[Pair]], str]:
    """A probe: in all inputs the result is the right one, changed, which makes a difference in those that fail."""

    def probe(pairs: list[Pair]) -> str:
        fits = all(same(c, f, change(w).astype(f.dtype)) for c, f, w in pairs)
        return said if fits and not all(same(c, 1.0 * change(w), 1.0 * w) for c, _, w in pairs) else ""

    return probe


def _opposite(pairs: list[Pair]) -> str:
    """Booleans that are all False for True."""
    fits = all(f.dtype.kind == w.dtype.kind == "b" and np.array_equal(f, ~w) for _, f, w in pairs)
    return "{which} is the opposite of the right one everywhere." if fits else ""


def _mask(case: Case, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where an array is wrong."""
    found, wanted = found.astype(float), wanted.astype(float)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0) or 1.0
    return ~np.isclose(found, wanted, rtol=0, atol=scale * tolerance(case), equal_nan=True)


def _added(pairs: list[Pair]) -> str:
    """The same number too much or too little, wherever something is wrong."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and {f.dtype.kind, w.dtype.kind} <= set("fiu"))
    off = [x for c, f, w in wrong for x in (f.astype(float) - w)[_mask(c, f, w)]]
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


def _digits(pairs: list[Pair]) -> str:
    """A small difference everywhere."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and w.dtype.kind == "f")
    for digits in (5, 4, 3):
        if wrong and all(close(found, wanted, 10**-digits) for _, found, wanted in wrong):
            return f"{{which}} is right to {digits} digits and no more: is a small number added, or something rounded?"
    return ""


def _sums(pairs: list[Pair]) -> str:
    """Rows that should add up to 1."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and w.ndim and w.shape[-1] > 1 and _weights(w))
    sums = [x for _, f, w in wrong for x, y in zip(np.ravel(f.sum(-1)), np.ravel(w.sum(-1))) if y > 0.5]
    off = [x for x in sums if np.isfinite(x) and abs(x - 1) > 1e-3]
    return f"{{which}} has rows that add up to {off[0]:.4g} instead of 1." if off and len(off) == len(sums) else ""


def _weights(x: np.ndarray) -> bool:
    """Whether all rows add up to 1, or to 0 where nothing is seen."""
    sums = x.sum(-1)
    return bool(x.dtype.kind == "f" and (x >= 0).all() and (np.isclose(sums, 1) | (sums == 0)).all())


def _rows(pairs: list[Pair]) -> str:
    """Whether only the last or only the first rows are wrong."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and w.ndim and len(w))
    rows = [_mask(*pair).reshape(len(pair[1]), -1).any(1).tolist() for pair in wrong if len(pair[1]) > 1]
    for place, kept in (("last", sorted), ("first", lambda row: sorted(row, reverse=True))):
        if rows and all(not all(row) and row == kept(row) for row in rows):
            return f"{{which}} is wrong in its {place} rows only."
    return ""


def _nans(pairs: list[Pair]) -> str:
    """Nothing but NaN, in every input."""
    nothing = all(f.shape == w.shape and f.dtype.kind == "f" and f.size and np.isnan(f).all() for _, f, w in pairs)
    said = "{which} is NaN in every input: inf - inf, 0/0 or 0 · inf is computed. Print the terms of the first input."
    return said if nothing else ""


def _zeros(pairs: list[Pair]) -> str:
    """Whether all that is wrong should be the same number, which is 0 or infinite."""
    wrong = _failing(pairs, lambda f, w: f.shape == w.shape and w.dtype.kind == "f")
    differ = [(x, y) for c, f, w in wrong for x, y in zip(f[_mask(c, f, w)], w[_mask(c, f, w)])]
    for value in (0.0, -np.inf, np.inf):
        elsewhere = any((w != value).any() for *_, w in wrong)
        if differ and elsewhere and all(y == value for _, y in differ):
            return f"{{which}} is wrong only where {value:g} is right; there it is {differ[0][0]:.4g}."
    return ""


PATTERNS: tuple[Callable[[list[Pair]], str], ...] = (
    _nans,
    _opposite,
    _changed(np.transpose, "{which} is right after transposing."),
    _changed(lambda w: w[::-1] if w.ndim else w, "{which} is right, in the reverse order."),
    _changed(lambda w: np.floor(1.0 * w), "{which} is the right one rounded down."),
    _changed(lambda w: np.ceil(1.0 * w), "{which} is the right one rounded up."),
    _changed(lambda w: np.round(1.0 * w), "{which} is the right one rounded."),
    _digits,
    _zeros,
    _added,
    _renamed,
    _rows,
    _sums,
)
