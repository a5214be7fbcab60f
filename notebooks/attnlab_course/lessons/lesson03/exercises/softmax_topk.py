"""Lesson 03, ★★★: softmax and top-k in one pass."""

import math
from collections.abc import Callable
from functools import partial

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.inputs import score_rows
from attnlab_course.checker.promises import growth, loads_per_element
from attnlab_course.instruments.machine import CountingVector

import numpy as np


def softmax_topk(x: CountingVector, k: int) -> tuple[list[int], list[float]]:
    """Indices and softmax probabilities of the k largest elements of x, largest first: (indices, probabilities)."""
    import heapq

    m, l, kept = -math.inf, 0.0, []
    for i, score in enumerate(x):
        m_next = max(m, score)
        l = l * np.exp(m - m_next) + np.exp(score - m_next)  # eq. 3.2
        m = m_next
        if len(kept) < k:
            heapq.heappush(kept, (score, i))
        elif score > kept[0][0]:
            heapq.heapreplace(kept, (score, i))
    kept.sort(reverse=True)
    return [i for _, i in kept], [float(np.exp(score - m) / l) for score, _ in kept]  # eq. 3.8


def cases() -> list[Case]:
    """The largest first, last, between; far from 0; more elements than are kept."""
    rng = np.random.default_rng(36)

    def call(k: int) -> Callable[[list[float]], tuple]:
        return lambda x: (CountingVector(x), k)

    return [
        *score_rows(call(1), "ONE", "DOWN", "LOW", about=", k = 1"),
        *score_rows(call(2), "UP", "DOWN", "HIGH", about=", k = 2"),
        Case("(0.5, −1, 2), k = 3: all of them, so the probabilities add up to 1", call(3)([0.5, -1.0, 2.0])),
        Case("(0, −900, −800), k = 2: of two chances of 0 the score says which is larger", call(2)([0.0, -900, -800])),
        Case("40 random elements, k = 5", call(5)(rng.normal(0, 2, 40))),
    ]


def vector_of(n: int, k: int = 5) -> tuple[CountingVector, int]:
    """``n`` random elements, of which ``k`` are asked for."""
    return CountingVector(np.random.default_rng(n).normal(size=n)), k


def rising(n: int) -> tuple[CountingVector, int]:
    """``n`` elements, each larger than all before it, of which five are asked for."""
    return CountingVector(np.arange(float(n))), 5


AGAIN = ("        if len(kept)", "    for i, score in enumerate(x):\n        if len(kept)")
START = "-math.inf, 0.0, []"

EXERCISE = Exercise(
    lesson="03", stars=3, reference=softmax_topk, cases=cases, where="eq. 3.2",
    costs=(
        Cost(loads_per_element(vector_of, 1000), 1, "it loads each element {found:.1f} times"),
        Cost(growth(vector_of, 1000, 2000), 1.3, "its memory grew {found:.1f}× when x doubled, with k the same"),
        Cost(growth(partial(vector_of, k=100), 100, 2000), 3,
             "with k = 100 it held {found:.1f} times as much for 2000 elements as for 100: more than the k largest"),
        Cost(growth(rising, 300, 600), 1.3, "its memory grew {found:.1f}× when x doubled, where each element is "
             "larger than all before it: what's no longer among the k largest is forgotten"),
    ),
    hints=(
        "One loop over enumerate(x). Along with m and l of eq. 3.2, keep the k largest scores so far with their "
        "indices. Scores, not exponentials: an exponential would have to be rescaled whenever m moves.",
        "heapq keeps the smallest of the kept scores on top, where a new one can replace it: heappush, heapreplace.",
        "At the end, p = e^(score − m) / l for each score kept (eq. 3.8); sort them, largest first.",
    ),
    without={
        "np.exp(m - m_next)": phrases.rescales_nothing("eq. 3.2", sums="l is", factor="e^(m − m')"),
        "reverse=True": "The k probabilities of eq. 3.8 are right, but in the wrong order: the largest comes first.",
    },
    mistakes=(
        Mistake("Your k probabilities add up to 1: they're divided by their own sum. The denominator of a softmax "
                "runs over *all* elements, which is the l of the pass (eq. 3.8).",
                but("/ l)", "/ sum(np.exp(other - m) for other, _ in kept))")),
        Mistake("You keep e^(x − m) with the maximum as it was when the element arrived. Early elements saw a "
                "different maximum, and what you kept wasn't rescaled along with l. Keep the score, and take the "
                "exponential at the end (eq. 3.8).",
                but("(score, i)", "(score, i, np.exp(score - m))", "for _, i in kept", "for _, i, _ in kept",
                    "float(np.exp(score - m) / l) for score, _ in", "float(e / l) for *_, e in")),
        Mistake("You start with zeros among the k largest. A 0 is an invented score: real ones below it never get in. "
                "Start with nothing, or with −∞ (section 1).",
                but(START, "-math.inf, 0.0, k * [(0.0, 0)]")),
        Mistake("Load each element only once. Either you pass over x several times, for maximum, sum and top-k, or you "
                "write x[i] several times in one pass: load it into a variable (section 5).",
                but(*AGAIN), but(START, "max(x), 0.0, []", *AGAIN),
                but(START, "max(x), 0.0, []", *AGAIN, "np.exp(score - m_next)", "np.exp(x[i] - m_next)")),
        Mistake("You copy all of x into your own memory. One pass with 2k + 2 numbers means forgetting every element "
                "that isn't among the k largest (section 5).",
                but("enumerate(x)", "enumerate(list(x))")),
    ),
)
