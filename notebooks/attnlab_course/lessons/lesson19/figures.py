"""The figures of lesson 19, paged attention."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

FIRST, SECOND, LOST = COLORS["tiled"], COLORS["online"], COLORS["naive"]
PARTS = {"tokens": FIRST, "reserved": COLORS["lazy"], "never used": LOST, "outside": "#BBBBBB"}
"""Colors of two requests, and of what the slots of a memory are used for."""


def block(axes: Axes, x: float, y: float, words: Sequence[str], size: int, color: str) -> None:
    """A block of ``size`` cells at (x, y), some of them with a word; an empty one is white."""
    for place in range(size):
        filled = place < len(words)
        axes.add_patch(Rectangle((x + place, y + 0.06), 1, 0.88, facecolor=color if filled else "white",
                                 edgecolor=GRAY, linewidth=0.8))
        if filled:
            axes.text(x + place + 0.5, y + 0.5, words[place], ha="center", va="center", fontsize=8.5, color="white")


def two_requests(texts: Mapping[str, Sequence[str]], tables: Mapping[str, Sequence[int]], size: int,
                 blocks: int) -> Figure:
    """Logical blocks of two requests, left and right, and the physical blocks of the pool, in the middle."""
    figure, axes = canvas(10.6, 0.42 * blocks + 0.9)
    middle, right = size + 3.2, 2 * size + 6.4
    held = {number: (name, index) for name, table in tables.items() for index, number in enumerate(table)}
    cut = {name: [text[start : start + size] for start in range(0, len(text), size)] for name, text in texts.items()}
    for number in range(blocks):
        name, index = held.get(number, (None, 0))
        color = FIRST if name == next(iter(texts)) else SECOND
        block(axes, middle, number, cut[name][index] if name else (), size, color)
        axes.text(middle - 0.15, number + 0.5, str(number), ha="right", va="center", fontsize=9, color=GRAY)
    for side, (name, table) in enumerate(tables.items()):
        x, color = (0, right)[side], (FIRST, SECOND)[side]
        top = (blocks - len(table)) / 2
        axes.text(x + size / 2, top - 0.35, f"request {name}, table {list(table)}", ha="center", fontsize=10)
        for index, number in enumerate(table):
            block(axes, x, top + index, cut[name][index], size, color)
            ends = ((x + size + 0.1, middle - 0.75) if side == 0 else (x - 0.1, middle + size + 0.1))
            axes.annotate("", (ends[1], number + 0.5), (ends[0], top + index + 0.5),
                          arrowprops={"arrowstyle": "-|>", "color": darker(color), "linewidth": 1.4})
    axes.text(middle + size / 2, -0.35, "the pool, by physical block", ha="center", fontsize=10)
    axes.set(xlim=(-0.2, right + size + 0.2), ylim=(blocks + 0.1, -0.9))
    axes.axis("off")
    said = "; ".join(f"request {name} has its blocks at {', '.join(map(str, table))}" for name, table in tables.items())
    figure.set_label(f"Left and right the logical blocks of two requests, in the middle the pool of {blocks} physical "
                     f"blocks. Arrows lead from each logical block to its place: {said}. The last block of a request "
                     "is partly empty.")
    return figure


def waste(found: Mapping[str, Sequence[float]], published: Mapping[str, Sequence[float]]) -> Figure:
    """What the slots are used for, in shares of PARTS, by policy: ours broad, published below it narrow."""
    figure, axes = canvas(9.8, 3.7)
    for row, (name, parts) in enumerate(found.items()):
        for values, y, height in ((parts, row - 0.14, 0.44), (published[name], row + 0.25, 0.2)):
            start = 0.0
            for value, color in zip(values, PARTS.values()):
                if value > 0:  # not nan
                    axes.barh(y, 100 * value, height, left=start, color=color, edgecolor="white", linewidth=0.8)
                    if height > 0.3 and value > 0.03:
                        axes.text(start + 50 * value, y, f"{100 * value:.0f}", ha="center", va="center", fontsize=9.5,
                                  color="white" if color in (FIRST, LOST) else INK)
                    start += 100 * value
        axes.text(101, row - 0.14, "here", va="center", fontsize=8.5, color=GRAY)
        axes.text(101, row + 0.25, "published", va="center", fontsize=8.5, color=GRAY)
    for x, (name, color) in zip((0, 21, 44, 66), PARTS.items()):
        axes.add_patch(Rectangle((x, -0.82), 2.4, 0.22, color=color, clip_on=False))
        axes.text(x + 3.2, -0.71, name, va="center", fontsize=10)
    axes.set_yticks(range(len(found)), list(found))
    axes.set(xlabel="percent of the slots", xlim=(0, 100), ylim=(len(found) - 0.5, -0.95))
    axes.grid(axis="y", visible=False)
    axes.set_axisbelow(True)
    said = "; ".join(f"{name}: {', '.join(f'{part} {100 * x:.0f}' for part, x in zip(PARTS, parts))}"
                     for name, parts in found.items())
    figure.set_label(f"Pairs of bars, the parts of (19.1) in percent by policy; ours, with the published ones below, "
                     f"which leave white what was not published. {said}.")
    return figure
