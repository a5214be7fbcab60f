"""Whether a result is the right one times a factor, and which."""

import math
from itertools import combinations
from typing import Any

from attnlab.check.compare import close, tolerance
from attnlab.check.exercise import Case, Exercise
from attnlab.check.probes.patterns import same
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


def multiple_rows(pairs: list[tuple[Case, np.ndarray, np.ndarray]]) -> str:
    """That each row is a multiple of the right one, where three of them at least could be otherwise; or nothing."""
    if not all(f.shape == w.shape and w.ndim == 2 for _, f, w in pairs):
        return ""
    rows = [(ratio(case, *row), row[1]) for case, f, w in pairs for row in zip(f, w)]
    wrong = [r for r, w in rows if r and not math.isclose(r, 1, rel_tol=1e-2) and np.ptp(w) > 0]
    said = "{which} has rows that are multiples of the right ones, each by a factor of its own: what divides them?"
    return said if len(wrong) >= 3 and all(r is not None for r, _ in rows) else ""


def multiple(pairs: list[tuple[Case, np.ndarray, np.ndarray]]) -> str:
    """That each result is a multiple of the right one, where two of them at least could be otherwise; or nothing."""
    ratios = [ratio(case, found, wanted) for case, found, wanted in pairs]
    wrong = [w for (*_, w), r in zip(pairs, ratios) if r and not math.isclose(r, 1, rel_tol=1e-5) and np.ptp(w) > 0]
    said = "{which} is a multiple of the right one, by another factor in each input: what is it divided by?"
    return said if None not in ratios and len(wrong) >= 2 else ""


def ratio(case: Case, found: np.ndarray, wanted: np.ndarray) -> float | None:
    """The number c with found = c · wanted; 0 where nothing tells it, as all is 0; None if there is none."""
    numbers = all(x.dtype.kind in "fiu" or x.dtype.name == "bfloat16" for x in (found, wanted))
    if found.shape != wanted.shape or not numbers:
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
    known = sizes(exercise, case)
    found = dict(CONSTANTS)
    for name, size in known.items():
        found |= {name: size, f"1/{name}": 1 / size, f"√{name}": size**0.5, f"1/√{name}": size**-0.5}
    return found | {f"√({a}/{b})": (x / y) ** 0.5 for a, x in known.items() for b, y in known.items() if a != b}


def _products(exercise: Exercise, case: Case) -> dict[str, float]:
    """Products of two sizes of a case, and their inverses."""
    found = {f"{a} · {b}": x * y for (a, x), (b, y) in combinations(sizes(exercise, case).items(), 2)}
    return found | {f"1/({name})": 1 / x for name, x in found.items()}


def sizes(exercise: Exercise, case: Case) -> dict[str, int]:
    """The sizes of a case by name: of the axes of arrays, and positive whole numbers among the arguments."""
    return dict(pair for name, x in zip(parameters(exercise), case.args) for pair in _sizes(name, x))


def _sizes(name: str, x: Any) -> list[tuple[str, int]]:
    """The sizes of an argument; of a dictionary those of its items."""
    if isinstance(x, dict):
        return [pair for key, item in x.items() for pair in _sizes(str(key), item)]
    if isinstance(x, np.ndarray):
        return [(f"{name}.shape[{i}]", size) for i, size in enumerate(x.shape) if size]
    return [(name, x)] if isinstance(x, int) and not isinstance(x, bool) and x > 0 else []
