"""Lesson 26, ★★: keep a guess or replace it, so that the output has the model's distribution; checked exactly."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np

Rows = Sequence[Sequence[Any]]


def accept_guesses(draft: list[int], draft_chances: Rows, chances: Rows, draws: Sequence[Any]) -> list[int]:
    """The kept guesses and one more token: 1 to k + 1 tokens with the model's own distribution.

    ``draft``: k guesses, guess j drawn from draft_chances[j], a list of V probabilities. ``chances``: k + 1 lists, the
    model's, where list j comes after the first j guesses. Chances are Fractions. ``draws``: 2k + 1 independent numbers
    in [0, 1): draws[j] accepts guess j, draws[k + j] replaces it, draws[2k] draws the token after k kept guesses. What
    comes out is checked as a distribution, over all drafts and all draws.
    """
    def drawn(weights: Sequence[Any], u: Any) -> int:  # the token that u in [0, 1) stands for
        rest = u * sum(weights)
        for token, weight in enumerate(weights):
            rest -= weight
            if rest < 0:
                return token
        return len(weights) - 1

    k = len(draft)
    for j, x in enumerate(draft):
        p, q = chances[j], draft_chances[j]
        if draws[j] * q[x] >= p[x]:
            return [*draft[:j], drawn([max(a - b, 0) for a, b in zip(p, q)], draws[k + j])]
    return [*draft, drawn(chances[k], draws[2 * k])]


GRID = [Fraction(2 * i + 1, 8) for i in range(4)]  # every cut of the rule is a multiple of 1/4 in these cases


def law(answer: Callable) -> Callable:
    """The distribution of a round, from two models: the probability of each text of 1, 2, … k + 1 tokens, in order.

    Of the draws that replace a guess or come last, one is used: they may all be the same number.
    """
    def of(p: dict, q: dict, k: int) -> np.ndarray:
        found: dict[tuple, Fraction] = {}
        for draft in itertools.product(range(3), repeat=k):
            rows_q, rows_p = [q[draft[:j]] for j in range(k)], [p[draft[:j]] for j in range(k + 1)]
            weight = math.prod((row[x] for row, x in zip(rows_q, draft)), start=Fraction(1))
            for *accepting, last in itertools.product(GRID, repeat=k + 1) if weight else ():
                out = tuple(int(x) for x in answer(list(draft), rows_q, rows_p, [*accepting, *[last] * (k + 1)]))
                found[out] = found.get(out, 0) + weight / len(GRID) ** (k + 1)
        texts = [text for n in range(1, k + 2) for text in itertools.product(range(3), repeat=n)]
        chances = [float(found.pop(text, 0)) for text in texts]
        return np.array([*chances, float(sum(found.values()))])  # the last: no text of 1 … k + 1 tokens

    return of


def histories(rows: Sequence[tuple[int, int, int]], k: int) -> dict[tuple, list[Fraction]]:
    """A model: one of the rows, in quarters, after each history of up to k tokens, one after the other."""
    texts = [text for n in range(k + 1) for text in itertools.product(range(3), repeat=n)]
    return {text: [Fraction(x, 4) for x in rows[i % len(rows)]] for i, text in enumerate(texts)}


def cases() -> list[Case]:
    """No guess, one, two; a draft that is the model, probabilities of 0 on either side."""
    left, right, even, sure = (2, 1, 1), (1, 1, 2), (1, 2, 1), (4, 0, 0)
    calls = {
        "no guess": ([left], [right], 0),
        "one guess, two models": ([left, even, right, left], [right], 1),
        "one guess; the draft is the model": ([left, right], [left, right], 1),
        "one guess; a token that the model never says": ([(2, 2, 0), left, even, right], [(1, 1, 2)], 1),
        "one guess; a token that the draft never says": ([(1, 1, 2), left, even, right], [(2, 2, 0)], 1),
        "one guess; the draft is sure": ([left, right, even, left], [sure], 1),
        "two guesses, two models": ([left, right, even, sure, left], [right, left, even], 2),
        "two guesses; the draft is sure of the second": ([left], [right, sure, sure, sure], 2),
    }
    return [Case(label, (histories(p, k), histories(q, k), k)) for label, (p, q, k) in calls.items()]


REST = "drawn([max(a - b, 0) for a, b in zip(p, q)], draws[k + j])"
TEST = "draws[j] * q[x] >= p[x]"

EXERCISE = Exercise(
    lesson="26", stars=2, reference=accept_guesses, where="eq. 26.2", cases=cases, run=law,
    hints=(
        "Keep guess x with probability min(1, p(x) / q(x)); a number u in [0, 1) does that: keep it if u·q(x) < p(x).",
        "Where a guess is rejected, its token comes from what the kept guesses have left over, (p − q)₊, and the round "
        "ends there.",
        "After k kept guesses there is one list left, chances[k]: draw from it (eq. 26.2).",
    ),
    mistakes=(
        Mistake("After a rejection you draw from p. The tokens that the draft liked too little have to be made up for: "
                "draw from (p − q)₊ (eq. 26.2).",
                but(REST, "drawn(p, draws[k + j])")),
        Mistake("You keep a guess by q/p. It's p/q: a guess that the draft likes too much must be rejected sometimes "
                "(eq. 26.2).",
                but(TEST, "draws[j] * p[x] >= q[x]")),
        Mistake("You keep a guess only if p(x) ≥ q(x). The others must be kept sometimes, with probability p(x)/q(x) "
                "(eq. 26.2).",
                but(TEST, "p[x] < q[x]")),
        Mistake("Your one number does two jobs: what accepts a guess can't also choose its replacement, because it's "
                "large wherever a guess was rejected (section 2).",
                but("draws[k + j]", "draws[j]"), but("draws[k + j]", "draws[0]")),
        Mistake(phrases.after_wrong_guess("section 2"),
                but(f"return [*draft[:j], {REST}]", f"draft = [*draft[:j], {REST}, *draft[j + 1 :]]")),
    ),
)
