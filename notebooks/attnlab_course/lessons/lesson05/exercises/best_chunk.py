"""Lesson 05, ★★: the chunk of keys that holds least."""

import math
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table

import numpy as np

WITHIN = 1.01


def best_chunk(M: int, Dv: int) -> int:
    """The chunk size Ck, from 1 to M, at which Ck + (M / Ck)(Dv + 2) is least, or within 1 % of it."""
    root = (M * (Dv + 2)) ** 0.5  # eq. 5.8
    return min(round(root), M)


def judge(case: Case, got: Any) -> str | None:
    """None if the chunk size is as good as the best, by the plain formula or with whole chunks."""
    m, dv = case.args
    try:
        ck = int(got) if np.ndim(got) == 0 and int(got) == got else None
    except (TypeError, ValueError, OverflowError):
        ck = None
    if ck is None or not 1 <= ck <= m:
        return f"a chunk size is a whole number from 1 to M = {m}; got {got}"

    def held(chunk: int, whole: bool) -> float:
        """Numbers per query: a chunk of scores, and the summaries of M / Ck chunks, rounded up if they're whole."""
        return chunk + (-(-m // chunk) if whole else m / chunk) * (dv + 2)

    sizes = range(1, m + 1) if m <= 5000 else [-(-m // c) for c in range(1, math.isqrt(m))]
    best, best_whole = best_chunk(m, dv), min(sizes, key=lambda size: held(size, True))
    if held(ck, False) <= WITHIN * held(best, False) or held(ck, True) <= WITHIN * held(best_whole, True):
        return None
    number, digits = held(ck, False), 2 if m < 100 else 0
    return (f"Ck = {ck} holds {number:.{digits}f} numbers per query: {ck} scores, and {number - ck:.{digits}f} in "
            f"summaries. Too {'few' if ck < best else 'many'} keys per chunk: {best} would hold "
            f"{held(best, False):.{digits}f}.")


EXERCISE = Exercise(
    lesson="05", stars=2, reference=best_chunk, judge=judge, where="eq. 5.8",
    cases=table(
        ("ONE: a single key, values of size 1", 1, 1),
        ("M = 300, Dv = 1: a summary has 3 numbers, the least is at 30", 300, 1),
        ("M = 100, Dv = 1: the least is at 17", 100, 1),
        ("M = 5, Dv = 1: few keys, the root is 3.9", 5, 1),
        ("M = 6, Dv = 1: the root is 4.2", 6, 1),
        ("M = 20, Dv = 64: the formula's optimum, 36, is longer than the keys", 20, 64),
        ("M = 4096, Dv = 64: the size of a real head", 4096, 64),
        ("M = 2000, Dv = 64: half way between two powers of two", 2000, 64),
        ("M = 100,003: a prime number of keys", 100_003, 64),
        ("M = 2²⁰, Dv = 64: Table 2's longest row", 2**20, 64),
    ),
    hints=(
        "Two terms: one grows with Ck, the other falls. At the minimum, the derivative with respect to Ck is 0.",
        "The derivative is 1 − M(Dv + 2) / Ck². At the minimum both terms are equal (eq. 5.8).",
        "Round to a whole number with round(…), not to a power of two: that alone can cost 6%. With few keys, the root "
        "is larger than M; one chunk can't hold more keys than there are: min(…, M).",
    ),
    without=dict.fromkeys(
        ("2", "Dv"), "A summary holds m, l and the output o, which is a whole value: Dv + 2 numbers (eq. 5.6)."
    ),
    mistakes=(
        Mistake("√M would be right if a summary cost one number per query. It costs Dv + 2: the output has Dv of them, "
                "plus m and l. See eq. 5.8; at M = 2²⁰ and Dv = 64, √M holds 4.1 times the minimum.",
                but("M * (Dv + 2)", "M"), but("M * (Dv + 2)", "M", "round", "int")),
        Mistake("You round to a power of two, as the package does, because that makes round tile sizes. It can cost up "
                "to 6% of the minimum; here we ask for 1%. See eq. 5.8.",
                but("round(root)", "2 ** round(math.log2(root))")),
        Mistake("With few keys, √(M(Dv + 2)) is larger than M: a chunk can't hold more keys than there are. See eq. "
                "5.8, which is meant for 1 ≤ Ck ≤ M.",
                but("min(round(root), M)", "round(root)"), but("min(round(root), M)", "math.ceil(root)")),
        Mistake("You always round the root down, or always up. With few keys, the whole number on its other side can "
                "hold over 1% less: round to the nearest (eq. 5.8).",
                but("round(root)", "math.floor(root)"), but("round(root)", "math.ceil(root)")),
        Mistake("√(M/(Dv + 2)) is the best *number* of chunks, M / Ck; we ask for their size. See eq. 5.8.",
                but("M * (Dv + 2)", "M / (Dv + 2)", "round(root)", "max(round(root), 1)")),
    ),
)
