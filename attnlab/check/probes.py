"""What is true of a wrong result, in any exercise: said where no mistake of the catalogue fits.

A probe is said only if it holds in every input that fails and contradicts none that is right.
"""

import re
from collections.abc import Callable
from itertools import permutations

from attnlab.check.compare import close, title, tolerance
from attnlab.check.equals import other_arguments
from attnlab.check.exercise import Case, Exercise
from attnlab.check.factors import factor
from attnlab.check.outcome import Outcome

import numpy as np

Seen = list[tuple[Case, Outcome, Outcome, bool]]
"""For each input: the case, what was found, what is wanted, and whether it is right."""
Pair = tuple[Case, np.ndarray, np.ndarray]


def true_of(exercise: Exercise, seen: Seen, outcome: Callable) -> str:
    """What holds of the wrong results, or nothing. ``outcome`` runs the reference on other arguments."""
    said = _of_inputs(seen)
    if exercise.judge is not None or any(found.kind for _, found, _, _ in seen):
        return said
    if any(found.arrays.keys() != wanted.arrays.keys() for _, found, wanted, _ in seen):
        return said
    with np.errstate(all="ignore"):
        lead, each = _of_parts(exercise, seen)
        whole = _order(exercise, seen) or each or other_arguments(exercise, seen, outcome)
    return " ".join(filter(None, [lead, whole, said]))


def _of_inputs(seen: Seen) -> str:
    """Whether one kind of input fails and no other."""
    kinds = [match[0] if (match := re.match("[A-Z]{3,}", case.label)) else "" for case, *_ in seen]
    wrong = {kind for kind, (*_, right) in zip(kinds, seen) if not right}
    if len(wrong) == 1 and sum(right for *_, right in seen) >= 2:
        kind = wrong.pop()
        if kind and not any(right for k, (*_, right) in zip(kinds, seen) if k == kind):
            return f"It is right on all inputs but {kind}."
    fails = sum(not right for *_, right in seen)
    return f"Of {len(seen)} inputs only this one fails." if fails == 1 and len(seen) > 2 else ""


def _order(exercise: Exercise, seen: Seen) -> str:
    """Whether the parts are right, in another order."""
    names = [name for name in seen[0][2].arrays if name.startswith("part ")]
    for order in list(permutations(range(len(names))))[1:] if 1 < len(names) < 5 else ():
        pairs = [(case, f.arrays[names[i]], w.arrays[names[j]]) for case, f, w, _ in seen for i, j in enumerate(order)]
        if all(_same(*pair) for pair in pairs):
            asked = [exercise.parts[i] if any(exercise.parts) else f"part {i + 1}" for i in range(len(names))]
            yours = ", ".join(asked[j] for j in order)
            return f"The parts are right, in the order ({yours}); the order asked for is ({', '.join(asked)})."
    return ""


def _of_parts(exercise: Exercise, seen: Seen) -> tuple[str, str]:
    """Which parts are right, and what holds of those that are wrong if something holds of each."""
    pairs = {name: [(c, f.arrays[name], w.arrays[name]) for c, f, w, _ in seen] for name in seen[0][2].arrays}
    wrong = [name for name in pairs if not all(_same(*pair) for pair in pairs[name])]
    right = [title(name, exercise) for name in pairs if name not in wrong]
    said = []
    for name in wrong:
        found = factor(exercise, pairs[name]) or next(filter(None, (probe(pairs[name]) for probe in PROBES)), "")
        said.append(found.format(which=title(name, exercise) or "Your result"))
    return f"Right in all inputs: {', '.join(right)}." if right and wrong else "", " ".join(said) if all(said) else ""


def _same(case: Case, found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether an array is the right one."""
    return found.shape == wanted.shape and close(found, wanted, tolerance(case))


def _failing(pairs: list[Pair], like: Callable | None = None) -> list[Pair]:
    """The pairs that differ; none of them if ``like`` does not hold for all."""
    pairs = [pair for pair in pairs if not _same(*pair)]
    return pairs if like is None or all(like(found, wanted) for _, found, wanted in pairs) else []


def _changed(change: Callable, said: str) -> Callable[[list[Pair]], str]:
    """A probe: in all inputs the result is the right one, changed, which makes a difference in those that fail."""

    def probe(pairs: list[Pair]) -> str:
        fits = all(_same(c, f, change(w).astype(f.dtype)) for c, f, w in pairs)
        return said if fits else ""

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


def _digits(pairs: list[Pair]) -> str:
    """A small difference everywhere."""
    near = _failing(pairs, lambda f, w: f.shape == w.shape and w.dtype.kind == "f" and close(f, w, 1e-3))
    said = "{which} is right to three digits and no more: is a small number added, or something rounded?"
    return said if near else ""


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


PROBES: tuple[Callable[[list[Pair]], str], ...] = (
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
    _rows,
    _sums,
)
