"""Lesson 15, ★★: the number of parts for a batch and a GPU, where each part has to be merged."""

from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import table

import numpy as np

MOST, WITHIN = 512, 1.02


def best_parts(batch: int, kv_heads: int, keys: int, sms: int, share: int, merge: float) -> int:
    """How many parts to cut the keys into, from 1 to 512, so that a decoding step ends first, or within 2% of that.

    There's a program for every sequence, key head and part, and ``sms`` multiprocessors take one each, wave after wave.
    A program takes a microsecond, and for each of its keys 0.01 more; where more than ``share`` run in a wave, HBM
    is saturated, and they take longer by their number divided by ``share`` (the first microsecond doesn't). Then the
    merge takes ``merge`` microseconds for each part.
    """
    def microseconds(parts: int) -> float:
        full, rest = divmod(batch * kv_heads * parts, sms)
        reading = -(-keys // parts) / 100
        waves = [sms] * full + [rest] * (rest > 0)
        return sum(1 + reading * max(1, running / share) for running in waves) + merge * parts  # eq. 15.9

    return min(range(1, MOST + 1), key=microseconds)


def time_of(batch: int, kv_heads: int, keys: int, sms: int, share: int, merge: float, parts: int) -> float:
    """Microseconds of a step."""
    full, rest = divmod(batch * kv_heads * parts, sms)
    reading = -(-keys // parts) / 100
    first, last = 1 + reading * max(1, sms / share), 1 + reading * max(1, rest / share)
    return full * first + (rest > 0) * last + merge * parts


def judge(case: Case, got: Any) -> str | None:
    """None if a step ends within 2% of the first."""
    if np.shape(got) or got != got or int(got) != got or not 1 <= got <= MOST:
        return f"expected a whole number from 1 to {MOST}, got {got}"
    parts, best = int(got), best_parts(*case.args)
    found, least = time_of(*case.args, parts), time_of(*case.args, best)
    if found <= WITHIN * least:
        return None
    return f"with {parts} parts a step takes {found:.1f} µs, with {best} it takes {least:.1f} µs."


EXERCISE = Exercise(
    lesson="15", stars=2, reference=best_parts, where="eq. 15.9", judge=judge,
    cases=table(
        ("one program fills the chip: nothing to split", 1, 1, 1000, 1, 1, 0.0),
        ("one sequence, 8 key heads, 32,768 keys, an H100; the merge costs nothing", 1, 8, 32_768, 132, 52, 0.0),
        ("the same, and the merge takes half a microsecond per part", 1, 8, 32_768, 132, 52, 0.5),
        ("the same, and HBM is never saturated", 1, 8, 32_768, 132, 132, 0.1),
        ("one key head, 1,000,000 keys", 1, 1, 1_000_000, 108, 40, 0.5),
        ("128 keys: the merge costs more than it brings", 1, 8, 128, 132, 52, 1.0),
        ("13 sequences, 8 key heads: a second wave", 13, 8, 8192, 132, 132, 0.05),
        ("17 sequences, 8 key heads: 136 programs and 132 multiprocessors", 17, 8, 8192, 132, 132, 0.05),
        ("64 sequences, 8 key heads: the chip is full", 64, 8, 8192, 132, 52, 0.5),
        ("the same key head, and the merge takes 20 microseconds per part", 1, 1, 1_000_000, 108, 40, 20.0),
        ("a chip with 7 multiprocessors, 5 key heads, short parts", 1, 5, 1500, 7, 7, 0.0),
        ("a chip with 7 multiprocessors, 2 key heads", 1, 2, 999, 7, 7, 0.2),
    ),
    hints=(
        "Write the time of a step as a function of the number of parts, and try every number.",
        "n programs take n // sms full waves, and one more for the rest if there is one.",
        "A part's program reads ⌈keys / parts⌉ keys. A wave of r programs takes 1 + ⌈keys / parts⌉ / 100 · max(1, r / "
        "share) microseconds.",
    ),
    without={
        "merge * parts": "You leave out the merge. It's cheap for one part, but not for a hundred (section 5).",
        "max(1, running / share)":
            "Your time has no limit for HBM. A wave whose programs saturate it takes longer: the second term of eq. "
            "15.9.",
        "batch": "You forget that every sequence has its own programs (section 5).",
    },
    mistakes=(
        Mistake("You fill one wave, whatever that buys. Once HBM is saturated, more programs only share it: eq. 15.9.",
                but("return min(range(1, MOST + 1), key=microseconds)",
                    "return min(max(sms // (batch * kv_heads), 1), MOST)")),
        Mistake("You count one wave. Programs beyond the multiprocessors wait for a second one: eq. 15.9.",
                but("sum(1 + reading * max(1, running / share) for running in waves)",
                    "1 + reading * max(1, batch * kv_heads * parts / share)")),
        Mistake("A fixed number of parts suits one batch and one length (section 5).",
                but("return min(range(1, MOST + 1), key=microseconds)", "return 8")),
    ),
)
