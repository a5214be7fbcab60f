"""Lesson 05, ★★: the chunk of keys with which several workers hold least."""

import math
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table

import numpy as np

WITHIN = 1.01


def best_chunk(M: int, Dv: int, W: int) -> int:
    """The chunk size Ck, from 1 to M / W, with which W workers, who fill one list, hold least, or 1 % more."""
    root = (M * (Dv + 2) / W) ** 0.5  # eq. 5.8 for W Ck + (M / Ck)(Dv + 2)
    return min(round(root), M // W)


def judge(case: Case, got: Any) -> str | None:
    """None if the chunk size is as good as the best, by the plain formula or with whole chunks."""
    m, dv, w = case.args
    try:
        ck = int(got) if np.ndim(got) == 0 and int(got) == got else None
    except (TypeError, ValueError, OverflowError):
        ck = None
    if ck is None or not 1 <= ck <= m // w:
        return f"a chunk size is a whole number from 1 to M / W = {m} / {w}; got {got}"

    def held(chunk: int, whole: bool) -> float:
        """Numbers per query: W chunks of scores, and the summaries of M / Ck chunks, rounded up if they're whole."""
        return w * chunk + (-(-m // chunk) if whole else m / chunk) * (dv + 2)

    sizes = range(1, m // w + 1) if m <= 5000 else [-(-m // c) for c in range(w, math.isqrt(m))]
    best, best_whole = best_chunk(m, dv, w), min(sizes, key=lambda size: held(size, True))
    if held(ck, False) <= WITHIN * held(best, False) or held(ck, True) <= WITHIN * held(best_whole, True):
        return None
    number, digits = held(ck, False), 2 if m < 100 else 0
    return (f"Ck = {ck} holds {number:.{digits}f} numbers per query: {w * ck} scores, and "
            f"{number - w * ck:.{digits}f} in summaries. Too {'few' if ck < best else 'many'} keys per chunk: {best} "
            f"would hold {held(best, False):.{digits}f}.")


EXERCISE = Exercise(
    lesson="05", stars=2, reference=best_chunk, judge=judge, where="eq. 5.8",
    cases=table(
        ("ONE: a single key, values of size 1, one worker", 1, 1, 1),
        ("M = 300, Dv = 1, W = 1: a summary has 3 numbers, the least is at 30", 300, 1, 1),
        ("M = 100, Dv = 1, W = 1: the least is at 17", 100, 1, 1),
        ("M = 300, Dv = 1, W = 3: three tiles, the least is at 17", 300, 1, 3),
        ("M = 5, Dv = 1, W = 1: few keys, the root is 3.9", 5, 1, 1),
        ("M = 6, Dv = 1, W = 1: the root is 4.2", 6, 1, 1),
        ("M = 20, Dv = 64, W = 1: the formula's optimum, 36, is longer than the keys", 20, 64, 1),
        ("M = 43, Dv = 64, W = 4: the root is 27, and no worker gets more than 10 keys", 43, 64, 4),
        ("M = 4096, Dv = 64, W = 1: the size of a real head", 4096, 64, 1),
        ("M = 2000, Dv = 64, W = 4: half way between two powers of two", 2000, 64, 4),
        ("M = 100,003, W = 8: a prime number of keys", 100_003, 64, 8),
        ("M = 2²⁰, Dv = 64, W = 16: Table 2's longest row", 2**20, 64, 16),
    ),
    hints=(
        "Per query, W rows of Ck scores and M / Ck summaries: write down (5.7) again, with W. One term grows with Ck, "
        "the other falls. At the minimum, the derivative with respect to Ck is 0.",
        "The derivative is W − M(Dv + 2) / Ck². At the minimum both terms are equal, as in eq. 5.8.",
        "Round to a whole number with round(…), not to a power of two: that alone can cost 6%. With few keys, the root "
        "is larger than what a worker gets: min(…, M // W).",
    ),
    without=dict.fromkeys(
        ("2", "Dv"), "A summary holds m, l and the output o, which is a whole value: Dv + 2 numbers (eq. 5.6)."
    ),
    mistakes=(
        Mistake("√M would be right if a summary cost one number per query. It costs Dv + 2: the output has Dv of them, "
                "plus m and l. See eq. 5.8; at M = 2²⁰ and Dv = 64, √M holds 4.1 times the minimum.",
                but("M * (Dv + 2)", "M"), but("M * (Dv + 2)", "M", "round", "int"), but("M * (Dv + 2) / W", "M")),
        Mistake("Each of the W workers holds a tile of its own, so the scores are W · Ck numbers. Set the derivative "
                "of W · Ck + (M / Ck)(Dv + 2) to 0 and solve it for Ck, as section 3 did for one worker. Four times "
                "the workers make a chunk half as long.",
                *(but("(Dv + 2) / W) ** 0.5", root)
                  for root in ("(Dv + 2)) ** 0.5", "(Dv + 2) * W) ** 0.5", "(Dv + 2)) ** 0.5 / W"))),
        Mistake("You round to a power of two, as the package does, because that makes round tile sizes. It can cost up "
                "to 6% of the minimum; here we ask for 1%. See eq. 5.8.",
                but("round(root)", "2 ** round(math.log2(root))")),
        Mistake("With few keys, the root is larger than M / W: some workers would be left without a chunk. See eq. "
                "5.8, and limit it to 1 ≤ Ck ≤ M / W.",
                but("min(round(root), M // W)", "round(root)"), but("min(round(root), M // W)", "math.ceil(root)"),
                but("M // W", "M")),
        Mistake("You always round the root down, or always up. With few keys, the whole number on its other side can "
                "hold over 1% less: round to the nearest (eq. 5.8).",
                but("round(root)", "math.floor(root)"), but("round(root)", "math.ceil(root)")),
    ),
)
