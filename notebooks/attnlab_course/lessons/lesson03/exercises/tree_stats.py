"""Lesson 03, ★★: summarize chunks independently and join the summaries in the rounds of a tree."""

import math
from collections.abc import Callable
from typing import Any

from attnlab.core.arguments import kind_of
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.library import precise, to_library, to_numpy

import numpy as np

Pair = tuple[Any, Any]
Oplus = Callable[[Pair, Pair], Pair]
CHUNKS, ROUNDS = 13, 4
MANY, MANY_ROUNDS = 64, 6  # a power of two: no chunk is without a partner


def tree_stats(chunks: list[np.ndarray], oplus: Oplus) -> Pair:
    """(m, l) of all numbers in ``chunks``, a list of vectors; ``oplus(a, b)`` is ⊕ for two pairs of vectors (m, l)."""
    m = np.array([chunk.max(initial=-np.inf) for chunk in chunks])
    l = np.array([np.exp(chunk - top).sum() for chunk, top in zip(chunks, m)])
    while len(m) > 1:
        even = len(m) // 2 * 2
        m_next, l_next = oplus((m[:even:2], l[:even:2]), (m[1::2], l[1::2]))
        m, l = np.append(m_next, m[even:]), np.append(l_next, l[even:])
    return (m[0], l[0]) if len(m) else (-math.inf, 0.0)


def plain(a: Pair, b: Pair) -> Pair:
    """⊕ for two pairs of arrays of any library, or of numbers."""
    (m_a, l_a), (m_b, l_b) = ([np.asarray(to_numpy(x), float) for x in pair] for pair in (a, b))
    m = np.maximum(m_a, m_b)
    shift = np.where(m == -np.inf, 0, m)
    joined = m, l_a * np.exp(m_a - shift) + l_b * np.exp(m_b - shift)
    return to_library(joined, kind_of(a[0]) or "numpy")


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


def used(answer: Function, library: str, count: int) -> tuple[int, int]:
    """How often an answer calls oplus for ``count`` chunks, and how many pairs that joins."""
    chunks, sizes = list(np.random.default_rng(35).normal(size=(count, 2))), []

    def oplus(a: Pair, b: Pair) -> Pair:
        m, l = plain(a, b)
        sizes.append(np.size(to_numpy(l)))
        return m, l

    with precise(library):
        answer(to_library(chunks, library), oplus)
    return len(sizes), sum(sizes)


OFTEN = "{} chunks took {{found:.0f}} calls of oplus, a tree has {{limit}} rounds"
ALONE = "np.append(m_next, m[even:])", "m_next", "np.append(l_next, l[even:])", "l_next"

EXERCISE = Exercise(
    lesson="03", stars=2, reference=tree_stats, cases=cases, where="eq. 3.6",
    costs=(
        Cost(lambda f, library: max(0, CHUNKS - 1 - used(f, library, CHUNKS)[1]), 0,
             f"{{found:.0f}} of the {CHUNKS - 1} joins of {CHUNKS} chunks weren't made by oplus: summarize each chunk "
             "by itself, then join the summaries"),
        Cost(lambda f, library: used(f, library, CHUNKS)[0], ROUNDS, OFTEN.format(CHUNKS)),
        Cost(lambda f, library: used(f, library, MANY)[0], MANY_ROUNDS, OFTEN.format(MANY)),
    ),
    hints=(
        "First two vectors: each chunk's own maximum, and the sum of e^(x − that maximum). A chunk without elements is "
        "(−∞, 0) or can be left out.",
        "Then rounds: one call joins all neighbors, which halves the vectors. m[::2] are the left partners, m[1::2] "
        "the right ones.",
        "With an odd number, one pair has no partner: it waits, unchanged, for the next round. No chunks give (−∞, 0).",
    ),
    without={
        "top": "Each chunk's sum has to be shifted by that chunk's own maximum, as oplus expects (eq. 3.1): the sum of "
               "e^(x − m), not of e^x.",
        "initial=-np.inf": "A chunk without elements has no largest element, so .max() raises. Its summary is the "
                           "identity (−∞, 0), or you leave the chunk out (eq. 3.5).",
        "(-math.inf, 0.0)": "Without any chunks, there's nothing to join: the answer is the identity (−∞, 0) (eq. "
                            "3.5).",
    },
    mistakes=(
        Mistake("With an odd number of summaries, the last one has no partner. Don't lose it, and don't give it one "
                "that is taken: it waits for the next round (section 4).",
                but(*ALONE), but(*ALONE, "m[:even:2], l[:even:2]", "m[::2], l[::2]")),
        Mistake("With an odd number of summaries, you join the last one with itself, so its elements count twice. ⊕ "
                "isn't idempotent: let it wait for the next round, or join it with (−∞, 0) (eq. 3.5).",
                but("l[even:]", "2 * l[even:]")),
        Mistake("The values are right, but you join one pair of summaries at a time, so each call waits for others. "
                "Give oplus all left partners at once, and all right ones (eq. 3.6).",
                but("len(m) // 2 * 2", "2", "(m[1::2], l[1::2])", "(m[1:2], l[1:2])")),
    ),
)
