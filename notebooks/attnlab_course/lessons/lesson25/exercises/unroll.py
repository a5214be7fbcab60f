"""Lesson 25, ★★: the delta rule's weights, all N × N of them, as if it were attention."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.lessons.lesson25.exercises.decay_weights import decay_weights

import numpy as np
from numpy import ndarray as Array


def unroll(q: Array, k: Array, b: Array, g: Array) -> Array:
    """P (N, N), so that the gated delta rule's outputs from a state of 0 are P @ V, whatever the values V are.

    ``q`` and ``k`` (N, F), rates ``b`` and log gates ``g`` (N,), which may be −∞. All N × N weights are held.
    """
    G = decay_weights(g)
    A = np.tril(b[:, None] * G * (k @ k.T), -1)
    return np.linalg.solve((np.eye(len(q)) + A).T, (G * (q @ k.T)).T).T * b  # eq. 25.4 in eq. 25.5


def call(n: int, f: int, gates: bool = True, reset: int | None = None) -> tuple:
    """``n`` tokens with random keys of length 1."""
    rng = np.random.default_rng(n + 10 * f)
    q, k = rng.normal(size=(2, n, f))
    g = -rng.exponential(0.3, n) * gates
    if reset is not None:
        g[reset] = -np.inf
    return q, k / np.linalg.norm(k, axis=1, keepdims=True), rng.uniform(0.2, 1.8, n), g


def cases() -> list[Case]:
    """With and without gates; keys that are orthogonal, and one key for all."""
    eye = np.eye(5)
    key = call(6, 3)[1][:1]
    return [
        Case("ONE: one token", call(1, 2)),
        Case("two tokens without gates", call(2, 2, False)),
        Case("EYE: orthogonal keys, rates 1, without gates", (eye, eye, np.ones(5), np.zeros(5))),
        Case("8 tokens, F = 4, with gates", call(8, 4)),
        Case("RESET: 8 tokens, F = 3, gate 3 is 0", call(8, 3, reset=3)),
        Case("ONE KEY: six writes under the same key, rate 1: each read sees the last", (
            np.repeat(key, 6, 0), np.repeat(key, 6, 0), np.ones(6), np.zeros(6))),
        Case("24 tokens, F = 6", call(24, 6)),
    ]


SOLVED = "np.linalg.solve((np.eye(len(q)) + A).T, (G * (q @ k.T)).T).T * b"

EXERCISE = Exercise(
    lesson="25", stars=2, reference=unroll, cases=cases,
    hints=(
        "From a state of 0: W = (I + A)⁻¹ (b ∘ V) by eq. 25.4, and out = (G ∘ QKᵀ) W by eq. 25.5. Put one into the "
        "other.",
        "P = (G ∘ QKᵀ) (I + A)⁻¹ diag(b). With EYE as values, as in lesson 17, out is P itself.",
        "To multiply by an inverse from the right, solve the transposed system, or use np.linalg.inv. diag(b) from the "
        "right scales columns: * b.",
    ),
    without={"b": "You leave out b after the inverse. Eq. 25.4 has it on both sides: in A and before V."},
    mistakes=(
        Mistake("Without the inverse these are the weights of plain addition with gates. What a token writes is the "
                "error: eq. 25.4.",
                but(SOLVED, "G * (q @ k.T) * b")),
        Mistake("You scale rows by b. The rate belongs to the writer, the column: b ∘ V in eq. 25.4.",
                but(").T * b", ").T * b[:, None]"), but(SOLVED, "b[:, None] * (G * (q @ k.T)) @ np.linalg.inv("
                "np.eye(len(q)) + A)")),
        Mistake(phrases.own_correction("eq. 25.4"), but("(k @ k.T), -1)", "(k @ k.T))")),
        Mistake("The inverse is on the wrong side. First the errors, then the weights: (G ∘ QKᵀ) (I + A)⁻¹, eq. 25.5.",
                but(SOLVED, "np.linalg.solve(np.eye(len(q)) + A, G * (q @ k.T)) * b")),
        Mistake("Gates are missing. What's stored under a key has faded by G_ij since it was written, when it's "
                "corrected, in A (eq. 25.4), and when it's read, in the scores (eq. 25.5).",
                but("b[:, None] * G * (k @ k.T)", "b[:, None] * (k @ k.T)"),
                but("(G * (q @ k.T))", "np.tril(q @ k.T)")),
    ),
)
