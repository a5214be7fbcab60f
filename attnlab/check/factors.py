"""Whether a result is the right one times a factor, and which."""

import math
from itertools import combinations
from typing import Any

from attnlab.check.compare import close, tolerance
from attnlab.check.exercise import Case, Exercise
from attnlab.check.patterns import same
from attnlab.check.results import parameters

import numpy as np

CONSTANTS = {"-1": -1.0, "2": 2.0, "1/2": 0.5, "ln 2": math.log(2), "log₂ e": 1 / math.log(2), "e": math.e}


def times(exercise: Exercise, pairs: list[tuple[Case, np.ndarray, np.ndarray]]) -> str:
    """That each result, or each wrong one, is the right one times a factor, the same or a size of the inputs."""
    wrong = [pair for pair in pairs if not same(*pair)]
    said = _factor(exercise, pairs, "in all inputs")
    return said or (_factor(exercise, wrong, "wherever it is wrong") if len(wrong) > 2 else "")


def _factor(exercise: Exercise, pairs: list[tuple[Case, np.ndarray, np.ndarray]], where: str) -> str:
    """That in all ``pairs`` the result is the right one times a factor, and which."""
    ratios = [ratio(case, found, wanted) for case, found, wanted in pairs]
    known = [(case, r) for (case, *_), r in zip(pairs, ratios) if r]
    if None in ratios or len(known) < 2 or all(math.isclose(r, 1, rel_tol=1e-3) for _, r in known):
        return ""
    options = [candidates(exercise, case) | _products(exercise, case) for case, _ in known]
    for name in options[0]:
        if all(math.isclose(option.get(name, 0), r, rel_tol=1e-5) for option, (_, r) in zip(options, known)):
            said = "has the wrong sign" if name == "-1" else f"is {name} times the right one"
            return f"{{which}} {said}{'' if where == 'in all inputs' else f' {where}'}."
    first = known[0][1]
    alike = all(math.isclose(r, first, rel_tol=1e-5) for _, r in known)
    return f"{{which}} is {first:.5g} times the right one {where}." if alike else ""


def multiple(pairs: list[tuple[Case, np.ndarray, np.ndarray]]) -> str:
    """That each result is a multiple of the right one, where two of them at least could be otherwise; or nothing."""
    ratios = [ratio(case, found, wanted) for case, found, wanted in pairs]
    wrong = [w for (*_, w), r in zip(pairs, ratios) if r and not math.isclose(r, 1, rel_tol=1e-5) and np.ptp(w) > 0]
    said = "{which} is a multiple of the right one, by another factor in each input: what is it divided by?"
    return said if None not in ratios and len(wrong) >= 2 else ""


def ratio(case: Case, found: np.ndarray, wanted: np.ndarray) -> float | None:
    """The number c with found = c · wanted; 0 where nothing tells it, as all is 0; None if there is none."""
    if found.shape != wanted.shape or found.dtype.kind not in "fiu" or wanted.dtype.kind not in "fiu":
        return None
    found, wanted = found.astype(float).ravel(), wanted.astype(float).ravel()
    finite = np.isfinite(wanted)
    signs = [sign for sign in (1, -1) if np.array_equal(found[~finite], sign * wanted[~finite], equal_nan=True)]
    found, wanted = found[finite], wanted[finite]
    if not wanted.any():
        return None if found.any() or not signs else 0.0 if 1 in signs else -1.0
    at = np.abs(wanted).argmax()
    c = found[at] / wanted[at]
    fits = np.isfinite(c) and np.sign(c) in signs and close(found, c * wanted, tolerance(case))
    return float(c) if fits else None


def candidates(exercise: Exercise, case: Case) -> dict[str, float]:
    """Numbers by name: constants, the sizes of a case, their inverses, and the roots of these and of ratios."""
    sizes = dict(pair for name, x in zip(parameters(exercise), case.args) for pair in _sizes(name, x))
    found = dict(CONSTANTS)
    for name, size in sizes.items():
        found |= {name: size, f"1/{name}": 1 / size, f"√{name}": size**0.5, f"1/√{name}": size**-0.5}
    return found | {f"√({a}/{b})": (x / y) ** 0.5 for a, x in sizes.items() for b, y in sizes.items() if a != b}


def surplus(exercise: Exercise, pairs: list[tuple[Case, np.ndarray, np.ndarray]]) -> str:
    """That each wrong number is off by the same product of its case's sizes; or nothing."""
    wrong = [(case, found, wanted) for case, found, wanted in pairs if not np.array_equal(found, wanted)]
    if any(x.ndim or x.dtype.kind not in "iu" for _, *both in wrong for x in both):
        return ""
    off = [int(found) - int(wanted) for _, found, wanted in wrong]
    if len(set(off)) < 2 or len({x > 0 for x in off}) > 1:
        return ""
    options = [_terms(exercise, case) for case, *_ in wrong]
    for name in options[0]:
        if all(option.get(name) == abs(x) for option, x in zip(options, off)):
            return f"{{which}} is too {'large' if off[0] > 0 else 'small'} by {name} wherever it is wrong."
    return ""


def _terms(exercise: Exercise, case: Case) -> dict[str, float]:
    """Sizes, their squares and products of two, and up to four times these, by name."""
    sizes = dict(pair for name, x in zip(parameters(exercise), case.args) for pair in _sizes(name, x))
    found = sizes | {f"{a}²": x * x for a, x in sizes.items()}
    found |= {f"{a} · {b}": x * y for (a, x), (b, y) in combinations(sizes.items(), 2)}
    return {name if n == 1 else f"{n} · {name}": n * x for n in range(1, 5) for name, x in found.items()}


def _products(exercise: Exercise, case: Case) -> dict[str, float]:
    """Products of two sizes of a case, and their inverses."""
    sizes = dict(pair for name, x in zip(parameters(exercise), case.args) for pair in _sizes(name, x))
    found = {f"{a} · {b}": x * y for (a, x), (b, y) in combinations(sizes.items(), 2)}
    return found | {f"1/({name})": 1 / x for name, x in found.items()}


def _sizes(name: str, x: Any) -> list[tuple[str, float]]:
    """The sizes of an argument: of the axes of an array, or a positive whole number itself."""
    if isinstance(x, np.ndarray):
        return [(f"{name}.shape[{i}]", float(size)) for i, size in enumerate(x.shape) if size]
    return [(name, float(x))] if isinstance(x, int) and not isinstance(x, bool) and x > 0 else []
