"""Programs and L2: waves of programs ask one cache for the keys of their heads, and what it lacks crosses HBM."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attnlab_course.plots.moving.figure import Moving
from attnlab_course.plots.moving.drawn import Film, Mark, box, drawn, outline, word
from attnlab_course.plots.style import DEVICES

HEADS, TILES, KEYS, AT_ONCE, ROOM = 4, 6, 5, 6, 6  # what the figure shows
COLORS = (*DEVICES[:3], "#56B4E9")  # of the heads, light enough for dark numbers
SIDE, APART = 22, 26  # of a square, and from one to the next
SECOND = 200  # where the right half of the picture begins
WIDTH = SECOND + APART * TILES + 110

Program = tuple[int, int]
"""A head, and the number of its block of queries."""


class Asked(NamedTuple):
    """The programs of a wave have asked for one block of keys and values each."""

    first: int  # of the order, which began with this wave
    block: int
    asked: int  # blocks that L2 was asked for so far
    crossed: dict[Program, int]  # head and block → how often it crossed HBM so far
    fresh: list[Program]  # what crossed just now
    slots: list[Program | None]  # what L2 holds


def play(order: Sequence[Program], keys: int, at_once: int, room: int) -> list[Asked]:
    """Run programs in this order, ``at_once`` at a time, over ``keys`` blocks; L2 keeps the ``room`` used last."""
    slots: list[Program | None] = [None] * room
    used: dict[Program, int] = {}  # what L2 holds → its slot, the one used last at the end
    crossed: Counter[Program] = Counter()
    asked, moments = 0, []
    for first in range(0, len(order), at_once):
        wave = order[first : first + at_once]
        for j in range(keys):
            fresh = []
            for head, _ in wave:
                if (head, j) not in used:
                    fresh.append((head, j))
                    slot = used.pop(next(iter(used))) if len(used) == room else len(used)
                    slots[slot] = head, j
                    used[head, j] = slot
                used[head, j] = used.pop((head, j))
            crossed.update(fresh)
            asked += len(wave)
            moments.append(Asked(first, j, asked, dict(crossed), fresh, [*slots]))
    return moments


def orders(heads: int, tiles: int) -> dict[str, list[Program]]:
    """Two orders of the same programs."""
    return {
        "head by head": [(h, i) for h in range(heads) for i in range(tiles)],
        "heads in turn": [(h, i) for i in range(tiles) for h in range(heads)],
    }


def programs() -> Moving:
    """Both orders on a small GPU."""
    runs = {name: play(order, KEYS, AT_ONCE, ROOM) for name, order in orders(HEADS, TILES).items()}
    asked = runs["head by head"][-1].asked
    said = "; ".join(f"{name} {sum(run[-1].crossed.values())} blocks from HBM" for name, run in runs.items())
    text = (
        f"{HEADS * TILES} programs of {HEADS} heads run {AT_ONCE} at a time, all at the same block of keys. L2 keeps "
        f"the {ROOM} blocks used last. They ask L2 for {asked} blocks; {said}, of {HEADS * KEYS}."
    )
    return drawn({name: film(orders(HEADS, TILES)[name], run) for name, run in runs.items()}, text)


def film(order: Sequence[Program], run: Sequence[Asked]) -> Film:
    """Programs at the left; at the right L2, and below it what crossed HBM how often."""
    words = f"wave {{}} of {-(-len(order) // AT_ONCE)}, keys {{}} of {KEYS} · blocks from L2: {{}} · from HBM: {{}}"
    steps = []
    for moment in run:
        shown = [moment.first // AT_ONCE + 1, moment.block + 1, moment.asked, sum(moment.crossed.values())]
        steps.append((shown, [*grid(order, moment), *cache(moment), *memory(moment)]))
    return Film(WIDTH, 84 + APART * (HEADS + 1), words, steps)


def squares(cells: Iterable[Program], left: int, top: int, **attributes: object) -> Mark:
    """Filled squares (row, column) of a table that begins there: each a thick line."""
    middle = top + SIDE // 2
    path = "".join(f"M{left + APART * column} {middle + APART * row}h{SIDE}" for row, column in cells)
    return Mark("path", {"stroke-width": SIDE, **attributes, "d": path})


def grid(order: Sequence[Program], moment: Asked) -> list[Mark]:
    """The programs, a row for each head: pale before their turn, dark while they run, half when done."""
    wave = order[moment.first : moment.first + AT_ONCE]
    marks = [word(0, 12, "programs: a head in each row")]
    for seen, programs in ((0.15, order), (0.4, order[: moment.first]), (1, wave)):
        for head in range(HEADS):
            cells = [program for program in programs if program[0] == head]
            marks.append(squares(cells, 0, 22, stroke=COLORS[head], opacity=seen))
    return marks


def cache(moment: Asked) -> list[Mark]:
    """L2: a slot for each block that it has room for."""
    marks = [word(SECOND, 12, "L2: color of the head, number of the block")]
    for slot, block in enumerate(moment.slots):
        fill = COLORS[block[0]] if block else "none"
        marks.append(box(SECOND + APART * slot, 22, SIDE, SIDE, fill=fill, stroke="#8887"))
        marks.append(number(0, slot, 22, str(block[1]) if block else ""))
    return marks


def memory(moment: Asked) -> list[Mark]:
    """The keys and values in HBM, a row for each head: how often each block crossed; those of this moment outlined."""
    top = 84
    marks = [word(SECOND, top - 10, "HBM: how often each block crossed")]
    for head in range(HEADS):
        row = [(head, block) for block in range(KEYS)]
        marks.append(squares(row, SECOND, top, stroke=COLORS[head], opacity=0.15))
        marks.append(squares([cell for cell in row if cell in moment.crossed], SECOND, top, stroke=COLORS[head]))
        marks += [number(*cell, top, str(moment.crossed.get(cell, ""))) for cell in row]
    corners = ((SECOND + APART * block, top + APART * head) for head, block in moment.fresh)
    return [*marks, Mark("path", {"class": "new", "d": "".join(outline(*corner, SIDE, SIDE) for corner in corners)})]


def number(row: int, column: int, top: int, text: str) -> Mark:
    """A number in a square at the right."""
    return word(SECOND + APART * column + 7, top + APART * row + 16, text, **{"class": "inside"})
