"""Softmax of one row in slow memory, three algorithms by three ways of using the memory, for counting.

    recompute          whatever a later pass needs again, it computes again; statistics stay in fast memory
    separate kernels   every step is a program of its own: it leaves what it found, statistics too, in slow memory
    row on chip        the row is short enough to be copied to fast memory once; all passes run there

Each function reads finite scores from ``x`` and writes their softmax to ``out``. Counted in notebook 02.
"""

from collections.abc import Callable
from math import exp, inf

from attnlab_course.instruments.machine.vector import CountingVector, traffic

Softmax = Callable[[CountingVector, CountingVector], None]


def naive_recompute(x: CountingVector, out: CountingVector) -> None:
    """Two passes: the sum, the weights."""
    l = sum(exp(v) for v in x)
    for i, v in enumerate(x):
        out[i] = exp(v) / l


def safe_recompute(x: CountingVector, out: CountingVector) -> None:
    """Three passes: the maximum, the sum, the weights."""
    m = max(x)
    l = sum(exp(v - m) for v in x)
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def online_recompute(x: CountingVector, out: CountingVector) -> None:
    """Two passes: maximum and sum in one, then the weights (lesson 03)."""
    m, l = -inf, 0.0
    for v in x:
        m_next = max(m, v)
        l = l * exp(m - m_next) + exp(v - m_next)
        m = m_next
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def naive_kernels(x: CountingVector, out: CountingVector) -> None:
    """Exponentials, sum, quotients."""
    e, l = x.temporary(len(x)), x.temporary(1)
    for i, v in enumerate(x):
        e[i] = exp(v)
    l[0] = sum(e)
    divide(e, l, out)


def safe_kernels(x: CountingVector, out: CountingVector) -> None:
    """Maximum, exponentials, sum, quotients."""
    m, e, l = x.temporary(1), x.temporary(len(x)), x.temporary(1)
    m[0] = max(x)
    shift = m[0]
    for i, v in enumerate(x):
        e[i] = exp(v - shift)
    l[0] = sum(e)
    divide(e, l, out)


def online_kernels(x: CountingVector, out: CountingVector) -> None:
    """Maximum and sum together, then the weights."""
    statistics = x.temporary(2)
    m, l = -inf, 0.0
    for v in x:
        m_next = max(m, v)
        l = l * exp(m - m_next) + exp(v - m_next)
        m = m_next
    statistics[0], statistics[1] = m, l
    m, l = statistics
    for i, v in enumerate(x):
        out[i] = exp(v - m) / l


def divide(e: CountingVector, l: CountingVector, out: CountingVector) -> None:
    """The last kernel: every exponential by the sum."""
    total = l[0]
    for i, v in enumerate(e):
        out[i] = v / total


def on_chip(softmax: Softmax) -> Softmax:
    """Run ``softmax`` on a copy of the row in fast memory."""

    def whole_row(x: CountingVector, out: CountingVector) -> None:
        row, weights = CountingVector(x), CountingVector.empty(len(x))
        softmax(row, weights)
        for i, p in enumerate(weights):
            out[i] = p

    return whole_row


TALLIES: dict[str, dict[str, Softmax]] = {
    "recompute": {"naive": naive_recompute, "safe": safe_recompute, "online": online_recompute},
    "separate kernels": {"naive": naive_kernels, "safe": safe_kernels, "online": online_kernels},
    "row on chip": {
        "naive": on_chip(naive_recompute), "safe": on_chip(safe_recompute), "online": on_chip(online_recompute),
    },
}
"""Every way of using the memory, and in each of them every softmax."""


def count(softmax: Softmax, n: int, rows: int = 1) -> tuple[int, int]:
    """Loads and stores of ``softmax``, run on ``rows`` rows of ``n`` scores."""
    vectors = []
    for _ in range(rows):
        x, out = CountingVector(i / n for i in range(n)), CountingVector.empty(n)
        softmax(x, out)
        vectors += [x, out]
    return traffic(*vectors)
