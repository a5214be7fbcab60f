"""The figures of lesson 16, windows, rolling caches and sinks."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker, name_line_ends

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


def band(mask: np.ndarray, reached: Sequence[np.ndarray]) -> Figure:
    """Left: the mask of a window, query by key. Right: which positions the last token knows of, layer by layer."""
    n = len(mask)
    figure, (left, right) = canvas(10.2, 4.0, ncols=2, width_ratios=[1, 1.55])
    for i, j in np.ndindex(mask.shape):
        cell(left, j, i, RING if mask[i, j] else PALE if j <= i else "white")
    left.set(xlim=(-0.1, n), ylim=(n, -0.1), xlabel="key j", ylabel="query i", aspect="equal")
    left.set_title("one layer: the band")
    for layer, row in enumerate(reached):
        y = len(reached) - 1 - layer
        for j in range(n):
            cell(right, j, y * 1.45, RING if row[j] else PALE, str(j))
        name = "the last token" if layer == 0 else f"{layer} layer{'s' * (layer > 1)} below: {int(row.sum())}"
        right.text(-0.4, y * 1.45 + 0.47, name, ha="right", va="center", fontsize=10)
    right.set(xlim=(-0.1, n), ylim=(-0.2, 1.45 * len(reached)), aspect="equal")
    right.set_title("what the last token knows of")
    for axes in (left, right):
        axes.grid(False)
        axes.tick_params(length=0, labelbottom=False, labelleft=False)
        axes.spines[:].set_visible(False)
    counts = ", ".join(str(int(row.sum())) for row in reached)
    figure.set_label(
        f"Left: {n} queries by {n} keys, a band of width {int(mask.sum(1).max())} on and below the diagonal. Right: "
        f"{n} tokens, of which the last one knows {counts}, layer by layer.")
    return figure


def ring(policies: Mapping[str, Mapping[int, Sequence[int]]], sinks: int) -> Figure:
    """The slots of a cache, by policy and tokens taken: the position in each, −1 if empty. The newest has an edge."""
    width = len(next(iter(next(iter(policies.values())).values())))
    steps = len(next(iter(policies.values())))
    figure, grid = canvas(10.2, 0.46 * steps + 1.5, ncols=len(policies), squeeze=False)
    for axes, (name, history) in zip(grid.flat, policies.items()):
        for y, (taken, slots) in enumerate(history.items()):
            for x, held in enumerate(slots):
                lost = x < sinks and held >= sinks
                color = "white" if held < 0 else LOST if lost else SINK if held < sinks else RING
                cell(axes, x, y * 1.12, color, "" if held < 0 else str(held), bold=held == taken - 1)
            axes.text(-0.3, y * 1.12 + 0.5, f"after {taken}", ha="right", va="center", fontsize=10)
        axes.set(xlim=(-3.2, width + 0.2), ylim=(steps * 1.12 + 0.9, -0.2), aspect="equal")
        for x in range(width):
            axes.text(x + 0.47, steps * 1.12 + 0.4, str(x), ha="center", va="center", fontsize=8, color=GRAY)
        axes.text(-0.3, steps * 1.12 + 0.4, "slot", ha="right", va="center", fontsize=8, color=GRAY)
        axes.set_title(name)
        axes.axis("off")
    said = []
    for name, history in policies.items():
        rows = "; ".join(f"after {taken} tokens {', '.join('empty' if x < 0 else str(x) for x in slots)}"
                         for taken, slots in history.items())  # fmt: skip
        said.append(f"{name}: {rows}.")
    figure.set_label(f"What {width} slots hold. {' '.join(said)}")
    return figure


def policies(curves: Mapping[str, Sequence[float]], block: int, trained: int, window: int) -> Figure:
    """Bits per byte against position, in blocks of ``block`` positions; the cache's size and the trained length."""
    figure, axes = canvas(9.6, 4.3)
    low, high = min(map(min, curves.values())), max(map(max, curves.values()))
    span = high - low
    styles = ((LOST, "-", 2), (RING, "-", 7), (SINK, "-", 2), (GRAY, "--", 2), (INK, ":", 2))  # broad below narrow
    for values, (color, line, width) in zip(curves.values(), styles):
        x = block * (np.arange(len(values)) + 0.5)
        axes.plot(x, values, color=color, linestyle=line, linewidth=width)
    ends = [(values[-1], name, color) for (name, values), (color, *_) in zip(curves.items(), styles)]
    name_line_ends(axes, x[-1], ends, 0.07 * span)
    for at, text in ((window, "cache full"), (trained, "trained to here")):
        axes.axvline(at, color=GRAY, linewidth=1, linestyle="--")
        axes.annotate(text, (at, high + 0.05 * span), (3, 0), textcoords="offset points", fontsize=9, color=GRAY)
    axes.set(xlabel="position in the text (bytes)", ylabel="bits per byte", xlim=(0, x[-1] * 1.2))
    axes.set_ylim(top=high + 0.12 * span)
    at = trained // block
    said = "; ".join(f"{name} {values[at - 1]:.2f} at {trained}, at most {max(values[at:]):.2f} after it, "
                     f"{values[-1]:.2f} at the end" for name, values in curves.items())  # fmt: skip
    figure.set_label(f"Bits per byte against the position in the text, in blocks of {block} bytes: {said}.")
    return figure


