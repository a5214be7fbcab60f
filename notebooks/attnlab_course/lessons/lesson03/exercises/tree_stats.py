"""Lesson 03, ★★: summarize chunks independently and join the summaries in a tree."""

import math
from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.library import precise, to_library

import numpy as np

Pair = tuple[Any, Any]
Oplus = Callable[[Pair, Pair], Pair]
CHUNKS, DEPTH = 13, 4
MANY, MANY_DEPTH = 64, 6  # a power of two: no chunk is without a partner


def tree_stats(chunks: list[np.ndarray], oplus: Oplus) -> Pair:
    """(m, l) of all numbers in ``chunks``, a list of vectors; ``oplus(a, b)`` combines two pairs of numbers (m, l)."""
    pairs = [(m := chunk.max(initial=-np.inf), np.exp(chunk - m).sum()) for chunk in chunks]
    while len(pairs) > 1:
        alone = pairs[len(pairs) // 2 * 2 :]
        pairs = [oplus(a, b) for a, b in zip(pairs[::2], pairs[1::2])] + alone
    return pairs[0] if pairs else (-math.inf, 0.0)


def plain(a: Pair, b: Pair) -> Pair:
    """⊕ for two pairs of numbers."""
    (m_a, l_a), (m_b, l_b) = ((float(m), float(l)) for m, l in (a, b))
    m = max(m_a, m_b)
    if m == -math.inf:
        return m, 0.0
    return m, l_a * math.exp(m_a - m) + l_b * math.exp(m_b - m)


def cases() -> list[Case]:
    """Numbers of chunks with and without a rest; empty chunks, and none at all."""
    rng = np.random.default_rng(34)
    vectors = {
        "EMPTY: no chunk at all": [],
        "ONE: a single chunk, (0, 2)": [[0, 2]],
        "UP: two chunks, (0, 2) and (5)": [[0, 2], [5]],
        "EMPTY: a single chunk without elements": [[]],
        "RAGGED: three chunks, (0), (1) and (2): one has no partner in the first round": [[0], [1], [2]],
        "LOW: three chunks, (−100000, −100001), (−100002) and (−100003)": [[-100000, -100001], [-100002], [-100003]],
        "HIGH: two chunks, (1000, 1001) and (999)": [[1000, 1001], [999]],
        "EMPTY: three chunks, (−1), () and (−2)": [[-1], [], [-2]],
        "five random chunks of 3": rng.normal(0, 2, (5, 3)),
        "RAGGED: seven random chunks, the last one shorter": [*rng.normal(0, 2, (6, 3)), rng.normal(0, 2, 1)],
    }
    return [Case(label, ([np.array(chunk, float) for chunk in found], plain)) for label, found in vectors.items()]


class Recorder:
    """⊕ that counts its calls and knows how deep each result is; every set of chunks here has a sum of its own.

    The first chunk is as long as all others together, by elements whose exponentials are 0: a tree that is balanced by
    elements, and not by chunks, is too deep.
    """

    def __init__(self, count: int) -> None:
        weights = np.random.default_rng(35).uniform(0.1, 0.9, count)
        self.chunks = [np.array([0.0, math.log(w), *[-800.0] * (0 if i else 2 * count)])
                       for i, w in enumerate(weights)]
        self.calls, self.depth = 0, dict[float, int]()

    def oplus(self, a: Pair, b: Pair) -> Pair:
        """a ⊕ b."""
        m, l = plain(a, b)
        self.calls += 1
        self.depth[round(l, 6)] = 1 + max(self.depth.get(round(float(part[1]), 6), 0) for part in (a, b))
        return m, l


def recorded(answer: Function, library: str, count: int) -> tuple[int, float]:
    """Calls of oplus in one call with ``count`` chunks, and the depth of the result: one after the other."""
    recorder = Recorder(count)
    with precise(library):
        _, l = answer(to_library(recorder.chunks, library), recorder.oplus)
    return recorder.calls, float(recorder.depth.get(round(float(l), 6), 0))


DEEP = "{} chunks were joined at depth {{found:.0f}}, a tree has depth {{limit}}"
ROUND = "[oplus(a, b) for a, b in zip(pairs[::2], pairs[1::2])] + alone", "[oplus(*pairs[:2]), *pairs[2:]]"

EXERCISE = Exercise(
    lesson="03", stars=2, reference=tree_stats, cases=cases,
    costs=(
        Cost(lambda f, library: max(0.0, CHUNKS - 1 - recorded(f, library, CHUNKS)[0]), 0,
             f"{{found:.0f}} of the {CHUNKS - 1} joins of {CHUNKS} chunks weren't made by oplus: summarize each chunk "
             "by itself, then join the summaries"),
        Cost(lambda f, library: recorded(f, library, CHUNKS)[1], DEPTH, DEEP.format(CHUNKS)),
        Cost(lambda f, library: recorded(f, library, MANY)[1], MANY_DEPTH, DEEP.format(MANY)),
    ),
    hints=(
        "First a list of pairs: each chunk's own maximum, and the sum of e^(x − that maximum). A chunk without "
        "elements is (−∞, 0) or can be left out.",
        "Then rounds: join neighbors, which halves the list. pairs[::2] are the left partners, pairs[1::2] the right.",
        "With an odd number, one pair has no partner: it waits, unchanged, for the next round. No chunks give (−∞, 0).",
    ),
    without={
        "m": "Each chunk's sum has to be shifted by that chunk's own maximum, as oplus expects (eq. 3.1): the sum of "
             "e^(x − m), not of e^x.",
        "alone": "With an odd number of summaries, you lose the last one: zip stops at the shorter list. It has no "
                 "partner in this round and has to wait for the next (section 4).",
        "initial=-np.inf": "A chunk without elements has no largest element, so .max() raises. Its summary is the "
                           "identity (−∞, 0), or you leave the chunk out (eq. 3.5).",
        "(-math.inf, 0.0)": "Without any chunks, there's nothing to join: the answer is the identity (−∞, 0) (eq. "
                            "3.5).",
    },
    mistakes=(
        Mistake("With an odd number of summaries, you join the last one with itself, so its elements count twice. ⊕ "
                "isn't idempotent: let it wait for the next round, or join it with (−∞, 0) (eq. 3.5).",
                but("alone\n", "[oplus(a, a) for a in alone]\n")),
        Mistake("The values are right, but each oplus waits for the one before: this is a fold, of depth C − 1. Join "
                "neighbors first, then neighbors among the results (eq. 3.6).",
                but(*ROUND), but(*ROUND, "pairs = [(m", "pairs = [(-math.inf, 0.0)] + [(m")),
    ),
)
