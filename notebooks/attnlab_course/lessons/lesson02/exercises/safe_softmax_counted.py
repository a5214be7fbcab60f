"""Lesson 02, ★★: safe softmax of a vector in slow memory, with three loads and one store per element."""

import math

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.inputs import score_rows
from attnlab_course.checker.promises import growth, loads_per_element, stores_per_element
from attnlab_course.instruments.machine import CountingVector


def safe_softmax_counted(x: CountingVector, out: CountingVector) -> None:
    """Write the softmax of x to out, with at most 3 loads and 1 store per element and constant memory."""
    m = max(x)
    l = sum(math.exp(v - m) for v in x)
    for i, v in enumerate(x):
        out[i] = math.exp(v - m) / l


def cases() -> list[Case]:
    """Finite scores: short vectors, a longer one, and one with an ``out`` that is not empty."""

    def row(scores: list[float]) -> tuple[CountingVector, CountingVector]:
        return CountingVector(scores), CountingVector.empty(len(scores))

    return [
        *score_rows(row, "ONE", "CONST", "UP", "DOWN", "HIGH", "LOW"),
        Case("300 scores of 0, then 14: together the 300 weigh 0.00025", row([0.0] * 300 + [14.0])),
        Case("the scores 0, -1000, and an out that holds other numbers",
             (CountingVector([0.0, -1000.0]), CountingVector([7.0, 7.0]))),
    ]


def rising(n: int) -> tuple[CountingVector, CountingVector]:
    """A long row in which every score is a new maximum."""
    return CountingVector(i / n for i in range(n)), CountingVector.empty(n)


def looked_at(n: int) -> tuple[CountingVector, CountingVector]:
    """The same, where a look at ``out`` holds nothing: an answer may also return what it has written."""
    x, out = rising(n)
    shown = out.values()
    out.values = lambda: shown  # type: ignore[method-assign]
    return x, out


def memory(answer: Function, library: str) -> float | None:
    """The growth of memory, where few loads say that a long row takes little time."""
    frugal = loads_per_element(rising, 50)(answer, library) <= 3
    return growth(looked_at, 1_000, 8_000)(answer, library) if frugal else None


SUM = "sum(math.exp(v - m) for v in x)"
WEIGHT, AGAIN = "= math.exp(v - m) / l", "\n    for i, e in enumerate(out):\n        out[i] = e / l"
STORED = WEIGHT, f"= math.exp(v - m){AGAIN}"

EXERCISE = Exercise(
    lesson="02", stars=2, reference=safe_softmax_counted, cases=cases, where="eq. 2.3",
    costs=(
        Cost(stores_per_element(rising, 50), 1.0,
             "It stores {found:.1f} times per element; only the weight itself must be stored (section 7)."),
        Cost(loads_per_element(rising, 50), 3.0,
             "It loads {found:.1f} times per element; three passes, each with one load, are enough (section 7)."),
        Cost(memory, 1.3,
             "Its memory grew {found:.1f}× when the row became eight times as long: it keeps more, the longer a row."),
    ),
    hints=(
        "What must you know before the first exponential, and what before the first weight? Each takes a loop over x.",
        "Compute the exponential again in the third loop instead of storing it in the second.",
        "Start the maximum at -math.inf and the sum at 0. In a loop, read x[i] once: keep it in a variable if you need "
        "it twice.",
    ),
    without={
        "m": "Your sum and your weights aren't shifted alike: one subtracts the maximum, the other doesn't. The factor "
             "e^(-m) cancels only if it's in both (eq. 2.2).",
        "l": phrases.undivided("eq. 2.3"),
    },
    mistakes=(
        Mistake(phrases.unshifted("eq. 2.3"), but("v - m", "v")),
        Mistake("You find the maximum and the sum in one pass, but terms added before a new maximum are shifted by the "
                "old one. Finish the maximum first (eq. 2.3); lesson 03 does both in one pass.",
                but("max(x)", "x[0]", SUM, "sum(math.exp(v - (m := max(m, v))) for v in x)")),
        Mistake("You load an element twice in one pass, for instance once to compare it and again to keep it. Put it "
                "in a variable: variables are fast memory (section 7).",
                but("m = max(x)", "m = x[0]\n    for i in range(1, len(x)):\n        m = x[i] if x[i] > m else m")),
        Mistake("You store two numbers for each element. If the first is the exponential, that's the tally 3 + 2, or 4 "
                "+ 2 if the sum is its own pass. '3 + 1' computes the exponential a second time and stores only the "
                "weight (section 7).",
                but(*STORED), but(SUM, "0", *STORED, "= math.exp(v - m)\n", "= e = math.exp(v - m)\n        l += e\n")),
        Mistake("You keep a number for every element in fast memory. That's the tally 'row on chip', which works only "
                "while a row fits; here the memory can't depend on its length (section 7).",
                but("m = max(x)", "x = list(x)\n    m = max(x)"),
                but(f"l = {SUM}", "x = [math.exp(v - m) for v in x]\n    l = sum(x)", "math.exp(v - m) / l", "v / l")),
    ),
)
