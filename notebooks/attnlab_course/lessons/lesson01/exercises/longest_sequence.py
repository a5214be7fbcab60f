"""Lesson 01, ★★: the longest sequence that fits."""

import math

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def longest_sequence(free_bytes: int, batch: int, heads: int, itemsize: int, copies: int) -> int:
    """Largest N for which ``copies`` score matrices N×N of every head of the batch fit in ``free_bytes``."""
    each = batch * heads * itemsize * copies  # bytes of one entry, in all matrices
    return math.isqrt(free_bytes // each)


EXACT = 2 * 8 * 4 * 3 * 1000**2
ROOT = "math.isqrt(free_bytes // each)"
EACH = "You leave out the batch or the heads. Every sequence, and every query head, has its own scores (eq. 1.11)."

EXERCISE = Exercise(
    lesson="01", stars=2, reference=longest_sequence, where="eq. 1.11",
    cases=table(
        ("1 head, 1 byte, 1 copy, 16 bytes: 4×4 just fits", 16, 1, 1, 1, 1),
        ("one byte less", 15, 1, 1, 1, 1),
        ("no room for a single score", 3, 1, 1, 4, 1),
        ("3 copies of 2 × 8 heads in 4 bytes: exactly N = 1000", EXACT, 2, 8, 4, 3),
        ("one byte less: 999", EXACT - 1, 2, 8, 4, 3),
        ("16 GiB, 96 heads, 2 bytes", 16 * 2**30, 1, 96, 2, 1),
        ("2 copies in 1 byte: exactly N = 3", 18, 1, 1, 1, 2),
        ("4 TB, 1 head, 1 byte: two million tokens", 4 * 10**12, 1, 1, 1, 1),
        ("4 copies in 1 byte, one byte less than a million tokens need", 4 * 10**12 - 1, 1, 1, 1, 4),
    ),
    hints=(
        "Write the bytes of all matrices as a multiple of N²: (1.11) times the copies.",
        "N² is at most free_bytes divided by everything else. Take the root and round down.",
        "int(math.sqrt(x)) rounds down, and math.isqrt is the integer square root.",
    ),
    without={
        ROOT: "You divide, but take no root: that's N², the number of scores: N rows and N columns (eq. 1.11).",
        "batch": EACH,
        "heads": EACH,
        "itemsize": phrases.elements("eq. 1.11", what="each score takes itemsize bytes"),
        "copies": "You leave out the copies. An implementation holds several matrices per head at once; eq. 1.11 is "
                  "for one.",
    },
    mistakes=(
        Mistake("You divide the length instead of the memory. The bytes are batch · heads · itemsize · copies · N² "
                "(eq. 1.11): divide first, and take the root of everything at the end.",
                but(ROOT, "math.isqrt(free_bytes) // each"), but(" * copies", "", ROOT, f"{ROOT} // copies"),
                but("itemsize * ", "", ROOT, "math.isqrt(free_bytes // itemsize) // each")),
        Mistake("You count bits. free_bytes, like itemsize, is in bytes already (eq. 1.11).",
                but("* copies", "* copies * 8"), but(ROOT, "math.isqrt(8 * free_bytes // each)")),
        Mistake("You don't round down. N counts tokens, and the matrices of eq. 1.11 have to fit: take the largest "
                "whole number for which they do.",
                but(ROOT, "math.ceil(math.sqrt(free_bytes / each))"), but(ROOT, "round(math.sqrt(free_bytes / each))"),
                but(ROOT, "math.sqrt(free_bytes / each)")),
    ),
)
