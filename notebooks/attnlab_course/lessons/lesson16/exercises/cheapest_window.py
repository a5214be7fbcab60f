"""Lesson 16, ★★: the smallest window that a model doesn't mind, found by few measurements."""

from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table

import numpy as np

SINKS = 0, 1, 2, 4
LIMIT = 28  # measurements: bisection, once for each number of sinks


def cheapest_window(bits: Callable[[int, int], float], longest: int, allowed: float) -> tuple[int, int]:
    """(window, sinks) of the fewest kept keys, window + sinks, with which the model stays within ``allowed``.

    ``bits(window, sinks)`` measures bits per byte, which takes minutes: measure at most 28 times. A window is a power
    of two, or three times one, from 1 to ``longest``; sinks are 0, 1, 2 or 4. With the same sinks, a longer window is
    never worse. With a window of ``longest`` the model is within ``allowed`` for any number of sinks.
    """
    sizes = sorted(x for p in range(longest.bit_length()) for x in (2**p, 3 * 2**p) if x <= longest)
    found = []
    for kept in (0, 1, 2, 4):
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if bits(sizes[middle], kept) <= allowed else (middle + 1, high)
        found.append((sizes[low] + kept, sizes[low], kept))
    return min(found)[1:]


def run(answer: Callable) -> Callable:
    """The answer with a model that counts: what it says, how often it measured, whether that keeps to ``allowed``."""
    def measured(loss: Callable, longest: int, allowed: float) -> np.ndarray:
        asked = []

        def bits(window: int, sinks: int) -> float:
            asked.append((window, sinks))
            if window < 1 or window > longest or sinks not in SINKS:
                raise ValueError(f"window is {window} and sinks are {sinks}; a window has 1 to {longest} keys")
            return loss(window, sinks)

        window, sinks = answer(bits, longest, allowed)
        return np.array([window, sinks, len(asked), loss(window, sinks) <= allowed])

    return measured


def judge(case: Case, got: Any) -> str | None:
    """Whether it's good enough, cheap enough, and found soon enough."""
    window, sinks, asked, good = (int(x) for x in got)
    best, few, *_ = (int(x) for x in run(cheapest_window)(*case.args))
    if sinks not in SINKS:
        return f"sinks are 0, 1, 2 or 4, not {sinks}."
    if not good:
        return f"a window of {window} with {sinks} sinks isn't within what's allowed."
    if window + sinks > best + few:
        return f"a window of {window} with {sinks} sinks keeps {window + sinks} keys; {best} with {few} would do."
    if asked > LIMIT:
        return f"you measured {asked} times; {LIMIT} are enough."
    return None


def loss(needs: int, sink: int) -> Callable[[int, int], float]:
    """Bits of a made-up model that wants so many keys of its window, and breaks without so many sinks."""
    return lambda window, sinks: 1.4 + 0.3 * max(0.0, 1 - window / needs) + (sinks < sink) * (window < 512) * 1.0


EXERCISE = Exercise(
    lesson="16", stars=2, reference=cheapest_window, where="section 6", judge=judge, run=run,
    cases=table(
        ("needs 64 keys, no sinks", loss(64, 0), 512, 1.4),
        ("needs 90 keys and one sink", loss(90, 1), 4096, 1.4),
        ("needs 40 keys and two sinks", loss(40, 2), 512, 1.4),
        ("needs 100 keys and three sinks, so four", loss(100, 3), 4096, 1.4),
        ("a hundredth of a bit is allowed", loss(1000, 0), 4096, 1.41),
        ("everything is needed", loss(512, 0), 512, 1.4),
        ("a window of one will do", loss(1, 0), 512, 1.4),
        ("four keys are enough, whichever", lambda window, sinks: 1.4 + (window + sinks < 4), 512, 1.4),
    ),
    hints=(
        "For a given number of sinks a longer window is never worse, so windows from some size up will do: bisect.",
        "There are about 25 windows up to 4,096, and 4 numbers of sinks: 5 measurements each.",
        "Compare window + sinks at the end: a sink costs one key and may save a hundred.",
    ),
    without={"kept": "You compare windows and leave the sinks out of the count (section 3)."},
    mistakes=(
        Mistake("You measure every window. Bits only fall as a window grows, so one measurement decides half of what's "
                "left (section 6).",
                but("low, high = 0, len(sizes) - 1",
                    "low = high = next(i for i, size in enumerate(sizes) if bits(size, kept) <= allowed)")),
        Mistake("You never try sinks. A model that leans on the first token breaks without them at any short window "
                "(section 5).", but("for kept in (0, 1, 2, 4)", "for kept in (0,)")),
        Mistake("You always take four sinks, so a model that needs none pays for four keys (section 5).",
                but("for kept in (0, 1, 2, 4)", "for kept in (4,)")),
        Mistake("You try only powers of two, but three times one may be enough (section 6).",
                but("(2**p, 3 * 2**p)", "(2**p,)")),
    ),
)
