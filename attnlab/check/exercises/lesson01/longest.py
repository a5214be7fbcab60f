"""Lesson 01, ★★: the longest sequence that fits."""

from math import isqrt

from attnlab.check.engine import Case, Exercise


def longest(free_bytes: int, batch: int, heads: int, itemsize: int, copies: int) -> int:
    """Largest N for which ``copies`` score matrices N×N of every head of the batch fit in ``free_bytes``."""
    return isqrt(free_bytes // (batch * heads * itemsize * copies))


def cases() -> list[Case]:
    exact = 2 * 8 * 4 * 3 * 1000**2
    calls = [
        ("1 head, 1 byte, 1 copy, 16 bytes: 4×4 just fits", (16, 1, 1, 1, 1)),
        ("one byte less", (15, 1, 1, 1, 1)),
        ("no room for a single score", (3, 1, 1, 4, 1)),
        ("3 copies of 2 × 8 heads in 4 bytes: exactly N = 1000", (exact, 2, 8, 4, 3)),
        ("one byte less: 999", (exact - 1, 2, 8, 4, 3)),
        ("16 GiB, 96 heads, 2 bytes", (16 * 2**30, 1, 96, 2, 1)),
        ("2**80 bytes: a square root in floating point is too coarse here", (2**80 - 1, 1, 1, 1, 1)),
    ]
    return [Case(label, args) for label, args in calls]


EXERCISE = Exercise(
    "longest", "01", 2, longest, cases,
    hints=(
        "Write the bytes of all matrices as a multiple of N².",
        "N² ≤ free_bytes // (everything else); integers only, no rounding up.",
        "math.isqrt is the integer square root.",
    ),
)
