"""Lesson 25, ★★★: a chunk of the gated delta rule by one triangular system, with a state that comes in and goes out."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.lessons.lesson25.exercises.decay_weights import decay_weights

import numpy as np
from numpy import ndarray as Array


def delta_chunk(q: Array, k: Array, v: Array, b: Array, g: Array, S: Array) -> tuple[Array, Array]:
    """(out, S): what C tokens read, (C, Dv), and the state after them, (F, Dv), without a loop over states.

    ``q`` and ``k`` (C, F), ``v`` (C, Dv), rates ``b`` and log gates ``g`` (C,), g ≤ 0 may be −∞; ``S`` (F, Dv) the
    state before. Never one state per token: a few C × C arrays may be held.
    """
    b = b[:, None]
    G, since = decay_weights(g), np.exp(g.cumsum())[:, None]
    A = np.tril(b * G * (k @ k.T), -1)
    W = np.linalg.solve(np.eye(len(q)) + A, b * (v - since * (k @ S)))  # eq. 25.4
    out = since * (q @ S) + (G * (q @ k.T)) @ W  # eq. 25.5
    return out, since[-1] * S + (G[-1][:, None] * k).T @ W


def neumann(A: Array) -> Array:
    """(I − A)(I + A²)(I + A⁴)…"""
    found, power = np.eye(len(A)) - A, A @ A
    while power.any():
        found, power = found @ (np.eye(len(A)) + power), power @ power
    return found


def call(c: int, f: int, dv: int, *, gates: bool = True, start: bool = True, unit: bool = True) -> tuple:
    """``c`` tokens with random keys; without ``gates`` log gates are 0, without ``start`` the state is 0."""
    rng = np.random.default_rng(c + 10 * f + 100 * dv)
    q, k = rng.normal(size=(2, c, f))
    k = k / np.linalg.norm(k, axis=1, keepdims=True) if unit else k / 2
    g = -rng.exponential(0.3, c) * gates
    return q, k, rng.normal(size=(c, dv)), rng.uniform(0.2, 1.8, c), g, rng.normal(size=(f, dv)) * start


def cases() -> list[Case]:
    """From one token to resets and one key for all."""
    q, k, v, b, g, S = call(9, 4, 3)
    reset = g.copy()
    reset[[0, 4]] = -np.inf
    many = call(64, 4, 2)
    same = np.repeat(many[1][:1], 64, 0)
    rates, zeros = np.full(64, 1.3), np.zeros(64)
    return [
        Case("ONE: one token after a state", call(1, 3, 2)),
        Case("two tokens, from a state of 0, without gates", call(2, 2, 2, gates=False, start=False)),
        Case("EYE: six tokens whose keys are orthogonal, values EYE, without gates",
             (np.eye(6), np.eye(6), np.eye(6), np.full(6, 0.5), np.zeros(6), np.zeros((6, 6)))),
        Case("7 tokens from a state of 0, with gates", call(7, 4, 3, start=False)),
        Case("SPLIT: 9 tokens after a state, with gates", (q, k, v, b, g, S)),
        Case("RESET: the same, and gates 0 and 4 are 0", (q, k, v, b, reset, S)),
        Case("keys that are not of length 1", call(8, 6, 2, unit=False)),
        Case("ONE KEY: 64 tokens with the same key, rate 1.3", (many[0], same, many[2], rates, zeros, many[5])),
        Case("64 tokens with gates of e^−20", (*many[:4], np.full(64, -20.0), many[5])),
    ]


SOLVE = "np.linalg.solve(np.eye(len(q)) + A, b * (v - since * (k @ S)))"
AFTER = "since[-1] * S + (G[-1][:, None] * k).T @ W"

EXERCISE = Exercise(
    lesson="25", stars=3, reference=delta_chunk, where="eq. 25.4", cases=cases,
    hints=(
        "Three steps: G = decay_weights(g), your own, and γ = np.exp(np.cumsum(g)); the errors W from one linear "
        "system, np.linalg.solve; then the outputs and the state from W.",
        "A = np.tril(b[:, None] * G * (k @ k.T), −1), and the right side is b[:, None] * (V − γ K S): eq. 25.4.",
        "Once you know W, it's lesson 17's chunk, with W in place of V and G on the weights: eq. 25.5.",
    ),
    without={"since * (k @ S)": "You leave the incoming state out of the error. What it holds under a key must be "
                                "corrected, too: V − γ K S in eq. 25.4."},
    mistakes=(
        Mistake("Your A includes its diagonal, but a token doesn't correct its own write: only j < i (eq. 25.4).",
                but("(k @ k.T), -1)", "(k @ k.T))")),
        Mistake("You build the inverse as a product of powers of A. That's exact on paper, but with ONE KEY the powers "
                "hold numbers above 10¹⁷ that should cancel. Solve the system: eq. 25.4 and section 5.",
                but(SOLVE, "neumann(A) @ (b * (v - since * (k @ S)))")),
        Mistake("Your outputs use V where the errors W belong. That's lesson 17's chunk with decay; what's added is "
                "what was wrong: eq. 25.5.",
                but("(q @ k.T)) @ W", "(q @ k.T)) @ (b * v)"), but("k).T @ W", "k).T @ (b * v)"),
                but("(q @ k.T)) @ W", "(q @ k.T)) @ (b * v)", "k).T @ W", "k).T @ (b * v)")),
        Mistake("Your outgoing state hasn't decayed: neither γ of the last token nor G's last row is there. Eq. 25.5, "
                "second line.",
                but(AFTER, "S + k.T @ W"), but(AFTER, "S + (G[-1][:, None] * k).T @ W"),
                but(AFTER, "since[-1] * S + k.T @ W")),
        Mistake("You take one step of the substitution, W ≈ R − A R. Later errors depend on earlier ones, which depend "
                "on still earlier ones: solve the system of eq. 25.4.",
                but(SOLVE, "(np.eye(len(q)) - A) @ (b * (v - since * (k @ S)))")),
    ),
)
