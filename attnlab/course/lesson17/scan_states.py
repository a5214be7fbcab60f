"""Lesson 17, ★★: the states before all chunks, in few rounds."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake, but

import numpy as np

Add = Callable[[Any, Any], Any]


def scan_states(states: list[Any], add: Add, nothing: Any) -> list[Any]:
    """The states *before* each chunk, from the states of the chunks: [nothing, s0, s0 + s1, …], as many as chunks.

    ``add(a, b)``: the state of a's keys and b's, where b's come after a's. ``nothing``: its identity. For n
    chunks at most 2⌈log₂ n⌉ calls of ``add`` wait for one another, and there are at most n ⌈log₂ n⌉ of them.
    """
    found = [nothing, *states[:-1]][: len(states)]
    step = 1
    while step < len(found):
        found = [add(found[i - step], s) if i >= step else s for i, s in enumerate(found)]  # all at the same time
        step *= 2
    return found


def one_by_one(states: list[Any], add: Add, nothing: Any) -> list[Any]:
    """The fold: right, and each addition waits for the one before."""
    found = [nothing]
    for s in states:
        found.append(add(found[-1], s))
    return found[: len(states)]


def each_by_itself(states: list[Any], add: Add, nothing: Any) -> list[Any]:
    """Right and shallow: a tree for each chunk anew."""

    def total(parts: list[Any]) -> Any:
        half = len(parts) // 2
        return parts[0] if half == 0 else add(total(parts[:half]), total(parts[half:]))

    return [total(states[:i]) if i else nothing for i in range(len(states))]


def plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two states (U, Z), Z as the last column."""
    return a + b


def oplus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⊕ for two pairs (m, l), eq. 3.4."""
    m = max(a[0], b[0])
    if m == -math.inf:
        return a
    return np.array([m, a[1] * math.exp(a[0] - m) + b[1] * math.exp(b[0] - m)])


def after(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x ↦ b(a(x)) for two functions (c, d), x ↦ c x + d: associative, and not commutative."""
    return np.array([b[0] * a[0], b[0] * a[1] + b[1]])


def cases() -> list[Case]:
    """States (U, Z), then two other operators that are associative: the scan asks for no more."""
    rng = np.random.default_rng(17)

    def states(n: int) -> tuple:
        return list(rng.integers(0, 9, size=(n, 2, 3)).astype(float)), plus, np.zeros((2, 3))

    pairs = [np.array([float(x), 1.0]) for x in (2, 0, 3, 1, 5)]
    functions = [np.array([c, d]) for c, d in rng.integers(1, 4, size=(7, 2)).astype(float)]
    one = np.array([1.0, 0.0])
    return [
        Case("ONE: a single chunk: nothing came before it", states(1)),
        Case("two chunks", states(2)),
        Case("three chunks", states(3)),
        Case("four chunks", states(4)),
        Case("RAGGED: seven chunks", states(7)),
        Case("eight chunks", states(8)),
        Case("five pairs (m, l) and ⊕", (pairs, oplus, np.array([-math.inf, 0.0]))),
        Case("six functions c x + d, one after the other: the order counts", (functions[:6], after, one)),
        Case("RAGGED: seven functions", (functions, after, one)),
    ]


@dataclass(frozen=True)
class Span:
    """Chunks start to stop − 1 added up, and how many additions in a row that took."""

    start: int
    stop: int
    depth: int = 0


def counted(answer: Function) -> tuple[int, int]:
    """(additions, the longest chain of them) for the states before 100 chunks; adding nothing takes no time."""
    calls = 0

    def add(a: Span, b: Span) -> Span:
        nonlocal calls
        calls += 1
        if a.start == a.stop or b.start == b.stop:
            return b if a.start == a.stop else a
        return Span(a.start, b.stop, 1 + max(a.depth, b.depth))

    found = answer([Span(i, i + 1) for i in range(CHUNKS)], add, Span(0, 0))
    return calls, max(s.depth for s in found)


CHUNKS, ROUNDS = 100, 7  # ⌈log₂ 100⌉
ROUND = "[add(found[i - step], s) if i >= step else s for i, s in enumerate(found)]"
FIRST = "[nothing, *states[:-1]][: len(states)]"

EXERCISE = Exercise(
    lesson="17", stars=2, reference=scan_states, cases=cases,
    hints=(
        "Shift first: the states before the chunks are the sums up to each place of [nothing, s0, s1, …] without the "
        "last state.",
        "Round 1: add to each the one before it. Round 2: to each the one 2 before, which by now holds two. Then 4, 8, "
        "…: after ⌈log₂ n⌉ rounds each holds all before it.",
        "In a round all sums are made from what the round before left: build a new list.",
        "add(found[i - step], found[i]) for i ≥ step, in this order: what came earlier is the first argument.",
    ),
    mistakes=(
        Mistake("You return other states than asked for: the ones *before* the chunks, which their queries read. "
                "Begin with nothing, shift by one, and leave out the state after all of them (eqs. 17.5 and 17.6).",
                but(FIRST, "list(states)"), but(FIRST, "[nothing, *states]")),
        Mistake("You change the list in the middle of a round: later places read sums of the same round, and chunks "
                "count several times. Build a new list in each round (section 4).",
                but(f"found = {ROUND}", "[found.__setitem__(i, add(found[i - step], found[i])) "
                    "for i in range(step, len(found))]")),
        Mistake("You make one round. It reaches one chunk back; double the step until it passes the beginning "
                "(section 4).",
                but("while step < len(found)", "if step < len(found)")),
        Mistake("Your step stays 1, or grows by one, so chunks count several times. After round r each place holds "
                "2^r chunks, and the next partner is 2^r back: double the step (section 4).",
                but("step *= 2", "step += 1"),
                but("step *= 2", "done += 1", "step = 1\n", "step = done = 1\n", "while step", "while done")),
        Mistake("Your arguments are in the wrong order: what came earlier is the first. Sums of states don't mind, "
                "eq. 17.8; an operator that is associative and not commutative does.",
                but("add(found[i - step], s)", "add(s, found[i - step])")),
        Mistake("You return the state before each *token*'s neighbor, not all that came before: each result holds one "
                "chunk. Add up (eq. 17.8).",
                but("while step < len(found)", "while False")),
        Mistake("Each of your additions waits for the one before: that is the fold, n − 1 in a row. Use that the "
                "sum is associative, eq. 17.8, and add neighbors, then neighbors two apart, then four.",
                one_by_one, but("while step < len(found)", "return one_by_one(states, add, nothing)\n    while False")),
        Mistake("You sum up for each chunk from the beginning: few rounds, and about n²/2 additions. What one round "
                "has summed, the next can use: eq. 17.8.",
                each_by_itself),
    ),
    costs=(
        Cost(lambda answer, library: float(counted(answer)[1]), 2 * ROUNDS, f"Before {CHUNKS} chunks {{found:.0f}} "
             "additions waited for one another; {limit} are allowed."),
        Cost(lambda answer, library: float(counted(answer)[0]), CHUNKS * ROUNDS, f"For {CHUNKS} chunks it made "
             "{found:.0f} additions, where {limit} are allowed."),
    ),
)
