"""Lesson 15, ★: how long a step of decoding takes at the least."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def decode_seconds(weights_bytes: float, cache_bytes: float, B: int, bandwidth: float) -> float:
    """Seconds of one step for B sequences: the weights are read once, and cache_bytes for each sequence."""
    return (weights_bytes + B * cache_bytes) / bandwidth


READ = "(weights_bytes + B * cache_bytes)"

EXERCISE = Exercise(
    lesson="15", stars=1, reference=decode_seconds, where="eq. 15.4",
    cases=table(
        ("10 B of weights, 2 B of cache, one sequence, 4 B/s: 12 bytes", 10.0, 2.0, 1, 4.0),
        ("the same with three sequences: the weights are shared, the caches are not", 10.0, 2.0, 3, 4.0),
        ("no weights: attention alone", 0.0, 2.0, 3, 4.0),
        ("GPT-3, 4096 tokens, 64 sequences", 350e9, 19_327_352_832.0, 64, 2.039e12),
        ("whole numbers: 3 B of weights, 2 B of cache, one sequence, 2 B/s", 3, 2, 1, 2),
        ("GPT-3 and caches of a megabyte, 1000 sequences: its products would take longer, the bytes do not",
         350e9, 1e6, 1000, 2.039e12),
    ),
    hints=(
        "Seconds are bytes over bytes per second. Which bytes does a step read?",
        "All sequences go through the same weights, but each has its own keys and values (eq. 15.4).",
        "weights_bytes + B * cache_bytes, divided by the bandwidth.",
    ),
    without={
        "B": phrases.cache_shared("eq. 15.4"),
        "weights_bytes": phrases.weights_unread("eq. 15.4"),
        "B * cache_bytes": phrases.caches_unread("eq. 15.4"),
    },
    mistakes=(
        Mistake(phrases.weights_each("eq. 15.4"), but(READ, "B * (weights_bytes + cache_bytes)")),
        Mistake("You divide by B, which gives the time per token. We want the time per step: all its sequences wait "
                "for the whole step (eq. 15.4).",
                but("/ bandwidth", "/ bandwidth / B")),
        Mistake("You take the longer of the two times. Weights and caches come through the same memory in turn, so "
                "their bytes add up. (Arithmetic and memory overlap: lesson 07.) See eq. 15.4.",
                but(READ, "max(weights_bytes, B * cache_bytes)")),
    ),
)
