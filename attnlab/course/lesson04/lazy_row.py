"""Lesson 04, ★: lazy attention for one query, over a stream of pairs."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attnlab.check.promises import growth
from attnlab.check.exercise import Case, Cost, Exercise, Mistake, Stream

import numpy as np

Pairs = Iterable[tuple[np.ndarray, np.ndarray]]


def lazy_row(q: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Lazy attention of q (D,) over a stream of pairs (key (D,), value (Dv,)) → (Dv,); scale 1/√D. One pass, O(1)."""
    l = o = 0.0
    for k, v in pairs:
        e = np.exp(k @ q / len(q) ** 0.5)
        l, o = l + e, o + e * v
    return o / l


def stream(keys: np.ndarray, values: np.ndarray) -> Stream:
    """The pairs of two arrays, to be read once."""
    return Stream(lambda: zip(keys, values))


def scored(scores: list[float], values: np.ndarray) -> tuple[np.ndarray, Stream]:
    """A query of size 1 whose scores are the numbers given: scale 1, keys = scores."""
    return np.ones(1), stream(np.array(scores)[:, None], values)


def cases() -> list[Case]:
    """ONE, ONES and EYE on scores 0, 1, 2, then random rows."""
    rng = np.random.default_rng(41)
    q, keys, values = rng.normal(size=4), rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    order = [3, 0, 5, 1, 4, 2]
    return [
        Case("ONE: a single pair, so the result is its value", scored([2.0], np.array([[3.0, -1.0]]))),
        Case("ONES: scores 0, 1, 2 and every value 1, so the result is 1", scored([0.0, 1.0, 2.0], np.ones((3, 1)))),
        Case("EYE: scores 0, 1, 2, values the identity: the result is the weights", scored([0.0, 1.0, 2.0], np.eye(3))),
        Case("six random pairs, D = 4: scale 1/2", (q, stream(keys, values))),
        Case("PERM: the same pairs in another order", (q, stream(keys[order], values[order]))),
    ]


def accumulate(step: Callable, finish: Callable, scale: bool = True, start: float = 0.0) -> Callable:
    """A wrong answer: ``step(l, o, s, v)`` for each pair, then ``finish(l, o, n)``."""

    def wrong(q: np.ndarray, pairs: Pairs) -> np.ndarray:
        l, o, n = start, 0.0, 0
        for k, v in pairs:
            l, o = step(l, o, k @ q / (len(q) ** 0.5 if scale else 1), v)
            n += 1
        return finish(l, o, n)

    return wrong


def right(l: Any, o: Any, s: Any, v: Any) -> tuple:
    """The step of (4.2)."""
    return l + np.exp(s), o + np.exp(s) * v


def quotient(l: Any, o: Any, n: int) -> Any:
    """The end of (4.2)."""
    return o / l


def divided(l: Any, o: Any, s: Any, v: Any) -> tuple:
    """Divides after each pair."""
    l = l + np.exp(s)
    return l, (o + np.exp(s) * v) / l


def divided_weight(l: Any, o: Any, s: Any, v: Any) -> tuple:
    """Divides each weight by the sum so far."""
    l = l + np.exp(s)
    return l, o + np.exp(s) / l * v


def keeps_scores(q: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Right, in memory that grows."""
    scores, values = [], []
    for k, v in pairs:
        scores.append(k @ q / len(q) ** 0.5)
        values.append(v)
    e = np.exp(np.array(scores))
    return e @ np.array(values) / e.sum()


def keeps_pairs(q: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Right, in memory that grows."""
    pairs = list(pairs)
    keys, values = np.array([k for k, _ in pairs]), np.array([v for _, v in pairs])
    e = np.exp(keys @ q / len(q) ** 0.5)
    return e @ values / e.sum()


def keeps_only_scores(q: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Right, and appends every exponential to a list."""
    weights, o = [], 0.0
    for k, v in pairs:
        weights.append(np.exp(k @ q / len(q) ** 0.5))
        o = o + weights[-1] * v
    return o / sum(weights)


def long(n: int) -> tuple[np.ndarray, Stream]:
    """A query and a stream of ``n`` random pairs that are made on the way."""

    def made() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(n)
        for _ in range(n):
            yield rng.normal(size=8), rng.normal(size=8)

    return np.random.default_rng(0).normal(size=8), Stream(made)


EXERCISE = Exercise(
    lesson="04", stars=1, reference=lazy_row, cases=cases,
    hints=(
        "Before the loop, set two sums to 0: one of the exponentials, one of the exponentials times the values.",
        "A sum that starts at the number 0.0 takes the shape of the first value that is added to it.",
        "In the loop: e = np.exp(k @ q / len(q) ** 0.5), then add e to the one and e * v to the other.",
        "Divide once, after the loop. Nothing of a pair is needed after its turn.",
    ),
    mistakes=(
        Mistake(
            "You divide inside the loop, by a sum that is not complete yet. In eq. 4.2 l is known only after the last "
            "pair; add up undivided terms and divide once, after the loop.",
            accumulate(divided, lambda l, o, n: o), accumulate(divided_weight, lambda l, o, n: o),
        ),
        Mistake(
            "You divide by l in the loop and once more after it. In eq. 4.2 o is a sum of undivided terms; divide "
            "it once.",
            accumulate(divided, quotient), accumulate(divided_weight, quotient),
        ),
        Mistake(
            "You divide by the number of pairs. The weights e^s add up to l, not to their number: divide by l "
            "(eq. 4.2).",
            accumulate(right, lambda l, o, n: o / n),
        ),
        Mistake(
            "The division at the end is missing. The distributive law moves it out of the sum (eq. 4.1); it still "
            "has to be done, once.",
            accumulate(right, lambda l, o, n: o),
        ),
        Mistake(
            "Your scores are not scaled. They are q·k / √D, as in lesson 01, with D = len(q).",
            accumulate(right, quotient, scale=False),
        ),
        Mistake(
            "You weigh the values with the scores themselves. The weights are their exponentials, in both sums "
            "(eq. 4.2).",
            accumulate(lambda l, o, s, v: (l + s, o + s * v), quotient),
        ),
        Mistake(
            "Your sum of values has no exponentials in it. In eq. 4.2 the value v is added to o with the weight e^s, "
            "the same that is added to l.",
            accumulate(lambda l, o, s, v: (l + np.exp(s), o + v), quotient),
        ),
        Mistake(
            "Your l starts at 1. That is the exponential of an invented score 0, which no key has; an empty sum is 0 "
            "(eq. 4.2).",
            accumulate(right, quotient, start=1.0),
        ),
        Mistake(
            "You keep something of every pair in a list. Constant memory means forgetting: once e^s and e^s·v are "
            "added to the two sums (eq. 4.2), neither the score nor the pair is needed again.",
            keeps_scores, keeps_pairs, keeps_only_scores,
        ),
    ),
    costs=(
        Cost(growth(long, 200, 400), 1.1, "Its memory grew {found:.1f}× when the stream was twice as long; "
             "it should not grow."),
    ),
)