def influence(at: Sequence[int], moved: Mapping[str, Sequence[float]], window: int, reach: int) -> Figure:
    """How many bits a prediction changes with a stretch of text, against its distance; 0 at the bottom of the axis."""
    figure, axes = canvas(9.2, 3.9)
    floor = min(x for values in moved.values() for x in values if x > 0) / 30
    axes.set_yscale("log")
    for (name, values), color in zip(moved.items(), (LOST, RING)):
        kept = [(d, x) for d, x in zip(at, values) if x > 0]
        axes.plot(*zip(*kept), "o-", color=color)
        side, shift = ("right", -10) if len(kept) < len(at) else ("left", 8)
        axes.annotate(name, kept[-1], (shift, 0), textcoords="offset points", va="center", ha=side, fontsize=10,
                      color=darker(color))
        gone = [d for d, x in zip(at, values) if x <= 0]
        axes.plot(gone, [floor] * len(gone), "x", color=color, markersize=8, clip_on=False)
        if gone:
            axes.annotate("exactly 0", (gone[-1], floor), (10, 8), textcoords="offset points", va="center", fontsize=10,
                          color=darker(color))
    for x, text in ((window, "out of the cache"), (reach, "out of reach")):
        axes.axvline(x, color=GRAY, linewidth=1, linestyle="--")
        axes.annotate(text, (x, 1), (4, -4), xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
                      fontsize=9, color=GRAY)
    axes.set(xlabel="distance of the bytes that were replaced", ylabel="change of the prediction (bits)")
    axes.set(xlim=(0, at[-1] * 1.18), ylim=(floor, None))
    said = "; ".join(f"{name} {', '.join(f'{x:.0e} at {d}' if x > 0 else f'0 at {d}' for d, x in zip(at, values))}"
                     for name, values in moved.items())  # fmt: skip
    figure.set_label(
        "How much the prediction changes, in bits on a logarithmic axis, against the distance of the eight bytes that "
        f"were replaced: {said}.")
    return figure


def recall(at: Sequence[int], curves: Mapping[str, Sequence[float]], new: float, window: int) -> Figure:
    """Bits per byte of a text that stood there before, against how far back; ``new``: when it was new."""
    figure, axes = canvas(9.2, 3.5)
    styles = ((LOST, 2), (RING, 7), (SINK, 2))  # broad below narrow
    for values, (color, width) in zip(curves.values(), styles):
        axes.plot(at, values, color=color, linewidth=width)
    ends = [(values[-1], name, color) for (name, values), (color, _) in zip(curves.items(), styles)]
    name_line_ends(axes, at[-1], ends, 0.09 * new)
    axes.axhline(new, color=GRAY, linewidth=1, linestyle=":")
    axes.annotate("when it was new", (at[0], new), (0, 4), textcoords="offset points", fontsize=9, color=GRAY)
    axes.axvline(window, color=GRAY, linewidth=1, linestyle="--")
    axes.annotate("out of the cache", (window, 0.06 * new), (4, 0), textcoords="offset points", fontsize=9, color=GRAY)
    axes.set(xlabel="how many bytes ago", ylabel="bits per byte", ylim=(0, 1.25 * new), xlim=(0, at[-1] * 1.2))
    said = "; ".join(f"{name} {', '.join(f'{x:.2f} at {d}' for d, x in zip(at, values))}"
                     for name, values in curves.items())  # fmt: skip
    figure.set_label(
        f"Bits per byte of the second copy against how many bytes ago the first began: {said}. New text costs "
        f"{new:.2f}.")
    return figure
