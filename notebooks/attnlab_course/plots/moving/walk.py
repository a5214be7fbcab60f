"""The walk of the tile: a program of the counting machine, visit by visit."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attnlab_course.instruments.machine import Machine
from attnlab_course.plots.moving.drawn import Film, Mark, box, drawn, word
from attnlab_course.plots.moving.figure import Moving

import numpy as np

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


def walk(runs: Mapping[str, Walk]) -> Moving:
    """The walks of some runs, to be chosen from by name."""
    first = next(iter(runs.values()))
    text = (
        f"A small tile walks over the square of {first.n} by {first.m} scores in {len(first.visits)} visits. Blocks of "
        f"keys and values above it and of queries and outputs beside it cross into fast memory: at the end "
        f"{first.visits[-1].loaded:,} elements have gone in and {first.visits[-1].stored:,} out, and "
        f"{first.held:,} were held at most."
    )
    return drawn({name: film(each) for name, each in runs.items()}, text)


def film(walked: Walk) -> Film:
    """The scores with blocks of keys above and of queries beside, of a forward or a backward program."""
    above, left, right = (("K", "V", "dK", "dV"), ("Q", "O", "dO"), ("dQ",)) if walked.gradient else ("KV", "Q", "O")
    unit, x, y = UNIT / max(walked.n, walked.m), 34 + 26 * len(left), 14 + 22 * len(above)
    wide, tall = walked.m * unit, walked.n * unit
    tiles = [tuple(unit * z for z in (v.col, v.row, v.cols, v.rows)) for v in walked.visits]

    def marks(at: int) -> list[Mark]:
        visit, (col, row, w, h) = walked.visits[at], tiles[at]
        found = [box(x, y, wide, tall, "unseen")]
        for tile in dict.fromkeys(tiles):
            found.append(box(x + tile[0], y + tile[1], *tile[2:], "tile done" if tile in tiles[:at] else "tile"))
        found.append(box(x + col, y + row, w, h, "scores"))
        for place, name in enumerate(reversed(above)):
            kind, top = "state" if name[0] == "d" else "keys fresh" if visit.keys else "keys", y - 28 - 22 * place
            found += [box(x, top, wide, 14, "bar"), box(x + col, top, w, 14, kind), word(x - 8, top + 11, name, "end")]
        for kind, names, first in (("queries", left, -34), ("state", right, wide + 18)):
            kind += " fresh" * (kind == "queries" and visit.queries)
            for place, name in enumerate(names):
                start = x + first - 26 * place
                found += [box(start, y, 14, tall, "bar"), box(start, y + row, 14, h, kind)]
                found.append(word(start + 12, y + tall + 18, name, "end"))
        return found

    words = f"visit {{}} of {len(tiles)} · moved: {{}} numbers in, {{}} out · held: at most {walked.held:,}"
    steps = [((at + 1, v.loaded, v.stored), marks(at)) for at, v in enumerate(walked.visits)]
    return Film(round(x + wide + 48), round(y + tall + 26), words, steps)
