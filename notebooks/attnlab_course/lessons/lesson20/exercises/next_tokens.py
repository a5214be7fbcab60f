"""Lesson 20, ★★: drawing the next tokens of a batch, and a text that depends on the batch, repaired."""

import itertools

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.serve import uniform

import numpy as np
from numpy import ndarray as Array


def next_tokens(chances: Array, seeds: list[int], positions: list[int]) -> list[int]:
    """One token for each row of ``chances`` (B, V), which sum to 1; request b draws with uniform(seed, 0, position)."""
    tokens = []
    for p, seed, position in zip(chances, seeds, positions):
        u = uniform(seed, 0, position)
        tokens.append(int(np.searchsorted(np.cumsum(p), u, side="right")))  # eq. 20.4
    return tokens


def call(batch: int, vocabulary: int, seeds: list[int], positions: list[int]) -> tuple:
    """Random chances."""
    rng = np.random.default_rng(batch + vocabulary)
    chances = rng.dirichlet(np.ones(vocabulary), size=batch).round(3)
    chances[:, -1] += 1 - chances.sum(1)
    return chances, seeds, positions


def cases() -> list[Case]:
    """One request and several, seeds and positions equal or not; certain tokens, and impossible ones."""
    certain = np.eye(4)[[2, 0, 3]]
    late = next(seed for seed in itertools.count() if uniform(seed, 0, 0) > 0.996)
    edge = np.array([(u, 1 - u) for u in (uniform(9, 0, 2), uniform(9, 0, 3))])
    return [
        Case("one request", call(1, 4, [0], [9])),
        Case("two requests, one seed, positions 5 and 6", call(2, 8, [3, 3], [5, 6])),
        Case("eight requests of 50 tokens", call(8, 50, list(range(8)), list(range(20, 28)))),
        Case("EDGE: the first chance is u itself: the sum must exceed u", (edge, [9, 9], [2, 3])),
        Case("EDGE: the first chance is u + 10⁻⁹, which exceeds u", (edge + np.array([1e-9, -1e-9]), [9, 9], [2, 3])),
        Case("seeds that are 65,536 apart", call(3, 50, [4464, 70_000, 135_536], [5, 5, 5])),
        Case("positions that are 1,024 apart", call(3, 50, [3, 3, 3], [7, 1031, 2055])),
        Case("2,000 tokens of chance 0.0005", (np.full((2, 2000), 1 / 2000), [1, 2], [3, 3])),
        Case("a token of chance 0.995, and the other one is drawn", (np.array([[0.995, 0.005]]), [late], [0])),
        Case("EYE: all chances are 0 or 1", (certain, [1, 2, 3], [0, 0, 0])),
    ]


DRAW, INVERSE = "u = uniform(seed, 0, position)", 'np.searchsorted(np.cumsum(p), u, side="right")'
ONE = "rng = np.random.default_rng(seeds[0]); tokens = []"

EXERCISE = Exercise(
    lesson="20", stars=2, reference=next_tokens, where="eq. 20.4", cases=cases,
    hints=(
        "Run `broken` on one request, and on the same request with another one before it: which line makes the "
        "difference?",
        "Don't remember anything between draws. uniform(seed, 0, position) is a function of the request alone.",
        "The token is the first one at which the sum of the probabilities exceeds u: np.searchsorted(np.cumsum(p), u, "
        "side=\"right\"), eq. 20.4.",
    ),
    mistakes=(
        Mistake("One generator serves the batch: whoever comes first takes the first number, so a text depends on who "
                "else is there (eq. 20.4).",
                but("tokens = []", ONE, DRAW, "u = rng.random()")),
        Mistake("You make a generator for each request, but a new one at each call, so every token of a text is drawn "
                "with the same number. The position belongs in the draw (eq. 20.4).",
                but(DRAW, "u = np.random.default_rng(seed).random()"), but(DRAW, "u = uniform(seed, 0, 0)")),
        Mistake("u is uniform(seed, 0, position), in this order, and no other generator. Without the seed, all "
                "requests draw the same numbers; with the place in the batch, a text changes when another request "
                "leaves (eq. 20.4).",
                but(DRAW, "u = uniform(0, 0, position)"), but(DRAW, "u = uniform(seeds[0], 0, position)"),
                but(DRAW, "u = uniform(seed, len(tokens), position)"), but(DRAW, "u = uniform(seed, position, 0)"),
                but(DRAW, "u = np.random.default_rng([seed, position]).random()")),
        Mistake("You compare u with the probabilities themselves, or with sums that start at the last token. Compare "
                "it with sums that start at the first (eq. 20.4).",
                but("np.cumsum(p)", "np.cumsum(p[::-1])"), but(DRAW, "u = 1 - uniform(seed, 0, position)"),
                but("np.cumsum(p)", "np.sort(p)"), but(INVERSE, "np.argmax(p > u)")),
        Mistake("The token is the *number* of sums that don't exceed u: not one more, and not the first sum that's at "
                "least u, because a u of exactly 0 would draw a token of probability 0 (eq. 20.4).",
                but(INVERSE, f"{INVERSE} + 1"), but('side="right"', 'side="left"')),
    ),
)
