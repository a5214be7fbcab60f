"""Lesson 03, ★★★: softmax and top-k in one pass."""

import heapq
import math
from collections.abc import Callable

from attnlab.check.promises import growth, loads_per_element
from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake
from attnlab.machine import CountingVector

import numpy as np

Answer = tuple[list[int], list[float]]


def softmax_topk(x: CountingVector, k: int) -> Answer:
    """Indices and softmax probabilities of the k largest elements of x, largest first: (indices, probabilities)."""
    m, l, kept = one_pass(x, k)
    return answer_from(kept, lambda score: np.exp(score - m) / l)


def rescaled(l: float, m: float, m_next: float, x: float) -> float:
    return l * np.exp(m - m_next) + np.exp(x - m_next)


def one_pass(
    x: CountingVector, k: int, update: Callable = rescaled, start: tuple[float, float] = (-math.inf, 0.0),
    kept: tuple = (),
) -> tuple[float, float, list[tuple[float, int]]]:
    """m, l and a heap of the k largest scores with their indices."""
    (m, l), heap = start, list(kept)
    for i, score in enumerate(x):
        m_next = max(m, score)
        l = update(l, m, m_next, score)
        m = m_next
        if len(heap) < k:
            heapq.heappush(heap, (score, i))
        elif score > heap[0][0]:
            heapq.heapreplace(heap, (score, i))
    return m, l, heap


def answer_from(kept: list[tuple[float, int]], probability: Callable[[float], float], largest: bool = True) -> Answer:
    kept = sorted(kept, reverse=largest)
    return [i for _, i in kept], [float(probability(score)) for score, _ in kept]


def own_sum(x: CountingVector, k: int) -> Answer:
    m, _, kept = one_pass(x, k)
    total = sum(np.exp(score - m) for score, _ in kept)
    return answer_from(kept, lambda score: np.exp(score - m) / total)


def emitted(x: CountingVector, k: int) -> Answer:
    m, l, heap = -math.inf, 0.0, []
    for i, score in enumerate(x):
        m_next = max(m, score)
        l = rescaled(l, m, m_next, score)
        m = m_next
        item = (score, i, np.exp(score - m))
        if len(heap) < k:
            heapq.heappush(heap, item)
        elif score > heap[0][0]:
            heapq.heapreplace(heap, item)
    heap.sort(reverse=True)
    return [i for _, i, _ in heap], [float(e / l) for *_, e in heap]


def not_rescaled(x: CountingVector, k: int) -> Answer:
    m, l, kept = one_pass(x, k, lambda l, m, m_next, score: l + np.exp(score - m_next))
    return answer_from(kept, lambda score: np.exp(score - m) / l)


def ascending(x: CountingVector, k: int) -> Answer:
    m, l, kept = one_pass(x, k)
    return answer_from(kept, lambda score: np.exp(score - m) / l, largest=False)


def unshifted(exp: Callable[[float], float]) -> Function:
    def wrong(x: CountingVector, k: int) -> Answer:
        _, l, kept = one_pass(x, k, lambda l, m, m_next, score: l + exp(score))
        return answer_from(kept, lambda score: exp(score) / l)

    return wrong


def kept_from_zero(x: CountingVector, k: int) -> Answer:
    m, l, kept = one_pass(x, k, kept=((0.0, 0),) * k)
    return answer_from(kept, lambda score: np.exp(score - m) / l)


def maximum_from_zero(start: float) -> Function:
    def wrong(x: CountingVector, k: int) -> Answer:
        m, l, kept = one_pass(x, k, start=(0.0, start))
        return answer_from(kept, lambda score: np.float64(np.exp(score - m)) / l)

    return wrong


def python_division(x: CountingVector, k: int) -> Answer:
    m, l, kept = one_pass(x, k, start=(0.0, 0.0))
    return answer_from(kept, lambda score: math.exp(score - m) / float(l))


def two_passes(x: CountingVector, k: int) -> Answer:
    m, l, _ = one_pass(x, k)
    _, _, kept = one_pass(x, k)
    return answer_from(kept, lambda score: np.exp(score - m) / l)


def three_passes(x: CountingVector, k: int) -> Answer:
    m = max(x)
    l = sum(np.exp(score - m) for score in x)
    _, _, kept = one_pass(x, k)
    return answer_from(kept, lambda score: np.exp(score - m) / l)


def four_loads(x: CountingVector, k: int) -> Answer:
    max(x)
    return three_passes(x, k)


