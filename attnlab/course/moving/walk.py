"""The walk of the tile: a program of the counting machine, visit by visit."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from attnlab.machine import Machine

import numpy as np

if TYPE_CHECKING:
    from attnlab.course.moving import Moving

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


def run(program: Callable, n: int, m: int, **options: Any) -> Walk:
    """Run a forward program of attnlab.machine and note its visits; its counters end at the machine's."""
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
    arrays = [machine.put(name, random.normal(size=(size, SIZE))) for name, size in zip("QKV", (n, m, m))]
    program(machine, *arrays, **options)
    assert (found[-1].loaded, found[-1].stored) == (machine.loads.total(), machine.stores.total())
    return Walk(n, m, found, machine.peak)


def walk(runs: Mapping[str, Walk]) -> "Moving":
    """The walks of some runs, to be chosen from by name."""
    from attnlab.course.moving import Moving

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
    parts = [
        box("bar", 0, -50, wide, 14), box("keys k", x, -50, w, 14), label(-8, -39, "K"),
        box("bar", 0, -28, wide, 14), box("keys v", x, -28, w, 14), label(-8, -17, "V"),
        box("bar", -34, 0, 14, tall), box("queries q", -34, y, 14, h), label(-22, tall + 18, "Q"),
        box("bar", wide + 18, 0, 14, tall), box("state o", wide + 18, y, 14, h), label(wide + 30, tall + 18, "O"),
        box("unseen", 0, 0, wide, tall), grid, box("scores s", x, y, w, h),
    ]  # fmt: skip
    view = f"{-60} {-58} {wide + 110:.0f} {tall + 84:.0f}"
    return f'<svg viewBox="{view}" width="{wide + 110:.0f}" role="img">{"".join(parts)}</svg>'


def box(name: str, x: float, y: float, width: float, height: float) -> str:
    """A rectangle of a class."""
    return f'<rect class="{name}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'


def label(x: float, y: float, text: str) -> str:
    """A word that ends at x."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="end">{text}</text>'
