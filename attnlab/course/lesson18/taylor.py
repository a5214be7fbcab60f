"""Lesson 18, ★: features whose products are the Taylor polynomial of the exponential."""

import math
from typing import Any

from attnlab.check.exercise import Case, Exercise, Mistake, but
from attnlab.check.library import to_numpy

import numpy as np
from numpy import ndarray as Array


def taylor(x: Array) -> Array:
    """Features (N, F) of vectors x (N, D) with φ(q)·φ(k) = 1 + q·k + (q·k)²/2 and F ≤ 1 + D + D²."""
    ones = np.ones((len(x), 1))
    products = x[:, :, None] * x[:, None, :] / math.sqrt(2)  # eq. 18.3
    return np.concatenate([ones, x, products.reshape(len(x), -1)], 1)


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
    if phi.shape[1] > 1 + d + d * d:
        return f"{phi.shape[1]} features; 1 + D + D² = {1 + d + d * d} are enough."
    s, found = x @ x.T, phi @ phi.T
    wanted = 1 + s + s**2 / 2
    if np.allclose(found, wanted, rtol=1e-6, atol=1e-9):
        return None
    i, j = np.unravel_index(np.nanargmax(abs(found - wanted)), found.shape) if np.isfinite(found).any() else (0, 0)
    return f"for q·k = {s[i, j]:.3g} expected φ(q)·φ(k) = {wanted[i, j]:.4g}, got {found[i, j]:.4g}."


def cases() -> list[Case]:
    """Vectors of one number first, where a feature can be read off."""
    rng = np.random.default_rng(18)
    return [
        Case("ONE: the number 2; 1 + 4 + 8", (np.array([[2.0]]),)),
        Case("D = 1: numbers 1, −1, 0 and 3", (np.array([[1.0], [-1.0], [0.0], [3.0]]),)),
        Case("D = 2: (1, 2) and (3, −1)", (np.array([[1.0, 2.0], [3.0, -1.0]]),)),
        Case("D = 4, six vectors", (rng.normal(size=(6, 4)),)),
        Case("D = 16, three vectors", (rng.normal(size=(3, 16)),)),
        Case("D = 20, three vectors", (rng.normal(size=(3, 20)),)),
        Case("D = 2, numbers near 100", (100 * rng.normal(size=(4, 2)),)),
    ]


def unique(x: Array) -> Array:
    """Each product once: i ≤ j."""
    i, j = np.triu_indices(x.shape[1])
    factor = np.where(i == j, math.sqrt(0.5), 1)
    return np.concatenate([np.ones((len(x), 1)), x, factor * x[:, i] * x[:, j]], 1)


HALF = " / math.sqrt(2)"

EXERCISE = Exercise(
    lesson="18", stars=1, reference=taylor, cases=cases, judge=judge,
    hints=(
        "Three groups of features: one constant, the D numbers of x, and products of two numbers of x.",
        "(q·k)² = Σ_ij q_i q_j k_i k_j: the features x_i x_j for all i and j, D² of them, give it.",
        "The half in (q·k)² / 2 is shared by query and key, so each takes its square root: eq. 18.3.",
        "x[:, :, None] * x[:, None, :] / np.sqrt(2), reshaped to (N, D²).",
    ),
    mistakes=(
        Mistake("The factor 1/√2 is missing: your weight is 1 + s + s², a different parabola, monotone only above "
                "−1/2. Query and key share the half in eq. 18.2, so each feature gets its square root.",
                but(HALF, ""), but("math.sqrt(0.5)", "1", of=unique), but("factor * ", "", of=unique)),
        Mistake("You divide each product by 2, in the query and in the key, so your last term is s²/4. Each gets the "
                "square root, 1/√2: eq. 18.3.",
                but(HALF, " / 2"), but("math.sqrt(0.5)", "0.5", of=unique)),
        Mistake("You take each mixed product once, but without its factor. x_i x_j with i < j stands in for two terms "
                "of the sum, so its feature is √2 times that of eq. 18.3.",
                but("np.where(i == j, math.sqrt(0.5), 1)", "math.sqrt(0.5)", of=unique)),
        Mistake("You have the squares but no mixed products: Σ q_i² k_i² isn't (q·k)². The features of eq. 18.3 are "
                "x_i x_j for all pairs.",
                but("x[:, :, None] * x[:, None, :]", "x**2")),
        Mistake("You're missing features. The constant gives the 1 of 1 + s + s²/2, without which weights can be "
                "negative, and the features x themselves give the s (eqs. 18.2 and 18.3).",
                but("[ones, x, ", "[x, "), but("np.ones((len(x), 1)), x", "x", of=unique),
                but("[ones, x, ", "[ones, ")),
        Mistake("You only multiply different numbers, so the squares are missing. (q·k)² has the terms q_i² k_i², "
                "too: eq. 18.3.",
                but("triu_indices(x.shape[1])", "triu_indices(x.shape[1], 1)", of=unique)),
        Mistake("You scale x by D^−¼ here. The lesson does that before the map, so that the map itself gives eq. 18.2 "
                "in q·k as it comes.",
                but("    ones", "    x = x / x.shape[1] ** 0.25\n    ones"),
                but("    i, j", "    x = x / x.shape[1] ** 0.25\n    i, j", of=unique)),
        Mistake("You divide x itself by √2, not only the products: the s of 1 + s + s²/2 becomes s/2. See eq. 18.3.",
                but("[ones, x, ", "[ones, x / math.sqrt(2), ")),
    ),
)
