"""Lesson 18, ★: features whose products are the exponential's series up to the cube."""

import math
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.library import to_numpy

import numpy as np
from numpy import ndarray as Array


def cubic(x: Array) -> Array:
    """Features (N, F) of vectors x (N, D) with φ(q)·φ(k) = 1 + s + s²/2 + s³/6, s = q·k, and F ≤ 1 + D + D² + D³."""
    ones = np.ones((len(x), 1))
    pairs = (x[:, :, None] * x[:, None]).reshape(len(x), x.shape[1] ** 2)
    triples = (pairs[:, :, None] * x[:, None]).reshape(len(x), x.shape[1] ** 3)
    return np.concatenate([ones, x, pairs / math.sqrt(2), triples / math.sqrt(6)], 1)


def judge(case: Case, got: Any) -> str | None:
    """None if the products of the features are right; which features they are is free."""
    (x,) = case.args
    n, d = x.shape
    try:
        phi = np.asarray(to_numpy(got), dtype=float)
    except (TypeError, ValueError):
        return "expected an array of features, (N, F)."
    if phi.ndim != 2 or len(phi) != n:
        return f"expected features of shape ({n}, F), got {phi.shape}."
    if phi.shape[1] > 1 + d + d**2 + d**3:
        return f"{phi.shape[1]} features; 1 + D + D² + D³ = {1 + d + d**2 + d**3} are enough."
    s, found = x @ x.T, phi @ phi.T
    wanted = 1 + s + s**2 / 2 + s**3 / 6
    if np.allclose(found, wanted, rtol=1e-6, atol=1e-9):
        return None
    i, j = np.unravel_index(np.nanargmax(abs(found - wanted)), found.shape) if np.isfinite(found).any() else (0, 0)
    return f"for q·k = {s[i, j]:.3g} expected φ(q)·φ(k) = {wanted[i, j]:.4g}, got {found[i, j]:.4g}."


def cases() -> list[Case]:
    """Vectors of one number first, where a feature can be read off."""
    rng = np.random.default_rng(18)
    return [
        Case("ONE: the number 2; 1 + 4 + 8 + 64/6", (np.array([[2.0]]),)),
        Case("D = 1: numbers 1, −1, 0 and 3", (np.array([[1.0], [-1.0], [0.0], [3.0]]),)),
        Case("D = 2: (1, 2) and (3, −1)", (np.array([[1.0, 2.0], [3.0, -1.0]]),)),
        Case("D = 8, three vectors", (rng.normal(size=(3, 8)),)),
        Case("D = 2, numbers near 100", (100 * rng.normal(size=(4, 2)),)),
    ]


HALF, SIXTH = " / math.sqrt(2)", " / math.sqrt(6)"

EXERCISE = Exercise(
    lesson="18", stars=1, reference=cubic, where="eq. 18.3", cases=cases, judge=judge,
    hints=(
        "Four groups of features: one constant, the D numbers of x, products of two of them, and products of three.",
        "(q·k)³ = Σ_rtu q_r q_t q_u k_r k_t k_u: the features x_r x_t x_u for all r, t and u, D³ of them, give it.",
        "Query and key share the sixth in (q·k)³ / 6 as they share the half in eq. 18.3: each takes the square root.",
    ),
    without={
        "math.sqrt(2)":
            "The products of two numbers lack their factor 1/√2: query and key share the half in s²/2 (eq. 18.3).",
    },
    mistakes=(
        Mistake("The factor of your last group is missing or isn't the right one. The cube has the coefficient 1/3! = "
                "1/6, and query and key share it as in eq. 18.3, so each feature gets 1/√6.",
                but(SIXTH, ""), but(SIXTH, " / 6"), but(SIXTH, " / math.sqrt(3)"), but(SIXTH, HALF)),
        Mistake("You have the cubes but no mixed products: Σ q_r³ k_r³ isn't (q·k)³. As in eq. 18.3, it takes the "
                "products of all triples.",
                but("(pairs[:, :, None] * x[:, None]).reshape(len(x), x.shape[1] ** 3)", "x**3")),
        Mistake("You're missing a group of features. The constant gives the 1, the numbers of x give the s, and the "
                "products of two give s²/2 (eq. 18.3); the products of three come on top.",
                but("[ones, x, ", "[x, "), but("[ones, x, ", "[ones, "), but("pairs / math.sqrt(2), ", ""),
                but(", triples / math.sqrt(6)", "")),
        Mistake("You scale x by D^−¼ here. The lesson does that before the map, so that the map itself gives the "
                "series in q·k as it comes (eq. 18.3).",
                but("    ones", "    x = x / x.shape[1] ** 0.25\n    ones")),
    ),
)
