"""Memory golf: right answers, ranked by the numbers they hold beside their arguments and their result."""

from collections.abc import Callable
from dataclasses import replace

from attnlab_course import check
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Function
from attnlab_course.checker.library import library_of
from attnlab_course.checker.promises import peak
from attnlab_course.checker.verdict import show
from attnlab_course.plots import table

import numpy as np


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Random arrays."""
    rng = np.random.default_rng(18)
    return [rng.normal(size=shape) for shape in shapes]


HOLES: dict[str, Callable[[], tuple]] = {
    "row_deltas": lambda: tuple(arrays((256, 64), (256, 64))),
    "safe_softmax": lambda: tuple(arrays((64, 256))),
    "softmax_vjp": lambda: tuple(arrays((64, 256), (64, 256))),
    "attention_row": lambda: tuple(arrays((64,), (1024, 64), (1024, 64))),
    "attention_in_chunks": lambda: (*arrays((64, 16), (256, 16), (256, 16)), 8, 32),
}
"""The exercises that are played, and the call on which they are measured."""
_best: dict[str, int] = {}


def held(function: Function, name: str) -> int:
    """Numbers of float64 that a function holds at its peak, beyond arguments and result; objects of Python count."""
    measure = peak(lambda _: HOLES[name](), 1, 1)
    return round(min(measure(function, library_of(function, "numpy")) for _ in range(3)))  # threads allocate, too


def play(function: Function) -> None:
    """Check an answer's values, as its exercise does; if they are right, measure it and keep your best."""
    name = function.__name__
    if name not in HOLES:
        raise ValueError(f"no hole is called {name!r}; there are {', '.join(HOLES)}")
    verdict = examine(replace(check.find(name), costs=()), function)
    if verdict.state != "right":
        show(verdict.text, verdict.html())
        return
    numbers = held(function, name)
    _best[name] = min(numbers, _best.get(name, numbers))
    print(f"{name}: right, and holds {numbers:,} numbers. Your best: {_best[name]:,}.")


def board() -> None:
    """Show par, which is what the course's own answer holds, and your best of this session."""
    rows = []
    for name, make in HOLES.items():
        shapes = " ".join(str(x.shape) for x in make() if isinstance(x, np.ndarray))
        rows.append((name, shapes, f"{held(check.find(name).reference, name):,}",
                     f"{_best[name]:,}" if name in _best else "–"))
    table(("hole", "arguments", "par", "your best"), rows)
