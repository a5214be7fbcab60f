"""Lesson 11, ★★: the butterfly pattern, and what several layers of it reach."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np


def butterfly_reach(n: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """(pattern, reached), boolean (n, n), n a power of two: one layer of the butterfly, and ``layers`` of them."""
    i, j = np.arange(n)[:, None], np.arange(n)
    flipped = i ^ j
    pattern = flipped & (flipped - 1) == 0  # 0 or a power of two: eq. 11.9
    reached = np.eye(n, dtype=bool)
    for _ in range(layers):
        reached = reached @ pattern  # eq. 11.10
    return pattern, reached


def cases() -> list[Case]:
    """From one block to 64, and 512, from no layer to enough."""
    calls = [(1, 1), (2, 1), (4, 1), (4, 0), (4, 2), (8, 2), (8, 3), (16, 1), (16, 3), (16, 4), (32, 2), (64, 6)]
    calls += [(2, 9), (8, 33)]  # more paths than an integer holds
    calls += [(512, 0)]  # more blocks than a byte can number
    return [Case(f"{n} block{'s' * (n > 1)}, {layers} layer{'s' * (layers != 1)}", (n, layers)) for n, layers in calls]

LOOP = """    reached = np.eye(n, dtype=bool)
    for _ in range(layers):
        reached = reached @ pattern  # eq. 11.10
"""

EXERCISE = Exercise(
    lesson="11", stars=2, reference=butterfly_reach, where="eqs. 11.9 and 11.10", cases=cases,
    hints=(
        "i ^ j is the exclusive or; x is 0 or a power of two if x & (x − 1) == 0. That's one layer, eq. 11.9.",
        "Reach is a product of matrices: the identity, times the pattern once for each layer (eq. 11.10).",
        "In NumPy, @ of two boolean arrays is already boolean: a path exists or not. With integers, compare with > 0.",
    ),
    mistakes=(
        Mistake("A block doesn't see itself in your pattern. 0 is in the set of eq. 11.9; without it, an even number "
                "of layers can't reach what's one step away.",
                but("pattern = flipped & (flipped - 1) == 0", "pattern = (flipped & (flipped - 1) == 0) & (i != j)")),
        Mistake("You build a band, or take blocks whose numbers *differ by* a power of two. The butterfly flips one "
                "binary digit: i xor j, not i − j (eq. 11.9). 1 and 2 are neighbors, but differ in two digits.",
                but("i ^ j", "abs(i - j)"),
                but("flipped & (flipped - 1) == 0", "abs(i - j) <= (n.bit_length() - 1) // 2")),
        Mistake("Your reach doesn't grow with the layers. An elementwise product, or power, of 0 and 1 changes "
                "nothing; a path goes through another block, which is a product of matrices: eq. 11.10.",
                but("pattern, reached\n", "pattern, pattern if layers else np.ones_like(pattern)\n"),
                but("pattern, reached\n", "pattern, pattern\n")),
        Mistake("Your number of layers is off by one. After L layers, a path has L steps: Z to the power L, and with "
                "no layers, a block knows itself (eq. 11.10).",
                but("range(layers)", "range(layers + 1)"), but("range(layers)", "range(layers - 1)")),
        Mistake("Your numbers of paths overflow: there are about (1 + log₂ n)^L / n of them, and an integer that "
                "overflows to 0, or below, looks like no path (eq. 11.10). With booleans, @ is boolean.",
                *(but(LOOP, f"    reached = np.linalg.matrix_power(pattern.astype(np.{kind}), layers) > 0\n")
                  for kind in ("uint8", "int8", "int32", "int64"))),
    ),
)
