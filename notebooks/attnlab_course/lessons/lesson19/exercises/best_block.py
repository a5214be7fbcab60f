"""Lesson 19, ★★: which block size to take, judged by the tokens per second that it costs."""

from typing import Any

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table

import numpy as np


def best_block(
    lengths: list[int], slots: int, sizes: list[int], weights: float, page: float, token: float
) -> int:
    """The block size, one of ``sizes``, with the most tokens per second.

    A pool of ``slots`` slots is cut into whole blocks. Requests of these ``lengths`` are admitted in order, each with
    blocks for all its tokens, up to the first that doesn't fit; the others wait. A step brings each admitted request
    one token and takes ``weights`` seconds, ``page`` seconds for each block and ``token`` seconds for each token that
    it reads. If nobody fits, there are 0 tokens per second. Of equally good sizes any is right.
    """
    best, found = -1.0, sizes[0]
    for size in sizes:
        free, running, seconds = slots // size, 0, weights
        for n in lengths:
            blocks = -(-n // size)
            if blocks > free:
                break
            free, running = free - blocks, running + 1
            seconds += blocks * page + n * token
        if running / seconds > best:
            best, found = running / seconds, size
    return found


def rate(case: Case, size: int) -> float:
    """Tokens per second of a block size: what the best of this size alone gives."""
    lengths, slots, _, weights, page, token = case.args
    free, running, seconds = slots // size, 0, weights
    for n in lengths:
        if -(-n // size) > free:
            break
        free, running, seconds = free - -(-n // size), running + 1, seconds + -(-n // size) * page + n * token
    return running / seconds


def judge(case: Case, got: Any) -> str | None:
    """What a choice costs."""
    sizes = case.args[2]
    if np.ndim(got) or got not in sizes:
        return f"expected one of the sizes {sizes}, got {got!r}."
    ours, best = rate(case, int(got)), rate(case, best_block(*case.args))
    if ours < best * (1 - 1e-9):
        return f"blocks of {int(got)} give {ours:,.1f} tokens per second; {best:,.1f} are possible."
    return None


POWERS, LONG = [1, 2, 4, 8, 16, 32, 64, 128, 256], np.random.default_rng(0).integers(20, 900, 80).tolist()
SHORT = np.random.default_rng(1).integers(1, 60, 200).tolist()
BETTER = "running / seconds > best"

EXERCISE = Exercise(
    lesson="19", stars=2, reference=best_block, where="eq. 19.3", judge=judge,
    cases=table(
        ("one request, no cost per block: all are as good", [5], 64, [1, 4, 16], 1.0, 0.0, 0.0),
        ("one request, blocks cost: the largest that fits", [5], 64, [1, 4, 16, 128], 1.0, 1.0, 0.0),
        ("blocks cost nothing: the smallest holds the most requests", [5] * 20, 64, [4, 8, 16], 1.0, 0.0, 0.0),
        ("a pool that isn't a multiple of the larger size", [8] * 9, 63, [7, 16], 1.0, 0.0, 0.0),
        ("a long request stops those behind it", [4, 100, 4, 4], 64, [2, 4], 1.0, 0.01, 0.0),
        ("the last slot is filled exactly", [16] * 4 + [1], 64, [3, 16], 1.0, 0.0, 0.0),
        ("long texts, blocks that cost a microsecond each", LONG, 16_000, POWERS, 13e-3, 1e-6, 4e-7),
        ("short texts, the same", SHORT, 4000, POWERS, 13e-3, 1e-6, 4e-7),
        ("small weights, so that reading decides", SHORT, 4000, POWERS, 1e-4, 3e-6, 4e-7),
        ("two requests are only just better than one", [4, 4], 8, [4, 8], 0.1, 1.0, 0.0),
        ("nobody fits", [100], 64, [8, 16], 1.0, 0.0, 0.0),
    ),
    hints=(
        "For one size: how many requests are admitted, and how long does a step take? The quotient is tokens per "
        "second.",
        "There are slots // size blocks, and a request takes ⌈n / size⌉ of them: eq. 19.3. Stop at the first request "
        "that doesn't fit.",
        "A step takes weights + Σ (blocks · page + n · token) over the admitted requests. Take the size with the "
        "largest quotient.",
    ),
    without={"blocks * page": "The table isn't free in this exercise: a step spends `page` seconds on each block "
                              "(section 4)."},
    mistakes=(
        Mistake("You choose by memory alone, the size that holds the most requests. But small blocks cost time at "
                "every step: section 7.",
                but(BETTER, "running > best", "best, found = running / seconds", "best, found = running")),
        Mistake("You choose the fastest step. What counts is tokens per second, and a step that serves one request is "
                "fast: section 7.",
                but(BETTER, "running and 1 / seconds > best", "running / seconds, size", "1 / seconds, size")),
        Mistake("A request holds ⌈n / size⌉ whole blocks. The rest of its last block is lost, so neither its tokens "
                "nor the full blocks alone say what's free (eq. 19.3).",
                but("if blocks > free:\n                break\n            free, running = free - blocks",
                    "if n > free * size:\n                break\n            free, running = free - n / size"),
                but("-(-n // size)", "n // size")),
        Mistake(phrases.weights_unread("section 7"),
                but("running, seconds = slots // size, 0, weights",
                                        "running, seconds = slots // size, 0, 1e-30")),
        Mistake("You skip a request that doesn't fit and admit those behind it. Requests are admitted in order, "
                "without overtaking (section 7).", but("                break\n", "                continue\n")),
    ),
)
