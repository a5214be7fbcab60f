"""How a wrong array differs from the right one, in all inputs: sentences with {which} for what the array is."""

from collections.abc import Callable

from attnlab_course.checker.compare import close, tolerance
from attnlab_course.checker.exercise import Case

import numpy as np

Pair = tuple[Case, np.ndarray, np.ndarray]  # what was found, and what is wanted


def same(case: Case, found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether an array is the right one."""
    return found.shape == wanted.shape and close(found, wanted, tolerance(case))


def failing(pairs: list[Pair], like: Callable | None = None) -> list[Pair]:
    """The pairs that differ; none of them if ``like`` does not hold for all."""
    pairs = [pair for pair in pairs if not same(*pair)]
    return pairs if like is None or all(like(found, wanted) for _, found, wanted in pairs) else []


def _changed(change: Callable, said: str) -> Callable[[list[Pair]], str]:
    """A probe: in all inputs the result is the right one, changed, which makes a difference in those that fail."""

    def probe(pairs: list[Pair]) -> str:
        fits = all(same(c, f, change(w)) for c, f, w in pairs)
        return said if fits and not all(same(c, 1.0 * change(w), 1.0 * w) for c, _, w in pairs) else ""

    return probe


def _opposite(pairs: list[Pair]) -> str:
    """Booleans that are all False for True."""
    fits = all(f.dtype.kind == w.dtype.kind == "b" and np.array_equal(f, ~w) for _, f, w in pairs)
    return "{which} is the opposite of the right one everywhere." if fits else ""


def _logarithm(pairs: list[Pair]) -> str:
    """e to the power of the result is the right one."""
    fits = all(f.dtype.kind == "f" and same(c, np.exp(f), w) for c, f, w in pairs)
    return "{which} is the logarithm of the right one." if fits else ""


def _nans(pairs: list[Pair]) -> str:
    """Nothing but NaN, in every input."""
    nothing = all(f.shape == w.shape and f.dtype.kind == "f" and f.size and np.isnan(f).all() for _, f, w in pairs)
    said = "{which} is NaN in every input: inf - inf, 0/0 or 0 · inf is computed, or nothing has been written there."
    return said if nothing else ""


def _nothing(pairs: list[Pair]) -> str:
    """Nothing but zeros, in every input."""
    zeros = all(f.shape == w.shape and f.size and not f.any() for _, f, w in pairs)
    return "{which} is 0 in every input." if zeros else ""


EXACT: tuple[Callable[[list[Pair]], str], ...] = (
    _nans,
    _nothing,
    _opposite,
    _changed(lambda w: -1.0 * w, "{which} has the wrong sign."),
    _changed(lambda w: 2.0 * w, "{which} is twice the right one."),
    _changed(lambda w: 0.5 * w, "{which} is half the right one."),
    _changed(np.transpose, "{which} is right after transposing."),
    _changed(lambda w: w[::-1] if w.ndim else w, "{which} is right, in the reverse order."),
    _changed(lambda w: 1.0 / w, "{which} is 1 divided by the right one."),
    _changed(lambda w: np.floor(1.0 * w), "{which} is the right one rounded down."),
    _changed(lambda w: np.ceil(1.0 * w), "{which} is the right one rounded up."),
    _changed(lambda w: np.trunc(1.0 * w), "{which} is the right one rounded toward 0."),
    _changed(lambda w: np.round(1.0 * w), "{which} is the right one rounded."),
    _changed(lambda w: np.exp(1.0 * w), "{which} is e to the power of the right one."),
    _logarithm,
)
