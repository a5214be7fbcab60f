"""Lesson 02, ★★: safe softmax of a vector in slow memory, with three loads and one store per element."""

from math import exp, inf

from attnlab.check.promises import growth, loads_per_element, stores_per_element
from attnlab.check.exercise import Case, Cost, Exercise, Mistake
from attnlab.machine import CountingVector


def safe_softmax_counted(x: CountingVector, out: CountingVector) -> None:
    """Write the softmax of x to out, with at most 3 loads and 1 store per element and constant memory."""
    m = max(x)
    l = sum(exp(v - m) for v in x)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def cases() -> list[Case]:
    """Short vectors of finite scores."""
    scores = {
        "ONE: the score 3": [3.0],
        "CONST: three scores of 5": [5.0, 5.0, 5.0],
        "UP: the scores 0, 1, 2": [0.0, 1.0, 2.0],
        "DOWN: the scores 2, 1, 0": [2.0, 1.0, 0.0],
        "HIGH: the scores 1000, 1001": [1000.0, 1001.0],
        "LOW: three scores of -2000": [-2000.0] * 3,
        "RANDOM: seven scores": [-0.3, 1.2, 0.0, 2.5, -1.7, 2.4, 0.6],
    }
    return [Case(label, (CountingVector(row), CountingVector.empty(len(row)))) for label, row in scores.items()]


def rising(n: int) -> tuple[CountingVector, CountingVector]:
    """A long row in which every score is a new maximum."""
    return CountingVector(i / n for i in range(n)), CountingVector.empty(n)


def bare(x: CountingVector, out: CountingVector) -> None:
    """No shift."""
    l = sum(exp(v) for v in x)
    for i, v in enumerate(x):
        out[i] = exp(v) / l


def from_zero(x: CountingVector, out: CountingVector) -> None:
    """The maximum starts at 0."""
    m = 0.0
    for v in x:
        m = max(m, v)
    l = sum(exp(v - m) for v in x)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def first_twice(x: CountingVector, out: CountingVector) -> None:
    """The first element is in the sum already when the loop over all begins."""
    m = max(x)
    l = exp(x[0] - m)
    for v in x:
        l += exp(v - m)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def one_too_many(x: CountingVector, out: CountingVector) -> None:
    """The sum starts at 1."""
    m, l = max(x), 1.0
    for v in x:
        l += exp(v - m)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def two_shifts(x: CountingVector, out: CountingVector) -> None:
    """The sum is taken of bare exponentials, the weights of shifted ones."""
    m = max(x)
    l = sum(exp(v) for v in x)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def moving_maximum(x: CountingVector, out: CountingVector) -> None:
    """Maximum and sum in one pass, without rescaling the sum."""
    m, l = -inf, 0.0
    for v in x:
        m = max(m, v)
        l += exp(v - m)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def undivided(x: CountingVector, out: CountingVector) -> None:
    """No division."""
    m = max(x)
    for i, v in enumerate(x):
        out[i] = exp(v - m)


def stores_exponentials(x: CountingVector, out: CountingVector) -> None:
    """The exponential is stored, and loaded again to be divided."""
    m, l = max(x), 0.0
    for i, v in enumerate(x):
        e = exp(v - m)
        out[i] = e
        l += e
    for i, e in enumerate(out):
        out[i] = e / l


def separate_kernels(x: CountingVector, out: CountingVector) -> None:
    """Maximum, exponentials, sum, quotients: each reads what the last one wrote."""
    m = max(x)
    for i, v in enumerate(x):
        out[i] = exp(v - m)
    l = sum(out)
    for i, e in enumerate(out):
        out[i] = e / l


def loads_twice(x: CountingVector, out: CountingVector) -> None:
    """The element is loaded to be compared, and again to be kept."""
    m = x[0]
    for i in range(1, len(x)):
        if x[i] > m:
            m = x[i]
    l = sum(exp(v - m) for v in x)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def sums_each_time(x: CountingVector, out: CountingVector) -> None:
    """The sum is computed anew for every element."""
    m = max(x)
    for i in range(len(x)):
        out[i] = exp(x[i] - m) / sum(exp(v - m) for v in x)


def keeps_row(x: CountingVector, out: CountingVector) -> None:
    """The row is copied to fast memory."""
    row = list(x)
    m = max(row)
    l = sum(exp(v - m) for v in row)
    for i, v in enumerate(row):
        out[i] = exp(v - m) / l


def keeps_exponentials(x: CountingVector, out: CountingVector) -> None:
    """The exponentials are kept in fast memory."""
    m = max(x)
    e = [exp(v - m) for v in x]
    l = sum(e)
    for i, v in enumerate(e):
        out[i] = v / l


EXERCISE = Exercise(
    lesson="02",
    stars=2,
    reference=safe_softmax_counted,
    cases=cases,
    costs=(
        Cost(
            stores_per_element(rising, 50), 1.0,
            "It stores {found:.1f} times per element; only the weight itself must be stored (section 7).",
        ),
        Cost(
            loads_per_element(rising, 50), 3.0,
            "It loads {found:.1f} times per element; three passes, each with one load, are enough (section 7).",
        ),
        Cost(
            growth(rising, 200, 400), 1.3,
            "Its memory grew {found:.1f}× when the row became twice as long: it keeps something for every element.",
        ),
    ),
    hints=(
        "What must be known before the first exponential, and what before the first weight? Each takes a loop over x.",
        "Compute the exponential again in the third loop instead of storing it in the second.",
        "In a loop, read x[i] once: keep it in a variable if you need it twice.",
        "Start the maximum at -math.inf and the sum at 0.",
    ),
    mistakes=(
        Mistake(
            "You do not shift the exponents: e^1000 overflows, and with scores of -2000 the sum is 0. Find the maximum "
            "in a first pass (eq. 2.3).",
            bare,
        ),
        Mistake(
            "Your maximum starts at 0, which is no score of this row. If all scores are far below 0, every exponential "
            "vanishes: start at -math.inf or at the first score (eq. 2.3).",
            from_zero,
        ),
        Mistake(
            "Your sum has one term too many: it starts with a term and then runs over all elements. Start it at 0 "
            "(eq. 2.3).",
            first_twice, one_too_many,
        ),
        Mistake(
            "Your sum is of bare exponentials and your weights of shifted ones. The factor e^(-m) cancels only if it "
            "is in both (eq. 2.2).",
            two_shifts,
        ),
        Mistake(
            "You find the maximum and the sum in one pass, but terms added before a new maximum are shifted by the old "
            "one. Finish the maximum first (eq. 2.3); how to do both in one pass is lesson 03.",
            moving_maximum,
        ),
        Mistake(
            "You write the exponentials without dividing them by their sum (eq. 2.3).",
            undivided,
        ),
        Mistake(
            "You load an element twice in one pass, for instance to compare it and again to keep it. Put it in a "
            "variable: variables are fast memory (section 1).",
            loads_twice,
        ),
        Mistake(
            "You store the exponentials and load them again: that is the tally 3 + 2, or 4 + 2 if the sum is a pass of "
            "its own. '3 + 1' computes the exponential a second time (section 7).",
            stores_exponentials, separate_kernels,
        ),
        Mistake(
            "You keep a number for every element in fast memory. That is the tally 'row on chip', which works only "
            "while a row fits; here the memory may not depend on its length (section 7).",
            keeps_row, keeps_exponentials,
        ),
        Mistake(
            "You compute the sum again for every element. It is the same for the whole row: one pass, then keep it in "
            "a variable (eq. 2.3).",
            sums_each_time,
        ),
    ),
)