def collected(x: CountingVector, k: int) -> Answer:
    scores = list(x)
    m = max(scores)
    l = sum(np.exp(score - m) for score in scores)
    kept = heapq.nlargest(k, zip(scores, range(len(scores))))
    return answer_from(kept, lambda score: np.exp(score - m) / l)


def collected_array(x: CountingVector, k: int) -> Answer:
    scores = np.array(list(x))
    e = np.exp(scores - scores.max())
    order = np.argsort(-scores)[:k]
    return order.tolist(), (e[order] / e.sum()).tolist()


def cases() -> list[Case]:
    rng = np.random.default_rng(36)
    calls = {
        "ONE: the single element 5, k = 1": ([5.0], 1),
        "DOWN: (2, 1, 0), k = 2": ([2.0, 1.0, 0.0], 2),
        "UP: (0, 1, 2), k = 2": ([0.0, 1.0, 2.0], 2),
        "(0.5, −1, 2), k = 3: all of them, so the probabilities add up to 1": ([0.5, -1.0, 2.0], 3),
        "LOW: (−800, −801, −799), k = 1": ([-800.0, -801.0, -799.0], 1),
        "HIGH: (1000, 1002, 1001), k = 2": ([1000.0, 1002.0, 1001.0], 2),
        "40 random elements, k = 5": (rng.normal(0, 2, 40), 5),
        "200 random elements, k = 3": (rng.normal(0, 2, 200), 3),
    }
    return [Case(label, (CountingVector(x), k)) for label, (x, k) in calls.items()]


def vector_of(n: int) -> tuple[CountingVector, int]:
    return CountingVector(np.random.default_rng(n).normal(size=n)), 5


EXERCISE = Exercise(
    lesson="03",
    stars=3,
    reference=softmax_topk,
    cases=cases,
    hints=(
        "One loop over enumerate(x). Beside m and l of eq. 3.2, keep the k largest scores so far with their indices.",
        "Keep scores, not exponentials: an exponential would have to be rescaled whenever m moves.",
        "heapq keeps the smallest of the kept scores on top, where a new one can replace it: heappush, heapreplace.",
        "At the end p = e^(score − m) / l for each score kept (eq. 3.8); sort them, largest first.",
    ),
    mistakes=(
        Mistake(
            "Your k probabilities add up to 1: they are divided by their own sum. The denominator of a softmax runs "
            "over *all* elements, which is the l of the pass (eq. 3.8).",
            own_sum,
        ),
        Mistake(
            "You keep e^(x − m) with the maximum as it was when the element arrived. Early elements saw another "
            "maximum, and what you kept was not rescaled with l. Keep the score, and take the exponential at the end "
            "(eq. 3.8).",
            emitted,
        ),
        Mistake(
            "Your l is not rescaled when the maximum moves: for (0, 1, 2) it is 3 instead of 1.503. Multiply it by "
            "e^(m − m') before you add the new term (eq. 3.2).",
            not_rescaled,
        ),
        Mistake("The k probabilities of eq. 3.8 are right, in the wrong order: the largest comes first.", ascending),
        Mistake(
            "You exponentiate unshifted scores, which overflow or vanish. Keep the running maximum and subtract it "
            "(eq. 3.2).",
            unshifted(np.exp), unshifted(math.exp),
        ),
        Mistake(
            "You start with zeros among the k largest. A 0 is a score that nobody had: scores below it never get in. "
            "Start with nothing, or with −∞ (section 1).",
            kept_from_zero,
        ),
        Mistake(
            "You start at m = 0, a score that x never had: where all scores are far below it, l is 0. Start at "
            "(−∞, 0) (eq. 3.2).",
            maximum_from_zero(0.0), maximum_from_zero(1.0), python_division,
        ),
        Mistake(
            "Each element is to be loaded once. Either you pass over x several times, for maximum, sum and top-k, or "
            "you write x[i] several times in one pass: load it into a variable (section 6).",
            two_passes, three_passes, four_loads,
        ),
        Mistake(
            "You copy all of x into memory of your own. One pass with 2k + 2 numbers means forgetting every element "
            "that is not among the k largest (section 6).",
            collected, collected_array,
        ),
    ),
    costs=(
        Cost(loads_per_element(vector_of, 1000), 1, "it loads each element {found:.1f} times"),
        Cost(growth(vector_of, 1000, 2000), 1.3, "its memory grew {found:.1f}× when x doubled, with k the same"),
    ),
)
