"""Lesson 25, ★★★: a chunk of KDA, the delta rule with a gate for each channel, by one triangular system."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.lessons.lesson25.exercises.decay_weights import decay_weights

import numpy as np
from numpy import ndarray as Array


def delta_chunk(q: Array, k: Array, v: Array, b: Array, g: Array, S: Array) -> tuple[Array, Array]:
    """(out, S): what C tokens read, (C, Dv), and the state after them, (F, Dv), without a loop over states.

    Before token t writes and reads, as in (25.2), row f of the state decays by e^g[t, f]. ``q``, ``k`` and log gates
    ``g`` (C, F), where g ≤ 0 can be −∞; ``v`` (C, Dv), rates ``b`` (C,); ``S`` (F, Dv) is the state before. Never hold
    one state per token; a few arrays of C × C × F are fine.
    """
    b = b[:, None]
    G, since = np.stack([decay_weights(x) for x in g.T], -1), np.exp(g.cumsum(0))  # (C, C, F) and (C, F)
    A = np.tril(b * np.einsum("if,jf,ijf->ij", k, k, G), -1)
    W = np.linalg.solve(np.eye(len(q)) + A, b * (v - (since * k) @ S))  # eq. 25.4
    out = (since * q) @ S + np.einsum("if,jf,ijf->ij", q, k, G) @ W  # eq. 25.5
    return out, since[-1][:, None] * S + (G[-1] * k).T @ W


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
    g = -rng.exponential(0.3, (c, f)) * gates
    return q, k, rng.normal(size=(c, dv)), rng.uniform(0.2, 1.8, c), g, rng.normal(size=(f, dv)) * start


def cases() -> list[Case]:
    """From one token to resets and one key for all."""
    q, k, v, b, g, S = call(9, 4, 3)
    reset, one = g.copy(), g.copy()
    reset[[0, 4]] = one[4, 1] = -np.inf
    many = call(64, 4, 2)
    same = np.repeat(many[1][:1], 64, 0)
    rates, zeros = np.full(64, 1.3), np.zeros((64, 4))
    return [
        Case("ONE: one token after a state", call(1, 3, 2)),
        Case("two tokens, from a state of 0, without gates", call(2, 2, 2, gates=False, start=False)),
        Case("EYE: six tokens whose keys are orthogonal, values EYE, without gates",
             (np.eye(6), np.eye(6), np.eye(6), np.full(6, 0.5), *np.zeros((2, 6, 6)))),
        Case("7 tokens from a state of 0, with gates", call(7, 4, 3, start=False)),
        Case("SPLIT: 9 tokens after a state, with gates", (q, k, v, b, g, S)),
        Case("the same, and every channel of a token has the same gate", (q, k, v, b, np.repeat(g[:, :1], 4, 1), S)),
        Case("RESET: the same as SPLIT, and all gates of tokens 0 and 4 are 0", (q, k, v, b, reset, S)),
        Case("RESET: the same, and one gate of token 4 is 0", (q, k, v, b, one, S)),
        Case("keys that are not of length 1", call(8, 6, 2, unit=False)),
        Case("ONE KEY: 64 tokens with the same key, rate 1.3", (many[0], same, many[2], rates, zeros, many[5])),
        Case("64 tokens with gates of e^−20", (*many[:4], np.full((64, 4), -20.0), many[5])),
    ]


SOLVE = "np.linalg.solve(np.eye(len(q)) + A, b * (v - (since * k) @ S))"
AFTER = "since[-1][:, None] * S + (G[-1] * k).T @ W"
KEYS, QUERIES = (f'np.einsum("if,jf,ijf->ij", {x}, k, G)' for x in "kq")

EXERCISE = Exercise(
    lesson="25", stars=3, reference=delta_chunk, where="eq. 25.4", cases=cases,
    hints=(
        "Derive (25.3) and (25.4) once more, for one channel of the key at a time: G and γ get an index f, and can't "
        "leave the sum over f that a dot product is.",
        "G[..., f] = decay_weights(g[:, f]), your own. Then k_i · k_j becomes Σ_f k_if k_jf G_ijf, an einsum, and γ "
        "multiplies each entry of k and q before it meets S.",
        "A = np.tril(b[:, None] * that sum, −1), the right side is b[:, None] * (v − (γ ∘ k) S), np.linalg.solve gives "
        "W. Then eq. 25.5, with γ ∘ q, the same sum for q_i and k_j, and G[−1] on the keys.",
    ),
    without={"since * k @ S": "You leave the incoming state out of the error. What it holds under a key must be "
                              "corrected, too: V − (γ ∘ K) S in eq. 25.4."},
    mistakes=(
        Mistake("Your A includes its diagonal, but a token doesn't correct its own write: only j < i (eq. 25.4).",
                but("k, k, G), -1)", "k, k, G))")),
        Mistake("You build the inverse as a product of powers of A. That's exact on paper, but with ONE KEY the powers "
                "hold numbers above 10¹⁷ that should cancel. Solve the system: eq. 25.4 and section 5.",
                but(SOLVE, "neumann(A) @ (b * (v - (since * k) @ S))")),
        Mistake("Your outputs use V where the errors W belong. That's lesson 17's chunk with decay; what's added is "
                "what was wrong: eq. 25.5.",
                but(f"{QUERIES} @ W", f"{QUERIES} @ (b * v)"), but("k).T @ W", "k).T @ (b * v)"),
                but(f"{QUERIES} @ W", f"{QUERIES} @ (b * v)", "k).T @ W", "k).T @ (b * v)")),
        Mistake("Your outgoing state hasn't decayed: neither γ of the last token nor G's last row is there. Eq. 25.5, "
                "second line.",
                but(AFTER, "S + k.T @ W"), but(AFTER, "S + (G[-1] * k).T @ W"),
                but(AFTER, "since[-1][:, None] * S + k.T @ W")),
        Mistake("You split each G into γ_i / γ_j, so that the sums over channels become products of matrices. That's "
                "right until a γ is 0: after a reset it's 0/0 (section 5 and eq. 25.4).",
                but(KEYS, "((since * k) @ (k / since).T)", QUERIES, "np.tril((since * q) @ (k / since).T)"),
                seen="RESET"),
    ),
)
