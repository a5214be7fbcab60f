"""Lesson 03, ★: maximum and sum of exponentials of a stream, in one pass and constant memory."""

import math
from collections.abc import Iterable

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Edit, Exercise, Mistake, Stream, but
from attnlab_course.checker.inputs import score_rows
from attnlab_course.checker.promises import growth

import numpy as np


def online_stats(stream: Iterable[float]) -> tuple[float, float]:
    """Maximum m and sum l of e^(x − m) of the numbers in ``stream``, as a pair (m, l). One pass, constant memory."""
    m, l = -math.inf, 0.0
    for x in stream:
        m_next = max(m, x)
        if m_next > -math.inf:
            l = l * np.exp(m - m_next) + np.exp(x - m_next)  # eq. 3.2
        m = m_next
    return m, l


def cases() -> list[Case]:
    """Where the maximum moves and where it stays; far from 0; nothing, and nothing but −∞."""
    rng = np.random.default_rng(3)

    def flowing(items: list[float]) -> tuple[Stream]:
        return (Stream(lambda: items),)

    return [
        Case("EMPTY: no element at all; nothing is (−∞, 0)", flowing([])),
        *score_rows(flowing, "ONE", "CONST", "UP", "DOWN", "HIGH", "LOW", "EMPTY"),
        Case("UP: 0, then 0.0009", flowing([0.0, 0.0009])),
        Case("500 zeros, then 18, then 500 zeros: terms e^(0 − 18) are small, but they are 1000",
             flowing([0.0] * 500 + [18.0] + [0.0] * 500)),
        Case("sixty random elements", flowing(rng.normal(0, 3, 60).tolist())),
    ]


def stream_of(n: int) -> tuple[Stream]:
    """``n`` random elements."""
    items = np.random.default_rng(n).normal(size=n).tolist()
    return (Stream(lambda: items),)


UNGUARDED = ("if m_next > -math.inf", "if True")
STEP = "l * np.exp(m - m_next) + np.exp(x - m_next)"


def both(*edits: str) -> tuple[Edit, Edit]:
    """An edit made with care for −∞, and without."""
    return but(*edits), but(*edits, *UNGUARDED)


EXERCISE = Exercise(
    lesson="03", stars=1, reference=online_stats, cases=cases, where="eq. 3.2",
    costs=(Cost(growth(stream_of, 500, 1000), 1.1, "its memory grew {found:.1f}× when the stream doubled"),),
    hints=(
        "Two variables are enough: m and l of what has been read so far. What are they before anything is read?",
        "Eq. 3.2: when x arrives, the new maximum m' is max(m, x). Multiply what was summed so far by e^(m − m'), "
        "before you overwrite m; the new element adds e^(x − m').",
        "While m' is still −∞, skip the element: its exponential is 0, and −∞ − (−∞) would be NaN.",
    ),
    without={"m_next > -math.inf": phrases.nothing_yet("section 3")},
    mistakes=(
        Mistake(phrases.rescales_nothing("eq. 3.2", sums="l is", factor="e^(m − m')"),
                *both("l * np.exp(m - m_next)", "l"), *both("m_next = max", "m = m_next = max"),
                *both(STEP, "l + np.exp(x - m_next) if m > -math.inf else 1.0")),
        Mistake(phrases.upside_down("eq. 3.2", factor="e^(m − m')"),
                *both("m - m_next", "m_next - m"),
                *both(STEP, "l * np.exp(m_next - m) + np.exp(x - m_next) if m > -math.inf else 1.0")),
        Mistake("You count the first element twice: once in the start (x, 1), once in the loop. Start with (−∞, 0) and "
                "let the loop count it, or begin the loop at the second element (eq. 3.2).",
                *(edit for start in ("stream[0], 1.0", "(stream[0], 1.0) if stream else (-math.inf, 0.0)")
                  for edit in both("m, l = -math.inf, 0.0", f"stream = list(stream)\n    m, l = {start}"))),
        Mistake("You sum e^x without a shift. That overflows for large scores and vanishes for small ones, so a fix at "
                "the end comes too late: keep l shifted by the maximum so far at every step, and its largest term is 1 "
                "(eq. 3.2).",
                *(but(STEP, f"l + {library}.exp(x)", "return m, l", returned) for library in ("np", "math")
                  for returned in ("return m, l", f"return m, l * {library}.exp(-m) if l else 0.0"))),
        Mistake(phrases.keeps_all("eq. 3.2", item="element", sums="m and l"),
                but("in stream", "in np.array(list(stream))"), but("in stream", "in list(stream)")),
    ),
)
