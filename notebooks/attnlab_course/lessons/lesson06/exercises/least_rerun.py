"""Lesson 06, ★★: what to recompute, and in which chunks, for a given memory."""

from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table

import numpy as np

NOTHING, SUMMARIES, QUERY_CHUNKS = WAYS = range(3)


def least_rerun(n: int, D: int, budget: int) -> tuple[int, int, int]:
    """(checkpointed, Cq, Ck) of a training step that holds at most ``budget`` numbers and reruns as little as it can.

    ``checkpointed`` is 0 for nothing, 1 for the summaries, which run again, 2 for query chunks, where both run again.
    Cq and Ck are powers of two from 16 to n, which needn't be one. n queries, n keys, Dv = D. Beyond q, k and v a step
    holds

    - for 0 and 1, what is kept between forward and backward: the count of the exercise before;
    - for 2, what 1 keeps of the one query chunk that runs again: as much, for Cq queries instead of n;
    - three tiles of Cq × Ck.
    """
    sizes = [2**p for p in range(4, n.bit_length())]
    for way in WAYS:
        for Cq in sizes:
            for Ck in sizes:
                if held(n, D, way, Cq, Ck) <= budget:
                    return way, Cq, Ck
    raise ValueError("nothing fits")


def held(n: int, D: int, way: int, Cq: int, Ck: int) -> int:
    """Numbers of a step."""
    rows = Cq if way == QUERY_CHUNKS else n
    weights = n * n if way == NOTHING else 0
    return weights + rows * (-(-n // Ck) + 1 + D) + 3 * Cq * Ck


def judge(case: Case, got: Any) -> str | None:
    """None if it fits, and nothing that reruns less would."""
    n, D, budget = case.args
    if len(got) != 3 or any(np.shape(x) for x in got) or got[0] not in WAYS:
        return f"expected (checkpointed, Cq, Ck), checkpointed 0, 1 or 2; got {got}"
    way, *sizes = (int(x) for x in got)
    if any(size not in [2**p for p in range(4, n.bit_length())] for size in sizes):
        return f"chunk sizes are powers of two from 16 to {n}; got {sizes}"
    best, found = least_rerun(n, D, budget), held(n, D, way, *sizes)
    if found > budget:
        return f"{way} with chunks of {sizes[0]} queries and {sizes[1]} keys holds {found:,} numbers of {budget:,}."
    if way > best[0]:
        return f"it fits, but so does {best[0]} with chunks of {best[1]} and {best[2]}, which reruns less."
    return None


SMALLEST, CHUNK = (min(held(1000, 64, way, 16, 2**p) for p in range(4, 10)) for way in (SUMMARIES, QUERY_CHUNKS))

EXERCISE = Exercise(
    lesson="06", stars=2, reference=least_rerun, judge=judge, where="eq. 6.8",
    cases=table(
        ("n = 1000: just enough to keep everything", 1000, 64, 1000**2 + SMALLEST),
        ("n = 1000: a number less", 1000, 64, 1000**2 + SMALLEST - 1),
        ("n = 1000: just enough for all rows", 1000, 64, SMALLEST),
        ("n = 1000: a number less than for all rows", 1000, 64, SMALLEST - 1),
        ("n = 1000: just enough for a chunk", 1000, 64, CHUNK),
        ("n = 4096, D = 128: 100,000 numbers", 4096, 128, 10**5),
        ("n = 65,536: ten million", 65_536, 64, 10**7),
        ("n = 65,536: 20,000 numbers, which small chunks of keys don't fit", 65_536, 64, 20_000),
        ("n = 16", 16, 1, 16 * 16 + 16 * 3 + 3 * 256),
    ),
    hints=(
        "Try the ways in order of what they rerun, and for each, all pairs of sizes. The first that fits is right.",
        "held = n² for 0, + rows · (⌈n / Ck⌉ + 1 + D) + 3 Cq Ck, where rows is Cq for 2 and n otherwise.",
    ),
    without={
        "weights": "You forget the weights, which autodiff keeps if nothing is checkpointed (section 3).",
        "3 * Cq * Ck": "You forget the tiles at hand (section 4).",
    },
    mistakes=(
        Mistake("You always rerun everything, which costs time where there's enough memory (section 5).",
                but("for way in WAYS", "for way in WAYS[2:]")),
        Mistake("You never rerun the query chunks: the factors and rows of long texts are too much (eq. 6.8).",
                but("for way in WAYS", "for way in WAYS[:2]")),
        Mistake("You use one rule for the chunks of keys. If they're small, the factors n ⌈n / Ck⌉ grow like n²; if "
                "they're as long as the text, a tile is just as wide, and three of them may not fit (eq. 6.8).",
                but("for Ck in sizes", "for Ck in sizes[:1]"), but("for Ck in sizes", "for Ck in sizes[-1:]")),
    ),
)
