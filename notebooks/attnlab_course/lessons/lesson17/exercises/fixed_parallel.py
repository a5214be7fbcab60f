"""Lesson 17, ★★: all chunks at once, with a state that already holds the chunk, fixed."""

from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.promises import peak

import numpy as np
from numpy import ndarray as Array


def fixed_parallel(fq: Array, fk: Array, v: Array, C: int) -> Array:
    """Causal linear attention of features fq and fk (N, F) and values v (N, Dv) → (N, Dv), all chunks at once.

    C divides N. You can hold the states of all N / C chunks, but not those of all tokens.
    """
    w = np.concatenate([v, np.ones((len(v), 1))], 1)
    q, k, w = (x.reshape(len(x) // C, C, x.shape[1]) for x in (fq, fk, w))
    own = k.swapaxes(1, 2) @ w
    before = np.cumsum(np.concatenate([0 * own[:1], own[:-1]]), 0)  # the state before each chunk, excluding it
    a = np.tril(q @ k.swapaxes(1, 2))
    sums = (q @ before + a @ w).reshape(len(fq), -1)
    return sums[:, :-1] / sums[:, -1:]


def call(n: int, f: int, dv: int, C: int, ones: bool = False) -> tuple:
    """``n`` tokens in chunks of C, values EYE if dv is 0."""
    rng = np.random.default_rng(n + C)
    fq, fk = rng.uniform(0.1, 2, size=(2, n, f))
    return fq, fk, np.ones((n, dv)) if ones else rng.normal(size=(n, dv)) if dv else np.eye(n), C


def cases() -> list[Case]:
    """ONES, which sees nothing; EYE, and BLOCK: the same tokens in chunks of every size that divides them."""
    return [
        Case("ONE: one token", call(1, 2, 2, 1)),
        Case("EYE: one chunk of 3 tokens", call(3, 2, 0, 3)),
        Case("ONES: 6 tokens in chunks of 2: every output is 1", call(6, 3, 2, 2, ones=True)),
        Case("EYE: two tokens in chunks of 1", call(2, 2, 0, 1)),
        Case("EYE: 6 tokens in chunks of 2", call(6, 3, 0, 2)),
        *(Case(f"BLOCK: 12 tokens in chunks of {C}", call(12, 4, 3, C)) for C in (3, 4, 12)),
    ]


BEFORE = "np.cumsum(np.concatenate([0 * own[:1], own[:-1]]), 0)"

EXERCISE = Exercise(
    lesson="17", stars=2, reference=fixed_parallel, where="eq. 17.6", cases=cases,
    hints=(
        "Two tokens in chunks of one, EYE as values: which weights does query 0 give, and which query 1?",
        "Leave it in a, and take it out of the state: a chunk reads the state before it, eq. 17.5.",
        "The sums up to a chunk, without it: shift the states by one, zeros in front, then take the cumulative sum. "
        "(Subtracting a chunk's own would leave its rounding errors behind.)",
    ),
    mistakes=(
        Mistake("This is still the broken program: the cumulative sum at a chunk contains the chunk, and a contains "
                "it again. A chunk reads the state before it, eq. 17.5. Numerator and normalizer are wrong in the "
                "same way, so the weights still add up to 1 and ONES sees nothing.",
                but(BEFORE, "np.cumsum(own, 0)")),
        Mistake("A query sees its whole chunk, its future included: you've removed a, the chunk's own weights, or its "
                "triangle, when it's the state that's wrong. Keep a with its triangle, and take the chunk out of the "
                "state: eq. 17.5.",
                but(BEFORE, "np.cumsum(own, 0)", "q @ before + a @ w", "q @ before"), but("np.tril(", "(")),
        Mistake("You've taken the diagonal away. Now a query's own key counts once, but the earlier keys of its chunk "
                "count twice, and the later ones are still in the state. Take the chunk out of the state: eq. 17.5.",
                but(BEFORE, "np.cumsum(own, 0)", "np.tril(q @ k.swapaxes(1, 2))", "np.tril(q @ k.swapaxes(1, 2), -1)")),
        Mistake("You've taken the chunk out of the numerator and left it in the normalizer, or the other way around, "
                "so the weights no longer add up to 1. U and Z are one state, eq. 17.6.",
                but(BEFORE, "np.cumsum(own, 0); before[..., :-1] -= own[..., :-1]"),
                but(BEFORE, "np.cumsum(own, 0); before[..., -1] -= own[..., -1]")),
        Mistake("Your shift isn't by one chunk. The state before a chunk holds all earlier ones, the one just before "
                "included, and nothing comes before the first: a state of zeros (eq. 17.6).",
                but(BEFORE, "np.cumsum(own, 0) - own; before = np.concatenate([0 * own[:1], before[:-1]])"),
                but(BEFORE, "np.roll(np.cumsum(own, 0), 1, 0)")),
    ),
    costs=(
        Cost(peak(lambda n: call(n, 16, 16, 32), 1024, 1024 * 16), 20,
             "It holds {found:.0f} arrays of N × F numbers, N = 1024, F = Dv = 16 and C = 32; weights within the "
             "chunks and the states before them need about 6."),
    ),
)
