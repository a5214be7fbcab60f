"""The figures of lesson 16, windows, rolling caches and sinks."""

from collections.abc import Mapping, Sequence

from attnlab_course.lessons.lesson16.sinks import CACHES
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, name_line_ends

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

RING, SINK, LOST = COLORS["tiled"], COLORS["online"], COLORS["naive"]
"""A key that rolls, a sink, and what went wrong; in the figures of the model dense attention has LOST."""


def cell(axes: Axes, x: float, y: float, color: str, text: str = "", bold: bool = False) -> None:
    """A square, with a text in it."""
    edge, width = (INK, 1.8) if bold else (GRAY, 0.6)
    axes.add_patch(Rectangle((x, y), 0.94, 0.94, facecolor=color, edgecolor=edge, linewidth=width))
    dark = color in (RING, SINK, LOST)
    axes.text(x + 0.47, y + 0.49, text, ha="center", va="center", fontsize=9, color="white" if dark else INK)


def reach(reached: Sequence[np.ndarray]) -> Figure:
    """Which positions the last token knows of, layer by layer."""
    n = len(reached[0])
    figure, axes = canvas(8.6, 3.2)
    for layer, row in enumerate(reached):
        y = 1.3 * (len(reached) - 1 - layer)
        for j in range(n):
            cell(axes, j, y, RING if row[j] else PALE, str(j))
        name = "the last token" if layer == 0 else f"{layer} layer{'s' * (layer > 1)} below: {row.sum()}"
        axes.text(-0.4, y + 0.47, name, ha="right", va="center", fontsize=10)
    axes.set(xlim=(-3.4, n), ylim=(-0.2, 1.3 * len(reached)), aspect="equal")
    axes.axis("off")
    figure.set_label(f"{n} tokens; the last one knows {', '.join(str(row.sum()) for row in reached)}, layer by layer.")
    return figure


def ring(policies: Mapping[str, Mapping[int, Sequence[int]]], sinks: int) -> Figure:
    """The slots of a cache, by policy and tokens taken: the position in each, −1 if empty. The newest has an edge."""
    width = len(next(iter(next(iter(policies.values())).values())))
    steps = len(next(iter(policies.values())))
    figure, grid = canvas(10.2, 0.46 * steps + 1.5, ncols=len(policies), squeeze=False)
    said = []
    for axes, (name, history) in zip(grid.flat, policies.items()):
        for y, (taken, slots) in enumerate(history.items()):
            for x, held in enumerate(slots):
                lost = x < sinks and held >= sinks
                color = "white" if held < 0 else LOST if lost else SINK if held < sinks else RING
                cell(axes, x, y * 1.12, color, "" if held < 0 else str(held), bold=held == taken - 1)
            axes.text(-0.3, y * 1.12 + 0.5, f"after {taken}", ha="right", va="center", fontsize=10)
        axes.set(xlim=(-3.2, width + 0.2), ylim=(steps * 1.12 + 0.9, -0.2), aspect="equal")
        for x, text in ((-1, "slot"), *enumerate(map(str, range(width)))):
            axes.text(x + 0.47, steps * 1.12 + 0.4, text, ha="center", va="center", fontsize=8, color=GRAY)
        axes.set_title(name)
        axes.axis("off")
        rows = "; ".join(f"after {taken} tokens {', '.join('empty' if x < 0 else str(x) for x in slots)}"
                         for taken, slots in history.items())  # fmt: skip
        said.append(f"{name}: {rows}.")
    figure.set_label(f"What {width} slots of a rolling cache hold. {' '.join(said)}")
    return figure


def bits(x: Sequence[float], curves: Mapping[str, Sequence[float]], xlabel: str, marks: Mapping[str, float],
         new: float | None = None) -> Figure:  # fmt: skip
    """Bits per byte, a line for each cache; ``marks``: places of the axis with a text; ``new``: what new text costs."""
    figure, axes = canvas(9.2, 3.7)
    top = 1.2 * max(new or 0, *(max(values) for values in curves.values()))
    for values, (color, width) in zip(curves.values(), ((LOST, 2), (RING, 7), (SINK, 2))):  # broad below narrow
        axes.plot(x, values, color=color, linewidth=width)
    ends = [(values[-1], name, color) for (name, values), color in zip(curves.items(), (LOST, RING, SINK))]
    name_line_ends(axes, x[-1], ends, 0.07 * top)
    for text, at in marks.items():
        axes.axvline(at, color=GRAY, linewidth=1, linestyle="--")
        axes.annotate(text, (at, 0.03 * top), (4, 0), textcoords="offset points", fontsize=9, color=GRAY)
    if new:
        axes.axhline(new, color=GRAY, linewidth=1, linestyle=":")
        axes.annotate("when it was new", (x[0], new), (0, 4), textcoords="offset points", fontsize=9, color=GRAY)
    axes.set(xlabel=xlabel, ylabel="bits per byte", ylim=(0, top), xlim=(0, x[-1] * 1.2))
    said = "; ".join(f"{name} {', '.join(f'{value:.2f} at {at:g}' for at, value in zip(x, values))}"
                     for name, values in curves.items())  # fmt: skip
    figure.set_label(f"Bits per byte against {xlabel}: {said}." + (f" New text costs {new:.2f}." if new else ""))
    return figure


def seeds(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Dots for each model of each kind: left, its weight on BOS; right, its bits with each cache."""
    figure, (left, right) = canvas(10.2, 0.5 * len(runs) + 1.5, ncols=2, sharey=True)
    panels = [(left, {"weight on BOS": "ordinary"}, (RING,)), (right, {x: x for x in CACHES}, (INK, LOST, SINK))]
    said = []
    for axes, columns, colors in panels:
        for n, (label, column) in enumerate(columns.items()):
            shift = 0.22 * (n - (len(columns) - 1) / 2)
            for y, (kind, models) in enumerate(runs.items()):
                found = [run[column] for run in models]
                axes.plot(found, [y + shift] * len(found), "o", color=colors[n], markersize=6, alpha=0.8,
                          label=label if y == 0 else None)  # fmt: skip
                said.append(f"{kind}, {label}: {', '.join(f'{x:.2f}' for x in found)}")
    left.set(yticks=range(len(runs)), yticklabels=list(runs), ylim=(len(runs) - 0.5, -0.5), xlim=(-0.03, 1),
             xlabel="weight of ordinary queries on BOS")  # fmt: skip
    right.set(xlabel="bits per token", xlim=(2, None))
    right.legend(loc="lower right", fontsize=9)
    figure.set_label(f"Six seeds of each model. {'; '.join(said)}.")
    return figure
