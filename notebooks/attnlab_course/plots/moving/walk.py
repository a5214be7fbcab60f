"""The walk of the tile: a program of the counting machine, visit by visit."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from attnlab_course.instruments.machine import Machine

import numpy as np

if TYPE_CHECKING:
    from attnlab_course.plots.moving import Moving

UNIT = 260  # the longer side of the scores, in pixels
SIZE = 8  # of one token's query, key or value, in elements


class TileVisit(NamedTuple):
    """A block of queries meets a block of keys: where, and elements in and out until its end, fresh keys or queries."""

    row: int
    rows: int
    col: int
    cols: int
    loaded: int
    stored: int
    keys: bool
    queries: bool


class Walk(NamedTuple):
    """A program's walk over n queries and m keys."""

    n: int
    m: int
    visits: list[TileVisit]
    held: int  # elements on chip at most
    gradient: bool


def run(program: Callable, n: int, m: int, gradient: bool = False, **options: Any) -> Walk:
    """Run a forward or backward program of the machine; the counters of its last visit are the machine's."""
    found: list[TileVisit] = []
    fresh: set[str] = set()
    at = {"Q": slice(0, 0), "K": slice(0, 0)}
    last = ""

    def watch(kind: str, name: str, index: Any, elements: int) -> None:
        nonlocal last
        if kind == "load":
            if found and (last == "store" or name in fresh):
                fresh.clear()
            if not fresh:
                found.append(TileVisit(0, 0, 0, 0, machine.loads.total(), machine.stores.total(), False, False))
            fresh.add(name)
            at[name] = index
        last = kind
        if kind != "fill":
            rows, cols = at["Q"], at["K"]
            found[-1] = TileVisit(
                rows.start, rows.stop - rows.start, cols.start, cols.stop - cols.start,
                machine.loads.total(), machine.stores.total(), "K" in fresh, "Q" in fresh,
            )  # fmt: skip

    machine = Machine(itemsize=1, watch=watch)
    random = np.random.default_rng(0)
    shapes = {"Q": (n, SIZE), "K": (m, SIZE), "V": (m, SIZE)}
    if gradient:
        shapes |= {"O": (n, SIZE), "l": (n,), "m": (n,), "dO": (n, SIZE)}
    program(machine, *(machine.put(name, random.random(shape)) for name, shape in shapes.items()), **options)
    assert (found[-1].loaded, found[-1].stored) == (machine.loads.total(), machine.stores.total())
    return Walk(n, m, found, machine.peak, gradient)


def walk(runs: Mapping[str, Walk]) -> "Moving":
    """The walks of some runs, to be chosen from by name."""
    from attnlab_course.plots.moving import Moving

    first = next(iter(runs.values()))
    text = (
        f"A small tile walks over the square of {first.n} by {first.m} scores in {len(first.visits)} visits. Blocks of "
        f"keys and values above it and of queries and outputs beside it cross into fast memory: at the end "
        f"{first.visits[-1].loaded:,} elements have gone in and {first.visits[-1].stored:,} out, and "
        f"{first.held:,} were held at most."
    )
    trace = {name: [x.m, x.held, [[int(y) for y in visit] for visit in x.visits]] for name, x in runs.items()}
    return Moving("walk", {name: frame(x) for name, x in runs.items()}, trace, text)


def frame(walked: Walk) -> str:
    """The picture of the first visit; the script moves the parts that have a class."""
    unit = UNIT / max(walked.n, walked.m)
    wide, tall = walked.m * unit, walked.n * unit
    visit = walked.visits[0]
    x, y, w, h = (unit * z for z in (visit.col, visit.row, visit.cols, visit.rows))
    tiles = {(v.col, v.row, v.cols, v.rows): None for v in walked.visits}
    grid = "".join(box("tile", *(unit * z for z in tile)) for tile in tiles)
    above, left, right = (("K", "V", "dK", "dV"), ("Q", "O", "dO"), ("dQ",)) if walked.gradient else ("KV", "Q", "O")
    parts = [box("unseen", 0, 0, wide, tall), grid, box("scores", x, y, w, h)]
    for place, name in enumerate(reversed(above)):
        kind, top = "state" if name[0] == "d" else "keys", -28 - 22 * place
        parts += [box("bar", 0, top, wide, 14), box(f"{kind} x", x, top, w, 14), label(-8, top + 11, name)]
    for kind, names, first in (("queries", left, -34), ("state", right, wide + 18)):
        for place, name in enumerate(names):
            start = first - 26 * place
            parts += [box("bar", start, 0, 14, tall), box(f"{kind} y", start, y, 14, h)]
            parts.append(label(start + 12, tall + 18, name))
    edge, top = 34 + 26 * len(left), 14 + 22 * len(above)
    view = f"{-edge} {-top} {wide + edge + 50:.0f} {tall + top + 26:.0f}"
    return f'<svg viewBox="{view}" width="{wide + edge + 50:.0f}" role="img">{"".join(parts)}</svg>'


def box(name: str, x: float, y: float, width: float, height: float) -> str:
    """A rectangle of a class."""
    return f'<rect class="{name}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'


def label(x: float, y: float, text: str) -> str:
    """A word that ends at x."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="end">{text}</text>'
