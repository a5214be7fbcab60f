"""Lesson 21, ★: how many tokens a device needs so that the transfer of keys is covered."""

import math

from attnlab.check.exercise import Case, Exercise, Mistake, but


def smallest_chunk(flops: float, bandwidth: float, itemsize: int, ratio: float) -> int:
    """The fewest tokens on a device for which the products of a block take as long as the transfer of the next one.

    Unmasked; ``flops``: FLOP/s that attention reaches; ``bandwidth``: bytes/s of the link in one direction;
    ``itemsize``: bytes of a number; ``ratio``: key heads divided by query heads.
    """
    return math.ceil(flops / bandwidth * itemsize / 2 * ratio)  # eq. 21.4


def cases() -> list[Case]:
    """Round numbers first, then devices that exist."""
    calls = [
        ("16 FLOP and 1 byte a second, 2 bytes a number", (16.0, 1.0, 2, 1.0)),
        ("one query head more than key heads: 16 FLOP a second, 1 byte a second, ratio 1/2", (16.0, 1.0, 2, 0.5)),
        ("16 FLOP and 1 byte a second, 4 bytes a number", (16.0, 1.0, 4, 1.0)),
        ("10 FLOP and 4 bytes a second, 2 bytes a number", (10.0, 4.0, 2, 1.0)),
        ("10 FLOP and 3 bytes a second, 8 bytes a number", (10.0, 3.0, 8, 1.0)),
        ("16 FLOP and 1 byte a second, 1 byte a number", (16.0, 1.0, 1, 1.0)),
        ("257 FLOP and 256 bytes a second, 2 bytes a number", (257.0, 256.0, 2, 1.0)),
        ("A100: 312 TFLOP/s, NVLink with 300 GB/s each way", (312e12, 300e9, 2, 1.0)),
        ("A100 by InfiniBand, 12.5 GB/s each way", (312e12, 12.5e9, 2, 1.0)),
        ("A100, NVLink, half of the peak reached", (156e12, 300e9, 2, 1.0)),
        ("A100, NVLink, 8 key heads for 32 query heads, float32", (312e12, 300e9, 4, 0.25)),
        ("TPU v5e: 196 TFLOP/s, 186 GB/s each way", (196e12, 186e9, 2, 1.0)),
        ("TPU v5e by a network with 1.2 GB/s each way", (196e12, 1.2e9, 2, 1.0)),
    ]
    return [Case(label, args) for label, args in calls]


RULE = "flops / bandwidth * itemsize / 2 * ratio"

EXERCISE = Exercise(
    lesson="21", stars=1, reference=smallest_chunk, cases=cases,
    hints=(
        "Write both times for a chunk of C tokens and one head of size D: operations over FLOP/s, bytes over bytes/s.",
        "4 C² D operations for a query head; 2 C D numbers, keys and values, for a key head. One C and the D cancel.",
        "Solve for C, and round up: the fewest whole tokens that suffice.",
    ),
    mistakes=(
        Mistake("Your chunk is half as large as needed. Do both keys and values travel? And is the bandwidth that of "
                "one direction, as given, and not doubled? 4 operations stand against 2 numbers: eq. 21.4.",
                but(RULE, "flops / (2 * bandwidth) * itemsize / 2 * ratio"),
                but(RULE, "flops / bandwidth * itemsize / 4 * ratio")),
        Mistake("Your chunk is twice as large as needed. 4 operations stand against 2 numbers of itemsize bytes each, "
                "so that 2 bytes a number give R / W; and the bandwidth is that of one direction already: eq. 21.4.",
                but(RULE, "flops / bandwidth * itemsize * ratio"),
                but(RULE, "flops / (bandwidth / 2) * itemsize / 2 * ratio")),
        Mistake("You take 2 bytes for a number, whatever itemsize says. With 4 bytes the transfer takes twice as long: "
                "eq. 21.4.",
                but(RULE, "flops / bandwidth * ratio")),
        Mistake("You forget that the query heads of a group share their keys: fewer bytes travel for the same "
                "operations, and the chunk may be smaller. Eq. 21.3.",
                but(RULE, "flops / bandwidth * itemsize / 2")),
        Mistake("Your ratio is the other way round: fewer key heads mean fewer bytes and a smaller chunk. Eq. 21.3.",
                but(RULE, "flops / bandwidth * itemsize / 2 / ratio")),
        Mistake("You round down, or to the nearest number. Then the arithmetic ends before the transfer does: the "
                "fewest tokens that suffice, section 3.",
                but("math.ceil", "math.floor"), but("math.ceil", "round")),
        Mistake("You divide the wrong way round: a slower link needs more tokens, section 3.",
                but("flops / bandwidth", "bandwidth / flops")),
    ),
)
