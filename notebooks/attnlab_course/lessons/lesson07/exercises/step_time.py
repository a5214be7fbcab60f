"""Lesson 07, ★★: the least time of a step of many kernels, and what each of them waits for."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table

Kernel = tuple[str, float, float]


def step_time(
    kernels: list[Kernel], tensor: float, vector: float, bandwidth: float, launch: float
) -> tuple[float, float, float]:
    """(arithmetic, bytes, launch): least seconds of kernels (unit, FLOP, bytes), by what each of them waits for."""
    waits = [0.0, 0.0, 0.0]
    for unit, flops, moved in kernels:
        times = flops / (tensor if unit == "tensor" else vector), moved / bandwidth, launch
        waits[times.index(max(times))] += max(times)  # eq. 7.1, and no less than a launch
    arithmetic, bytes, launches = waits
    return arithmetic, bytes, launches


RATES = 100.0, 10.0, 20.0, 1.0  # FLOP/s of tensor cores and vector units, bytes/s, seconds
A100 = 312e12, 19.5e12, 1.555e12, 2.2e-6
SCORES = 2.0 * 2048**2 * 128, 2.0 * (2048**2 + 2 * 2048 * 128)  # FLOP and bytes of S = Q Kᵀ, 2048 tokens, D = 128
UNFUSED = [("tensor", *SCORES), ("vector", 8.0 * 2048**2, 4.0 * 2048**2), ("tensor", *SCORES)]
EACH = "waits[times.index(max(times))] += max(times)"

EXERCISE = Exercise(
    lesson="07", stars=2, reference=step_time, where="eq. 7.1",
    cases=table(
        ("one kernel: 500 FLOP on tensor cores at 100 per second, 20 bytes at 20 per second", [("tensor", 500.0, 20.0)],
         *RATES),
        ("one kernel: the same 500 FLOP on vector units, at 10 per second", [("vector", 500.0, 20.0)], *RATES),
        ("one kernel: 60 bytes at 20 per second, no arithmetic: a copy", [("tensor", 0.0, 60.0)], *RATES),
        ("one kernel with less to do than its launch takes", [("vector", 3.0, 10.0)], *RATES),
        ("two kernels: one waits for arithmetic, one for bytes", [("tensor", 300.0, 20.0), ("tensor", 100.0, 80.0)],
         *RATES),
        ("five kernels, each too short for its launch", [("vector", 4.0, 8.0)] * 5, *RATES),
        ("all three: a product, an addition and a scalar",
         [("tensor", 900.0, 40.0), ("vector", 20.0, 120.0), ("vector", 1.0, 8.0)], *RATES),
        ("no kernels", [], *RATES),
        ("a head of unfused attention on an A100: S, softmax, output", UNFUSED, *A100),
        ("the same with 16 tokens: three launches", [(unit, f / 128**2, b / 128**2) for unit, f, b in UNFUSED], *A100),
    ),
    hints=(
        "Take one kernel. How long would each of the three take alone: its arithmetic, its bytes, its launch?",
        "The three overlap inside a kernel, so it takes the longest of them. The next kernel starts when it's done.",
        "Add the longest of the three to that one's sum; the other two cost nothing.",
    ),
    without={
        "tensor if unit == 'tensor' else vector":
            "Only matrix products run on tensor cores, everything else on vector units: look at `unit` (lesson 07).",
    },
    mistakes=(
        Mistake("You take the step for one kernel. A kernel overlaps its own arithmetic and bytes, but the next one "
                "starts when it's done, so the longest time of each kernel counts (eq. 7.1).",
                but(EACH, "waits = [x + y for x, y in zip(waits, times)]",
                    "launches = waits", "launches = (x if x == max(waits) else 0.0 for x in waits)")),
        Mistake(phrases.adds_times("eq. 7.1"), but(EACH, "waits = [x + y for x, y in zip(waits, times)]")),
        Mistake("You add the launch to every kernel. Launches queue up while earlier kernels run, so a launch is only "
                "the least that a kernel takes (section 1).",
                but(EACH, "waits[times.index(max(times[:2]))] += max(times[:2]); waits[2] += launch")),
        Mistake("You leave out the launch. A kernel with hardly anything to do takes that long (section 1).",
                but(EACH, "waits[times.index(max(times[:2]))] += max(times[:2])")),
    ),
)
