"""Lesson 07, ★: the least time of a program on a machine of two numbers."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def roofline_time(flops: float, bytes: float, peak: float, bandwidth: float) -> float:
    """Seconds that ``flops`` FLOP and ``bytes`` bytes take at least, at ``peak`` FLOP/s and ``bandwidth`` B/s."""
    return max(flops / peak, bytes / bandwidth)


def cases() -> list[Case]:
    """Both sides of the balance, far from it and near, and the point itself; no FLOP, no byte, no microsecond."""
    calls = [
        ("100 FLOP, 10 B at 50 FLOP/s, 10 B/s: the arithmetic takes longer", (100.0, 10.0, 50.0, 10.0)),
        ("60 FLOP, 30 B at 20 FLOP/s, 6 B/s: the bytes take longer", (60.0, 30.0, 20.0, 6.0)),
        ("both take 3 s: the balance point", (60.0, 30.0, 20.0, 10.0)),
        ("just below the balance: 24 FLOP, 10 B at 10 FLOP/s, 4 B/s", (24.0, 10.0, 10.0, 4.0)),
        ("just above the balance: 26 FLOP, 10 B at 10 FLOP/s, 4 B/s", (26.0, 10.0, 10.0, 4.0)),
        ("no arithmetic: a copy", (0.0, 8.0, 2.0, 50.0)),
        ("no bytes", (8.0, 0.0, 50.0, 2.0)),
        ("one head of unfused attention on an A100", (4.3e9, 3.5e7, 312e12, 1.555e12)),
        ("a product of matrices on an A100", (2.0 * 8192**3, 6.0 * 8192**2, 312e12, 1.555e12)),
        ("a product of small matrices on an A100: 16 billionths of a second",
         (2.0 * 64**3, 6.0 * 64**2, 312e12, 1.555e12)),
    ]
    return [Case(label, args) for label, args in calls]


LONGER = "max(flops / peak, bytes / bandwidth)"

EXERCISE = Exercise(
    lesson="07", stars=1, reference=roofline_time, cases=cases,
    hints=(
        "How long would the program take if bytes were free? And how long if arithmetic were?",
        "The machine computes one tile while it moves the next: the two overlap (eq. 7.1). So which of the two times "
        "do you wait for?",
        "flops / peak, bytes / bandwidth, and the longer of the two.",
    ),
    mistakes=(
        Mistake("You round the balance, or the intensity, to a whole number, and choose by that. Near the balance, "
                "this chooses the wrong time: compare the two times themselves (eq. 7.1).",
                *(but(LONGER, f"flops / peak if not bytes or {comparison} else bytes / bandwidth")
                  for comparison in ("flops / bytes >= peak // bandwidth", "flops // bytes >= peak / bandwidth",
                                     "flops / bytes >= round(peak / bandwidth)"))),
        Mistake(phrases.adds_times("eq. 7.1"), but(LONGER, "flops / peak + bytes / bandwidth")),
        Mistake(phrases.shorter_time("eq. 7.1"), but("max", "min")),
        Mistake("You always take the same one of the two times. Below the balance point, the memory decides; above it, "
                "the arithmetic (eq. 7.1).",
                but(LONGER, "flops / peak"), but(LONGER, "bytes / bandwidth")),
        Mistake("You choose between the two times by the wrong comparison. Compare the times themselves, in seconds: "
                "FLOP and bytes are different units (eq. 7.1).",
                but(LONGER, "flops / peak if flops > bytes else bytes / bandwidth"),
                but(LONGER, "flops / peak if flops * peak > bytes * bandwidth else bytes / bandwidth")),
        Mistake("You take the root of the sum of two squares. That's above both times, up to 1.41 times; only the "
                "longer one decides (eq. 7.1).",
                but(LONGER, "((flops / peak) ** 2 + (bytes / bandwidth) ** 2) ** 0.5")),
        Mistake("You divide FLOP by B/s, or bytes by FLOP/s. Look at the units: FLOP over FLOP/s gives seconds (eq. "
                "7.1).",
                but(LONGER, "max(flops / bandwidth, bytes / peak)")),
        Mistake("You return the attainable rate, in FLOP/s (eq. 7.2). The time is the FLOP divided by it, which is eq. "
                "7.1.",
                but(LONGER, "min(peak, bandwidth * flops / bytes) if bytes else peak"),
                but(LONGER, "min(peak, bandwidth * flops / bytes)")),
        Mistake("You divide the FLOP by the attainable rate of eq. 7.2, which is right unless there's no arithmetic or "
                "nothing to move: a copy takes time without a single FLOP. Eq. 7.1 needs no intensity.",
                but(LONGER, "flops / min(peak, bandwidth * flops / bytes)")),
    ),
)
