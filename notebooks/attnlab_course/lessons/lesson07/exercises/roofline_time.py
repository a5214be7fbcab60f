"""Lesson 07, ★: the least time of a program on a machine of two numbers."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def roofline_time(flops: float, bytes: float, peak: float, bandwidth: float) -> float:
    """Seconds that ``flops`` FLOP and ``bytes`` bytes take at least, at ``peak`` FLOP/s and ``bandwidth`` B/s."""
    return max(flops / peak, bytes / bandwidth)

LONGER = "max(flops / peak, bytes / bandwidth)"

EXERCISE = Exercise(
    lesson="07", stars=1, reference=roofline_time, where="eq. 7.1",
    cases=table(
        ("100 FLOP, 10 B at 50 FLOP/s, 10 B/s: the arithmetic takes longer", 100.0, 10.0, 50.0, 10.0),
        ("60 FLOP, 30 B at 20 FLOP/s, 6 B/s: the bytes take longer", 60.0, 30.0, 20.0, 6.0),
        ("both take 3 s: the balance point", 60.0, 30.0, 20.0, 10.0),
        ("just below the balance: 24 FLOP, 10 B at 10 FLOP/s, 4 B/s", 24.0, 10.0, 10.0, 4.0),
        ("just above the balance: 26 FLOP, 10 B at 10 FLOP/s, 4 B/s", 26.0, 10.0, 10.0, 4.0),
        ("no arithmetic: a copy", 0.0, 8.0, 2.0, 50.0),
        ("no bytes", 8.0, 0.0, 50.0, 2.0),
        ("one head of unfused attention on an A100", 4.3e9, 3.5e7, 312e12, 1.555e12),
        ("a product of small matrices on an A100: 16 billionths of a second", 2.0 * 64**3, 6.0 * 64**2, 312e12,
         1.555e12),
    ),
    hints=(
        "How long would the program take if bytes were free? And how long if arithmetic were?",
        "The machine computes one tile while it moves the next (eq. 7.1). So which of the two times do you wait for?",
        "flops / peak, bytes / bandwidth, and the longer of the two.",
    ),
    without=dict.fromkeys(
        ("flops / peak", "bytes / bandwidth"),
        "You always take the same one of the two times. Below the balance point, the memory decides; above it, the "
        "arithmetic (eq. 7.1).",
    ),
    mistakes=(
        Mistake(phrases.adds_times("eq. 7.1"), but(LONGER, "flops / peak + bytes / bandwidth")),
        Mistake("You choose between the two times without comparing them. FLOP and bytes are different units, and a "
                "balance that's rounded to a whole number is wrong near it: compare seconds (eq. 7.1).",
                *(but(LONGER, f"flops / peak if not bytes or {comparison} else bytes / bandwidth")
                  for comparison in ("flops / bytes >= peak // bandwidth", "flops // bytes >= peak / bandwidth",
                                     "flops / bytes >= round(peak / bandwidth)", "flops > bytes"))),
        Mistake("You return the attainable rate, in FLOP/s (eq. 7.2). The time is the FLOP divided by it, eq. 7.1.",
                but(LONGER, "min(peak, bandwidth * flops / bytes) if bytes else peak"),
                but(LONGER, "min(peak, bandwidth * flops / bytes)")),
        Mistake("You divide the FLOP by the attainable rate of eq. 7.2, which is right unless there's no arithmetic or "
                "nothing to move: a copy takes time without a single FLOP. Eq. 7.1 needs no intensity.",
                but(LONGER, "flops / min(peak, bandwidth * flops / bytes)")),
    ),
)
