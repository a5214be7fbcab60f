"""Lesson 25, ★★: how much of what one token wrote is left at another, from logarithms of gates."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def decay_weights(g: Array) -> Array:
    """G (C, C): G_ij = a_{j+1} … a_i for j ≤ i, else 0, from g = log a (C,), where g ≤ 0 may be −∞: a reset.

    Nothing is NaN, whatever the gates are. A few arrays of C × C numbers may be held.
    """
    C = len(g)
    below = np.tri(C, k=-1, dtype=bool)
    sums = np.where(below, g[:, None], 0).cumsum(0)  # over (j, i], in column j
    return np.where(np.tri(C, dtype=bool), np.exp(sums), 0)  # eq. 25.3


def cases() -> list[Case]:
    """Distinct gates; gates of 1; then what quotients and differences do not survive."""
    rng = np.random.default_rng(25)
    mixed = -rng.exponential(0.3, 12)
    reset, two = mixed.copy(), -rng.exponential(0.5, 20)
    reset[5], two[[0, 7, 8, 19]] = -np.inf, -np.inf
    forced = mixed.copy()
    forced[5] = -1e30
    return [
        Case("three tokens whose gates are 1/2, 1/4 and 1/8", (np.log([0.5, 0.25, 0.125]),)),
        Case("ONE: a single token", (np.array([-2.0]),)),
        Case("ONES: four gates of 1", (np.zeros(4),)),
        Case("12 distinct gates", (mixed,)),
        Case("RESET: the same, and gate 5 is 0", (reset,)),
        Case("RESET: the first, two neighbors and the last of 20", (two,)),
        Case("64 gates of e^−20: γ is 0 from the 38th on", (np.full(64, -20.0),)),
        Case("12 gates, one of them with the logarithm −10³⁰, as programs write that have no −∞", (forced,)),
        Case("RESET everywhere", (np.full(6, -np.inf),)),
    ]


SUMS, APART = "np.where(below, g[:, None], 0).cumsum(0)", "g.cumsum()[:, None] - g.cumsum()"

EXERCISE = Exercise(
    lesson="25", stars=2, reference=decay_weights, where="eq. 25.3", cases=cases,
    hints=(
        "In column j: nothing above the diagonal, 1 on it, then one more gate in each row.",
        "Add logarithms, don't multiply: column j is the exponential of a running sum that begins after row j.",
        "np.where(np.tri(C, k=-1, dtype=bool), g[:, None], 0).cumsum(0). Then the exponential, and 0 above the "
        "diagonal: eq. 25.3.",
    ),
    without={
        "k=-1": "Your G_ij includes a_j, so what token j writes fades before it's read. Begin at j + 1 (eq. 25.3).",
        "np.where(np.tri(C, dtype=bool), np.exp(sums), 0)":
            "Above the diagonal your weights aren't 0: a token would see its future. Eq. 25.3 is for j ≤ i.",
    },
    mistakes=(
        Mistake("You divide γ_i by γ_j. After a reset, or after a few small gates, that's 0/0. Add logarithms over (j, "
                "i] alone: eq. 25.3 and section 5.",
                but(SUMS, "np.exp(g.cumsum())[:, None] / np.exp(g.cumsum())", "np.exp(sums)", "sums")),
        Mistake("You subtract running sums. At a reset, that's −∞ − (−∞), and a very small gate leaves no digits for "
                "the others. Add logarithms over (j, i] alone: eq. 25.3 and section 5.",
                *(but(SUMS, apart) for apart in (f"np.minimum({APART}, 0)", APART)),
                but(SUMS, APART, "np.exp(sums)", "np.nan_to_num(np.exp(sums))")),
        Mistake("You mask by multiplying with 0, and 0 · (−∞) is NaN at every reset. Choose with np.where (section 5).",
                but("np.where(below, g[:, None], 0)", "(below * g[:, None])")),
        Mistake("Your diagonal is 0. A token writes and then reads, so all of it is there: G_ii = 1, the empty product "
                "of eq. 25.3.",
                but("np.where(np.tri(C, dtype=bool)", "np.where(np.tri(C, k=-1, dtype=bool)")),
        Mistake("You've swapped rows and columns. The row, i, is the reader; the column, j, is the writer: eq. 25.3.",
                but("np.where(np.tri(C, dtype=bool), np.exp(sums), 0)",
                    "np.where(np.tri(C, dtype=bool), np.exp(sums), 0).T")),
    ),
)
