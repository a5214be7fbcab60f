"""Lesson 17, ★★: the chunk for a machine and a memory."""

import math
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np


def chunk_for(n: int, F: int, Dv: int, rate: float, start: float, memory: int) -> int:
    """The chunk size C, from 1 to n, that takes n tokens the shortest time; within 2% of that is fine.

    Besides inputs and output you can hold at most ``memory`` numbers (17.8), and some C fits. The time: the operations
    of (17.7) at ``rate`` per second, plus ``start`` seconds for each of the n / C chunks (part of a chunk counts as a
    part).
    """
    best = math.sqrt(start * rate / (2 * (F + Dv)))  # where 2 C (F + Dv) / rate = start / C
    most = math.isqrt(F * F + memory - F * (Dv + 1)) - F  # C² + 2 C F ≤ the rest
    return min(max(round(best), 1), most, n)


def seconds(n: int, F: int, Dv: int, rate: float, start: float, C: int) -> float:
    """For all tokens."""
    return n * ((2 * C * (F + Dv) + 2 * F * (2 * Dv + 1)) / rate + start / C)


def held(F: int, Dv: int, C: int) -> int:
    """Numbers, (17.8)."""
    return C * C + 2 * C * F + F * (Dv + 1)


def judge(case: Case, got: Any) -> str | None:
    """None if it fits and is nearly the fastest that does."""
    n, F, Dv, rate, start, memory = case.args
    if np.shape(got) or got != got or int(got) != got or not 1 <= got <= n:
        return f"a chunk is an integer from 1 to {n}; got {got}"
    C, best = int(got), chunk_for(*case.args)
    if held(F, Dv, C) > memory:
        return f"chunks of {C} hold {held(F, Dv, C):,} numbers; {memory:,} are allowed."
    found, least = (1e6 * seconds(n, F, Dv, rate, start, c) for c in (C, best))
    if found <= 1.02 * least:
        return None
    return f"chunks of {C} take {found:,.1f} µs, chunks of {best} take {least:,.1f} µs, and they fit."


def cases() -> list[Case]:
    """Slow and fast machines, costly and cheap starts, much memory and little; one token."""
    much = 10**9
    calls = [
        ("F = Dv = 64, 10 GFLOP/s, 10 µs for a chunk", (4096, 64, 64, 1e10, 1e-5, much)),
        ("the same machine, Dv = 512", (4096, 64, 512, 1e10, 1e-5, much)),
        ("F = 2,145 features", (65_536, 2145, 64, 1e10, 1e-5, much)),
        ("a chunk starts for nothing: one token at a time", (4096, 64, 64, 1e10, 1e-12, much)),
        ("a chunk costs a millisecond, and the text is short: all at once", (200, 64, 64, 1e10, 1e-3, much)),
        ("memory for chunks of 10", (4096, 64, 64, 1e10, 1e-5, 10 * 10 + 2 * 10 * 64 + 64 * 65)),
        ("a number less than for chunks of 11", (4096, 64, 64, 1e10, 1e-5, 11 * 11 + 2 * 11 * 64 + 64 * 65 - 1)),
        ("little memory, few features", (4096, 4, 8, 1e10, 1e-5, 100)),
        ("one feature: two tokens at a time would take longer than one", (100, 1, 1, 1e10, 1e-12, much)),
        ("one token", (1, 8, 8, 1e10, 1e-5, much)),
    ]
    return [Case(label, args) for label, args in calls]


EXERCISE = Exercise(
    lesson="17", stars=2, reference=chunk_for, where="eq. 17.7", cases=cases, judge=judge,
    hints=(
        "Per token there are two terms that depend on C: 2 C (F + Dv) / rate grows, start / C falls.",
        "Where their sum is smallest, they're equal: C² = start · rate / (2 (F + Dv)).",
        "(17.8) sets the upper limit: C² + 2 C F + F (Dv + 1) ≤ memory, so C ≤ √(F² + memory − F (Dv + 1)) − F. "
        "Trying all C works, too.",
    ),
    mistakes=(
        Mistake("A chunk of 128 is a good habit for one machine. Here, weigh the start of a chunk against its "
                "products (eq. 17.7).", but("min(max(round(best), 1), most, n)", "min(128, most, n)")),
        Mistake("You take the largest chunk that fits. Then the products within the chunk take most of the time (eq. "
                "17.7).",
                but("min(max(round(best), 1), most, n)", "min(most, n)")),
        Mistake("You ignore the memory (eq. 17.8).", but("most, n)", "n)")),
        Mistake("You balance the chunk's products with the state's, 2 F (2 Dv + 1). Those don't depend on C; the "
                "starts do (eq. 17.7).",
                but("start * rate / (2 * (F + Dv))", "(F * (2 * Dv + 1) / (F + Dv)) ** 2")),
    ),
)
