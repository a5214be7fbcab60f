"""What holds of some entries of a wrong array, in every input that fails: sentences with {which}.

For what neither how nor where it differs tells; other entries may be wrong in another way.
"""

from collections.abc import Callable

from attnlab_course.checker.probes.patterns import Pair, failing
from attnlab_course.checker.probes.places import are_weights, unlike

import numpy as np


def _numbers(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether two arrays of numbers can be compared entry by entry."""
    return found.shape == wanted.shape and {found.dtype.kind, wanted.dtype.kind} <= set("iuf")


def _unwritten(pairs: list[Pair]) -> str:
    """Wrong only where NaN is right: memory that nobody has to write to."""
    wrong = failing(pairs, _numbers)
    wanted = [w[unlike(c, f, w)].astype(float) for c, f, w in wrong]
    if not wanted or not all(np.isnan(w).all() for w in wanted):
        return ""
    return "{which} is wrong only where NaN is right: there nothing has to be written."


def _diagonal(pairs: list[Pair]) -> str:
    """Square matrices that are wrong on the diagonal only."""
    square = failing(pairs, lambda f, w: f.shape == w.shape and w.ndim == 2 and len(w) == w.shape[1] > 1)
    wrong = [unlike(*pair) for pair in square]
    fits = wrong and all(x.sum() > 1 and not (x & ~np.eye(len(x), dtype=bool)).any() for x in wrong)
    return "{which} is wrong on the diagonal only." if fits else ""


def _columns(pairs: list[Pair]) -> str:
    """Matrices that are wrong in their last or first columns only."""
    pairs = failing(pairs, lambda f, w: f.shape == w.shape and w.ndim == 2 and w.shape[1] > 1)
    columns = [unlike(*pair).any(0).tolist() for pair in pairs]
    for place, kept in (("last", sorted), ("first", lambda row: sorted(row, reverse=True))):
        if columns and all(not all(row) and row == kept(row) for row in columns):
            return f"{{which}} is wrong in its {place} columns only."
    return ""


def _zeros(pairs: list[Pair]) -> str:
    """A 0 that is wrong, or something else where that is right."""
    wrong = [(f != 0, w != 0, unlike(c, f, w)) for c, f, w in failing(pairs, _numbers) if w.ndim]
    for said, one, other in (("is 0 where it should not be", 1, 0), ("is not 0 where it should be", 0, 1)):
        spots = [np.argwhere(pair[one] & ~pair[other] & pair[2]) for pair in wrong]
        if spots and all(map(len, spots)):
            return f"{{which}} {said}, first at [{', '.join(map(str, spots[0][0]))}]."
    return ""


def _sums(pairs: list[Pair]) -> str:
    """Rows that should add up to 1, of which some do not."""
    wrong = [(f, w) for _, f, w in failing(pairs, _numbers) if w.ndim and w.shape[-1] > 1 and are_weights(w)]
    sums = [f.sum(-1)[w.sum(-1) > 0.5] for f, w in wrong]
    off = [x[np.isfinite(x) & (abs(x - 1) > 1e-3)] for x in sums]
    return f"{{which}} has rows that add up to {off[0][0]:.4g} instead of 1." if off and all(map(len, off)) else ""


ENTRIES: tuple[Callable[[list[Pair]], str], ...] = (_unwritten, _diagonal, _columns, _zeros, _sums)
