"""Lesson 25, ★★: a state of one number that knows whether the ones so far are even or odd."""

from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array

Token = tuple[float, float, float, float]


def parity(bit: int) -> Token:
    """(a, b, k, v) of a token: gate, rate, key and value, one number each, from its own bit, 0 or 1.

    The state, one number, begins at 1. After any bits it must be exactly 1 if they have an even number of ones, and
    −1 if an odd one. 0 ≤ a ≤ 1 and 0 ≤ b ≤ 2. Nothing may be remembered but the state.
    """
    return 1.0, 2.0 * bit, 1.0, 0.0  # eq. 25.7


def run(answer: Callable[[int], Token]) -> Callable[[Array], Array]:
    """A function of bits: a, b, k, v and the state after each, (n, 5). Each bit is asked for once."""
    def states(bits: Array) -> Array:
        tokens = {bit: answer(bit) for bit in (0, 1)}
        rows, state = [], 1.0
        for bit in bits.tolist():
            a, b, k, v = (float(x) for x in tokens[bit])
            state = a * state
            state = state + b * k * (v - k * state)
            rows.append((a, b, k, v, state))
        return np.array(rows)

    return states


def judge(case: Case, got: Any) -> str | None:
    """None if gates and rates are allowed and each state is the parity."""
    (bits,), found = case.args, np.asarray(got, float)
    for place, (bit, (a, b, _, _, state)) in enumerate(zip(bits, found)):
        if not (0 <= a <= 1 and 0 <= b <= 2):
            return f"a token with bit {bit} has a = {a:g} and b = {b:g}; allowed are 0 ≤ a ≤ 1 and 0 ≤ b ≤ 2."
        wanted = 1 - 2 * (bits[: place + 1].sum() % 2)
        if abs(state - wanted) > 1e-9:
            return (f"after the bits {' '.join(map(str, bits[: place + 1][-12:]))} the state is {state:g}; expected "
                    f"{wanted}.")  # fmt: skip
    return None


def cases() -> list[Case]:
    """From one bit to a thousand."""
    rng = np.random.default_rng(25)
    texts = [("a single 0", [0]), ("a single 1", [1]), ("0 0 0", [0, 0, 0]), ("1 1", [1, 1]), ("1 0 1 1", [1, 0, 1, 1]),
             ("0 1 0 0 1 0 1", [0, 1, 0, 0, 1, 0, 1])]  # fmt: skip
    return [Case(label, (np.array(bits),)) for label, bits in texts] + [
        Case("a thousand bits", (rng.integers(2, size=1000),)),
    ]


RIGHT = "return 1.0, 2.0 * bit, 1.0, 0.0"

EXERCISE = Exercise(
    lesson="25", stars=2, reference=parity, cases=cases, judge=judge, run=run,
    hints=(
        "A 0 must leave the state alone. A 1 must flip its sign.",
        "With a value of 0 a token multiplies the state by a (1 − b k²): eq. 25.7. When is that 1, and when −1?",
        "a = 1 and k = 1; the rate is twice the bit.",
    ),
    without={"bit": "Every token flips the sign, whatever its bit: that counts tokens. A 0 has b = 0 (eq. 25.7)."},
    mistakes=(
        Mistake("With b k² = 1 a one erases the state: 1 − b k² is 0, not −1. Flipping the sign takes b = 2 for a key "
                "of length 1: eq. 25.7.",
                but(RIGHT, "return 1.0, 1.0 * bit, 1.0, 0.0"), but(RIGHT, "return 1.0, 0.25 * bit, 2.0, 0.0")),
        Mistake("Your gate flips the sign. A gate is at least 0; only an erased key can flip it, with b k² = 2: eq. "
                "25.7.",
                but(RIGHT, "return 1.0 - 2.0 * bit, 0.0, 1.0, 0.0")),
        Mistake("You flip the sign at a 0, and count the zeros. b = 2 belongs to a 1 (eq. 25.7).",
                but("2.0 * bit", "2.0 * (1 - bit)")),
        Mistake("Your token writes its value over the state: that remembers the last bit, not how many ones there "
                "were. Write nothing, v = 0, and let 1 − b k² flip the sign: eq. 25.7.",
                but(RIGHT, "return 1.0, 1.0, 1.0, 1.0 - 2.0 * bit"),
                but(RIGHT, "return 0.0, 1.0, 1.0, 1.0 - 2.0 * bit"),
                but(RIGHT, "return 1.0, 1.0 * bit, 1.0, -1.0")),
        Mistake("With b = 2 and a key of length 2, 1 − b k² is −7: the state grows. b k² must be 2: eq. 25.7.",
                but("bit, 1.0, 0.0", "bit, 2.0, 0.0")),
    ),
)
