"""Lesson 14, ★★: how large the next array of a cache should be, judged by what it copies and what it holds empty."""

from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np

COPIED, HELD = 3.2, 1.5  # rows a token
SHORT = 16  # texts of so many tokens may hold as much as this many


def next_capacity(length: int) -> int:
    """Slots of the next array, when ``length`` tokens fill the present one and another token comes.

    All rows are copied into it. Over a text of any length, copied rows and slots held are both counted per token.
    """
    return length + max(length // 2, 1)  # 1 / (1 − 1/1.5) = 3 rows copied per token


def run(answer: Callable) -> Callable:
    """A text grows: the rows copied until its last array was made, and the slots of that one."""
    def grown(start: int, tokens: int) -> np.ndarray:
        capacity, copied, last = start, 0, start
        while capacity < tokens:
            wanted = answer(capacity)
            if np.shape(wanted) or wanted != wanted or int(wanted) != wanted or wanted <= capacity:
                return np.array([np.nan, capacity, capacity])
            copied, last, capacity = copied + capacity, capacity, int(wanted)
        return np.array([copied, capacity, last + 1])

    return grown


def judge(case: Case, got: Any) -> str | None:
    """Whether rows copied and slots held, right after the last move, are within the limits."""
    copied, capacity, tokens = got
    if np.isnan(copied):
        return f"for {int(tokens):,} tokens it isn't a whole number larger than that."
    if copied > COPIED * tokens:
        return (f"at token {int(tokens):,} a text has copied {copied / tokens:.2f} rows per token; {COPIED} are "
                "allowed. Grow by more.")
    if capacity > HELD * max(tokens, SHORT):
        return (f"at token {int(tokens):,} the cache holds {capacity / tokens:.2f} slots per token; {HELD} are "
                "allowed. Grow by less.")
    return None


def cases() -> list[Case]:
    """Texts that begin with 1 slot and more, and end where an array has just been moved."""
    calls = [(1, 2), (1, 1000), (16, 17), (16, 100), (100, 101), (100, 5000), (1000, 1001), (1000, 100_000),
             (1001, 1_000_000)]
    return [Case(f"slots at first: {start:,}; tokens: {tokens:,}", (start, tokens)) for start, tokens in calls]


EXERCISE = Exercise(
    lesson="14", stars=2, reference=next_capacity, where="section 2", cases=cases, judge=judge, run=run,
    hints=(
        "Growing by a fixed number of slots moves everything again and again: the copies per token grow with the text. "
        "Grow by a fixed *fraction*.",
        "With a factor g, all arrays before the last one add up to 1 + 1/g + 1/g² + … = g / (g − 1) times the last one "
        "that was copied.",
        "Right after a move, you hold g slots per token, so g is at most 1.5. And g / (g − 1) ≤ 3.2 requires at least "
        "1.4546.",
    ),
    without={
        "2": "Doubling copies two rows per token, which is less than allowed, and holds two slots per token, which is "
             "more (section 2).",
    },
    mistakes=(
        Mistake("Adding one slot per token is what `concatenate` does: it copies all rows for every token (section 2).",
                but("length // 2", "1")),
        Mistake("You grow by a fixed number of slots: a text that's ten times as long copies ten times as many rows "
                "per token. Grow by a fraction (section 2).", but("length // 2", "256"), but("length // 2", "4096")),
        Mistake("Growing by an eighth or a quarter holds little but copies too often: g / (g − 1) rows per token "
                "(section 2).", but("length // 2", "length // 8"), but("length // 2", "length // 4")),
        Mistake("A power of two is up to twice the text (section 2).",
                but("length + max(length // 2, 1)", "2 ** length.bit_length()")),
    ),
)
