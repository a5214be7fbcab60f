"""One query, keys that arrive one by one: what each of the six programs of lesson 00 still holds after each key."""

import math
from typing import NamedTuple

from attnlab_course.ladder import LADDER
from attnlab_course.plots.moving import Moving
from attnlab_course.plots.moving.drawn import Film, Mark, drawn, word
from attnlab_course.plots.moving.scales import ROW

CHUNK = 3  # keys, as in lesson 00
WIDE, TALL, LEFT = 46, 24, 66  # of a box with its gap, of a row of boxes; where the boxes begin
SCORE = "#8884"


class Kept(NamedTuple):
    """What a program has not forgotten: scores, and the sums (m, l) of parts, each with its o; m None: unshifted."""

    scores: tuple[float, ...]
    sums: tuple[tuple[float | None, float], ...] = ()


def held(name: str, count: int) -> Kept:
    """What the program ``name`` holds after ``count`` of the keys; a last, shorter chunk is computed at the end."""
    seen, whole = ROW[:count], count if count == len(ROW) else count // CHUNK * CHUNK
    if name in ("naive", "safe"):
        return Kept(seen)
    if name == "lazy":
        return Kept((), ((None, sum(map(math.exp, seen))),))
    if name == "online":
        return Kept((), (summed(seen),))
    width = CHUNK if name == "chunked" else len(ROW)
    return Kept(ROW[whole:count], tuple(summed(ROW[at : min(at + width, whole)]) for at in range(0, whole, width)))


def summed(scores: tuple[float, ...]) -> tuple[float, float]:
    """The maximum m, and the sum l of exponentials shifted by it."""
    m = max(scores)
    return m, sum(math.exp(s - m) for s in scores)


def arrivals() -> Moving:
    """A row of boxes for each of the six, one box for each thing held; a step for each key."""
    steps = [((count,), picture(count)) for count in range(1, len(ROW) + 1)]
    last = "; ".join(f"{name} {len(boxes(held(name, len(ROW))))}" for name in LADDER)
    text = ("Eight keys arrive one by one. A row of boxes for each of six programs shows what it holds; naive and safe "
            f"hold every score, lazy and online the same few sums at every step. Boxes after the last key: {last}.")
    words = f"keys that have arrived: {{}} of {len(ROW)}"
    film = Film(LEFT + 9 * WIDE + 4, 20 + (TALL + 12) * len(LADDER), words, steps)
    return drawn({"all six": film}, text)


def boxes(now: Kept) -> list[tuple[str, bool]]:
    """The text of each box, and whether it's a score."""
    sums = [text for m, l in now.sums for text in ([f"m {m:g}"] if m is not None else []) + [f"l {l:.3g}", "o"]]
    return [(text, False) for text in sums] + [(f"{s:g}", True) for s in now.scores]


def picture(count: int) -> list[Mark]:
    """The marks of one step: nine places for each program, of which those in use are drawn."""
    marks = [word(0, 12, "gray: a score; in color: a maximum m, a sum l, a sum of values o")]
    for row, (name, rung) in enumerate(LADDER.items()):
        top, now = 22 + row * (TALL + 12), boxes(held(name, count))
        marks.append(word(0, top + 17, name))
        for place in range(9):
            text, score = now[place] if place < len(now) else ("", True)
            box = {"x": LEFT + place * WIDE, "y": top, "width": WIDE - 4, "height": TALL, "stroke": rung.color,
                   "fill": SCORE if score else "none", "opacity": int(bool(text))}
            marks += [Mark("rect", box), word(LEFT + place * WIDE + 4, top + 17, text)]
    return marks
