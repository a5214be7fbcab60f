"""Lesson 25, ★: one token of the gated delta rule."""

from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.promises import peak

import numpy as np
from numpy import ndarray as Array


def delta_step(S: Array, q: Array, k: Array, v: Array, a: float, b: float) -> tuple[Array, Array]:
    """(out, S): what a token reads, (Dv,), and the state after it, (F, Dv).

    ``S`` (F, Dv) the state before, ``q`` and ``k`` (F,), ``v`` (Dv,). First the state decays by ``a``, then the token
    writes ``b`` times the error of what is stored under its key, then its query reads. Never hold F × F numbers.
    """
    S = a * S
    S = S + np.outer(k, b * (v - k @ S))  # eq. 25.2
    return q @ S, S


def call(f: int, dv: int, a: float, b: float, empty: bool = False) -> tuple:
    """Integers, so that with gates and rates in quarters every result is exact."""
    rng = np.random.default_rng(10 * f + dv)
    q, k = rng.integers(-3, 4, size=(2, f)).astype(float)
    S = rng.integers(-5, 6, size=(f, dv)) * (0.0 if empty else 1.0)
    return S, q, k, rng.integers(-4, 5, size=dv).astype(float), a, b


def cases() -> list[Case]:
    """The first token, one that is bound again, gates of all kinds."""
    x = np.array([1.0, 0.0])
    bound = np.array([[1.0], [2.0]]), x, x, np.array([5.0]), 1.0, 1.0
    return [
        Case("ONE: x is 1, and is bound to 5", bound),
        Case("the same, and all else decays by half", (*bound[:4], 0.5, 1.0)),
        Case("the first token of all, F = 3, Dv = 2", call(3, 2, 1.0, 1.0, True)),
        Case("F = 3, Dv = 2, a key that is not of length 1", call(3, 2, 1.0, 0.25)),
        Case("F = 4, Dv = 2, RESET: the gate is 0", call(4, 2, 0.0, 0.5)),
        Case("F = 2, Dv = 5, the rate is 0: it only decays", call(2, 5, 0.5, 0.0)),
    ]


WRITE = "S = S + np.outer(k, b * (v - k @ S))"

EXERCISE = Exercise(
    lesson="25", stars=1, reference=delta_step, where="eq. 25.2", cases=cases,
    hints=(
        "Four lines of eq. 25.2: decay, look up, write, read. Each uses what the one before made of the state.",
        "What's stored under the key is k @ S, (Dv,), after the decay.",
        "np.outer(k, b * error) has the shape of the state.",
    ),
    without={"k @ S": "You only add: the old value stays under the key. Write the difference to what's stored there: "
                      "eq. 25.2."},
    mistakes=(
        Mistake("Your state decays after the write: what was just written is less than the value. First the decay, "
                "then the write: eq. 25.2. With a = 1, you can't tell.",
                but("    S = a * S\n", "", WRITE, "S = a * (S + np.outer(k, b * (v - k @ S)))")),
        Mistake("Your error is taken before the decay: what you subtract is more than what's stored. Look up in the "
                "decayed state: eq. 25.2.",
                but("    S = a * S\n", "", WRITE, "S = a * S + np.outer(k, b * (v - k @ S))")),
        Mistake("Your query reads before its own token has written. Write, then read: eq. 25.2.",
                but("S = a * S\n", "S = a * S\n    out = q @ S\n", "return q @ S", "return out"),
                but("S = a * S\n", "out = q @ S\n    S = a * S\n", "return q @ S", "return out")),
        Mistake("You erase everything stored under the key and write b times the value. Erase b times, too: the same b "
                "multiplies both terms of eq. 25.1.",
                but("b * (v - k @ S)", "(b * v - k @ S)")),
        Mistake("You multiply by the matrix of eq. 25.1, which has F × F numbers. Look up and write instead: two "
                "vectors are enough, eq. 25.2.",
                but("    S = a * S\n", "    S = a * (np.eye(len(k)) - b * np.outer(k, k)) @ S\n", WRITE,
                    "S = S + b * np.outer(k, v)")),
    ),
    costs=(
        Cost(peak(lambda n: call(n, 1, 0.5, 0.5), 256, 256), 8,
             "With 256 features and values of 1, it holds {found:.0f} times as many numbers as the state has: eq. 25.2 "
             "needs no matrix of F × F."),
    ),
)
