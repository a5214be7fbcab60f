"""Guess the bug: a wrong function, fingerprints to ask for, and the fewest that can be enough."""

import functools
import random
from typing import Any

from attnlab_course.checker.compare import agree, tolerance
from attnlab_course.checker.exercise import Function
from attnlab_course.checker.outcome import Outcome, outcome
from attnlab_course.games.suspects import EXERCISE, SUSPECTS, cases
from attnlab_course.plots import table

import numpy as np

CASES = {case.label.split(":")[0]: case for case in cases()}
WARM_UP = "not itself"
UNSEEN = frozenset(SUSPECTS) - {WARM_UP}
ORDER = (WARM_UP, *random.Random(29).sample(sorted(UNSEEN), len(UNSEEN)))
"""Which mistake each number has."""
NEWLINE, INDENTED = "\n", "\n         "
_counts: dict[int, int] = {}
"""The fewest fingerprints with which a number was solved in this session."""


def function_of(suspect: str) -> Function:
    """The wrong function that has this mistake."""
    return EXERCISE.mistakes[list(SUSPECTS).index(suspect)].wrong[0]


@functools.cache
def seen(suspect: str, fingerprint: str) -> Outcome:
    """What the function with this mistake makes of a fingerprint."""
    return outcome(EXERCISE, function_of(suspect), CASES[fingerprint])


@functools.cache
def like(suspect: str, fingerprint: str) -> str:
    """The first suspect who leaves the same fingerprint."""
    within = tolerance(CASES[fingerprint])
    return next(s for s in SUSPECTS if agree(seen(s, fingerprint), seen(suspect, fingerprint), within))


@functools.cache
def needed(suspects: frozenset[str]) -> int:
    """Fingerprints that the best plan needs for the worst of these suspects: each answer decides what is asked next."""
    if len(suspects) < 2:
        return 0
    plans = []
    for fingerprint in CASES:
        groups: dict[str, set[str]] = {}
        for suspect in suspects:
            groups.setdefault(like(suspect, fingerprint), set()).add(suspect)
        if len(groups) > 1:
            plans.append(1 + max(needed(frozenset(group)) for group in groups.values()))
    return min(plans)


class Hunt:
    """One wrong function: call it, ask it for fingerprints, and accuse it of a mistake.

    ``count``: fingerprints asked for, calls with arguments of one's own, and wrong accusations.
    """

    def __init__(self, number: int) -> None:
        if number not in range(len(ORDER)):
            raise ValueError(f"the functions are numbered 0 (the warm-up) to {len(ORDER) - 1}; got {number!r}")
        self.number, self.mistake, self.count, self.asked = number, ORDER[number], 0, list[str]()

    def __call__(self, *args: Any) -> np.ndarray:
        """The function's result on arguments of your own."""
        self.count += 1
        with np.errstate(all="ignore"):
            return function_of(self.mistake)(*args)

    def ask(self, fingerprint: Any = ...) -> None:
        """Show what the right function makes of a fingerprint, and what this one makes of it."""
        if fingerprint not in CASES:
            print("Ask for one of:", *(case.label for case in CASES.values()), sep="\n  ")
            return
        self.count += 1
        self.asked.append(fingerprint)
        right = outcome(EXERCISE, EXERCISE.reference, CASES[fingerprint])
        print(CASES[fingerprint].label)
        for who, what in (("right", right), ("found", seen(self.mistake, fingerprint))):
            rows = np.array2string(what.arrays[""].squeeze(), precision=3, suppress_small=True)
            print(f"  {who}  {rows.replace(NEWLINE, INDENTED)}")
        print(f"Count: {self.count}")

    def left(self) -> list[str]:
        """The suspects who would have left the fingerprints asked for so far."""
        return [s for s in SUSPECTS if all(like(s, f) == like(self.mistake, f) for f in self.asked)]

    def accuse(self, suspect: Any = ...) -> None:
        """Name the mistake."""
        if suspect not in SUSPECTS:
            print("Accuse one of:", *(f"{name:<19} {mistake.say}" for name, mistake in SUSPECTS.items()), sep="\n  ")
        elif suspect != self.mistake:
            self.count += 1
            why = next((f for f in self.asked if like(suspect, f) != like(self.mistake, f)), None)
            told = f"{why} would have come out differently" if why else "though nothing you asked for rules it out"
            print(f"No, it isn't {suspect!r}: {told}. Count: {self.count}")
        else:
            _counts[self.number] = min(self.count, _counts.get(self.number, self.count))
            others = len(self.left()) - 1
            lucky = f" Lucky: {others} other suspects would have left the same fingerprints." if others else ""
            print(f"Yes, with a count of {self.count}: {SUSPECTS[suspect].say}{lucky}")


def score() -> None:
    """Show how many fingerprints each number took in this session, and what the best plan needs for the worst."""
    table(("function", "your count"), [(number, _counts.get(number, "–")) for number in range(1, len(ORDER))])
    print(f"The best plan never needs more than {needed(UNSEEN)}.")
