"""⊕ as scales: every part of a row has its own maximum as the unit, and a merge brings two parts to one scale."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from attnlab_course.plots.moving.figure import Moving
from attnlab_course.plots.moving.drawn import Film, Mark, drawn, word

ROW = (0, -1, 1.5, 0.5, 1, 3, 1, 2.5)  # the row of eight
WIDE, TALL, APART = 44, 120, 48  # of a bar and of e⁰; from bar to bar
TOP = 34  # where e⁰ ends
COLORS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7")  # of the parts, in turn


class Weighed(NamedTuple):
    """Elements first … last of the row, their maximum m, and what each counts for in the sum l."""

    first: int
    last: int
    m: float
    shares: tuple[float, ...]

    @property
    def total(self) -> float:
        """The sum l."""
        return sum(self.shares)


def alone(j: int) -> Weighed:
    """One element: e⁰."""
    return Weighed(j, j, ROW[j], (1.0,))


def merge(a: Weighed, b: Weighed, forget: bool = False) -> Weighed:
    """a ⊕ b, eq. 3.3; ``forget``: without the factors."""
    m = max(a.m, b.m)
    down = (1.0, math.exp(b.m - m)) if forget else (math.exp(a.m - m), math.exp(b.m - m))
    return Weighed(a.first, b.last, m, tuple(down[part is b] * x for part in (a, b) for x in part.shares))


def fold(forget: bool = False) -> list[list[Weighed]]:
    """The parts after each step of a fold."""
    states = [[alone(0)]]
    for j in range(1, len(ROW)):
        states.append([merge(states[-1][0], alone(j), forget)])
    return states


def tree() -> list[list[Weighed]]:
    """The parts after each level of a tree."""
    states = [[alone(j) for j in range(len(ROW))]]
    while len(states[-1]) > 1:
        parts = states[-1]
        states.append([merge(a, b) for a, b in zip(parts[::2], parts[1::2])])
    return states


def scan() -> list[list[Weighed]]:
    """The part that ends at each element, after each level of a scan; in the end, each is a prefix."""
    states, n = [[alone(j) for j in range(len(ROW))]], len(ROW)
    up = [(apart, 2 * apart - 1) for apart in (1, 2, 4)]
    down = [(apart, 3 * apart - 1) for apart in (2, 1)]
    for apart, begin in up + down:
        parts = list(states[-1])
        for j in range(begin, n, 2 * apart):
            parts[j] = merge(parts[j - apart], parts[j])
        states.append(parts)
    return states


def scales() -> Moving:
    """A fold, a tree, a fold that forgets the factor, and a scan."""
    runs = {"fold": fold(), "tree": tree(), "a fold that forgets the factor": fold(forget=True)}
    said = "; ".join(f"{name}: m = {run[-1][0].m:g}, l = {run[-1][0].total:.4f}" for name, run in runs.items())
    text = (
        f"Eight bars, one for each score. A part of the row measures its exponentials relative to its own maximum; "
        f"when two parts merge, the one with the smaller maximum shrinks by one factor. At the end, {said}. A scan "
        f"makes the sum of every prefix in {len(scan()) - 1} steps."
    )
    return drawn({**{name: film(run) for name, run in runs.items()}, "scan": film_of_ends(scan())}, text)


def film(states: Sequence[Sequence[Weighed]]) -> Film:
    """A bar for each element that has been read; below the bars the scores, and m and l of each part."""
    steps = [((number, len(parts)), marks(parts)) for number, parts in enumerate(states, 1)]
    return Film(APART * len(ROW), TOP + TALL + 44, f"step {{}} of {len(states)} · parts: {{}}", steps)


def film_of_ends(states: Sequence[Sequence[Weighed]]) -> Film:
    """A bar for the part that ends at each element, as tall as its l; prefixes in a color of their own."""
    steps, floor = [], TOP + TALL
    for number, parts in enumerate(states, 1):
        bars = [word(0, 12, "l of the part that ends here; orange: a prefix of the row")]
        for j, part in enumerate(parts):
            tall = TALL * part.total / 2.5
            place = {"x": APART * j, "width": WIDE, "y": round(floor - tall, 1), "height": round(tall, 1)}
            bars.append(Mark("rect", {**place, "fill": COLORS[0] if part.first == 0 else COLORS[1]}))
            said = f"{ROW[j]:g}", f"m {part.m:g}", f"l {part.total:.2f}"
            bars += [word(APART * j + 4, floor + 15 + 17 * row, text) for row, text in enumerate(said)]
        steps.append(((number, sum(part.first == 0 for part in parts)), bars))
    return Film(APART * len(ROW), floor + 60, f"step {{}} of {len(states)} · prefixes: {{}}", steps)


def marks(parts: Sequence[Weighed]) -> list[Mark]:
    """One state."""
    found = {j: (part, part.shares[j - part.first]) for part in parts for j in range(part.first, part.last + 1)}
    bars, floor = [word(0, 12, "e to the score, relative to the maximum of its part")], TOP + TALL
    for j, score in enumerate(ROW):
        part, share = found.get(j, (None, 0.0))
        tall = min(TALL, TALL * share)
        fill = COLORS[parts.index(part) % len(COLORS)] if part else "none"
        place = {"x": APART * j, "width": WIDE, "y": round(floor - tall, 1), "height": round(tall, 1)}
        bars.append(Mark("rect", {**place, "fill": fill}))
        bars.append(word(APART * j + 4, floor + 15, f"{score:g}"))
    for j in range(len(ROW)):
        part = next((part for part in parts if part.first == j), None)
        said = f"m {part.m:g}, l {part.total:.2f}" if part and part.last > j else ""
        bars.append(word(APART * j, floor + 34, said))
    return bars
