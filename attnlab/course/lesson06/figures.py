"""The figures of lesson 06, gradients and checkpointing."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab.plots.style import COLORS, GRAY, INK, canvas, darker

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def graph() -> Figure:
    """Attention forward, above, and its gradient, below; what the way back needs of P is dashed."""
    figure, axes = canvas(9.0, 3.9)
    axes.set(xlim=(-1.6, 11.4), ylim=(-2.5, 4.6), aspect="equal")
    axes.axis("off")
    arrays = {  # name: place, width, height
        "Q, K": (0, 2.6, 0.7, 1.3), "S": (3, 2.6, 1.3, 1.3), "P": (6, 2.6, 1.3, 1.3), "O": (9.6, 2.6, 0.7, 1.3),
        "V": (7.9, 4.1, 0.7, 0.8), "dQ, dK": (0, 0, 0.7, 1.3), "dS": (3, 0, 1.3, 1.3), "dP": (6, 0, 1.3, 1.3),
        "dO": (9.6, 0, 0.7, 1.3), "dV": (7.9, -1.7, 0.7, 0.8),
    }
    for name, (x, y, width, height) in arrays.items():
        kept = name == "P"
        axes.add_patch(Rectangle((x - width / 2, y - height / 2), width, height, edgecolor=GRAY, linewidth=0.9,
                                 facecolor=COLORS["safe"] if kept else "white" if name[0] == "d" else "#EEEEEE"))
        if width < 1:
            right = name in ("O", "dO")
            axes.text(x + (0.5 if right else -0.5), y, name, ha="left" if right else "right", va="center", fontsize=10,
                      color=INK)
        else:
            axes.text(x, y, name, ha="center", va="center", fontsize=11, color=INK, weight="bold" if kept else "normal")

    def arrow(start: tuple[float, float], end: tuple[float, float], label: str = "", line: str = "-") -> None:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "linestyle": line, "linewidth": 1})
        axes.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.12, label, ha="center", va="bottom", fontsize=9,
                  color=INK)

    arrow((0.4, 2.6), (2.3, 2.6), "product")
    arrow((3.7, 2.6), (5.3, 2.6), "softmax")
    arrow((6.7, 2.6), (9.2, 2.6), "product")
    arrow((7.9, 3.65), (7.9, 3.05))
    arrow((9.2, 0), (6.7, 0))
    axes.text(7.48, -0.55, "(6.4), with V", ha="center", fontsize=9, color=INK)
    arrow((5.3, 0), (3.7, 0), "(6.5)")
    arrow((2.3, 0), (0.4, 0), "(6.6), (6.7)")
    arrow((9.2, -0.35), (8.3, -1.4))
    axes.text(8.95, -1.1, "(6.3)", fontsize=9, color=INK, ha="left")
    for x, y in ((4.5, 0.55), (8.62, -0.85)):
        axes.annotate("", (x, y), (5.6 if x < 6 else 6.5, 1.9), arrowprops={
            "arrowstyle": "->", "color": darker(COLORS["safe"]), "linestyle": "--", "linewidth": 1.3})
    axes.text(5.9, 1.2, "P is needed", fontsize=9, color=darker(COLORS["safe"]), ha="center")
    return figure


def residuals(panels: Mapping[str, Sequence[tuple[str, int, str]]], n: int, tile: tuple[int, int]) -> Figure:
    """What a backward pass waits for, each array a rectangle of its true area, every one ``n`` elements high.

    ``panels``: by title, from left to right, (name, elements, kind); the kind is "input", "tiles", "whole" or
    "row". ``tile``: rows and columns of a tile, drawn into the arrays of kind "tiles".
    """
    fills = {"input": "#DDDDDD", "whole": COLORS["safe"], "tiles": COLORS["chunked"], "row": "#666666"}
    widest = max(sum(size for _, size, _ in arrays) / n for arrays in panels.values())
    rows = -(-len(panels) // 2)
    figure, grid = canvas(9.0, 2.7 * rows, ncols=2, nrows=rows, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, (title, arrays) in zip(grid.flat, panels.items()):
        axes.set(xlim=(-2, widest * 1.5), ylim=(n * 1.02, -0.14 * n), aspect="equal", anchor="W")
        kept = sum(size for _, size, kind in arrays if kind != "input")
        axes.set_title(f"{title}: {kept / n**2:.2f} n²" if kept else f"{title}: only the inputs", loc="left")
        x, beside = 0.0, []
        for name, size, kind in arrays:
            width = size / n
            axes.add_patch(Rectangle((x, 0), width, n, facecolor=fills[kind], edgecolor="white", linewidth=0.8))
            if kind == "tiles":
                for row in range(tile[0], n, tile[0]):
                    axes.plot([x, x + width], [row, row], color="white", linewidth=0.8)
                for column in range(tile[1], n, tile[1]):
                    axes.plot([x + column, x + column], [0, n], color="white", linewidth=0.8)
            if width > 0.15 * n:
                axes.text(x + width / 2, n / 2, name, ha="center", va="center", fontsize=11, color=INK,
                          bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2})
            elif kind == "input":
                axes.text(x + width / 2, -0.03 * n, name, ha="center", va="bottom", fontsize=9, color=INK)
            else:
                beside.append(name)
            x += width + 2
        axes.text(x + 0.03 * n, n / 2, "\n".join(beside), va="center", fontsize=9, color=darker(fills["row"]))
    return figure


def footprints(
    lengths: Sequence[int], sizes: Mapping[str, tuple[Sequence[float], str]],
    published: Mapping[str, tuple[int, Sequence[float]]], formulas: Mapping[str, tuple[int, Sequence[float]]],
) -> Figure:
    """Bars of bytes for each length, one bar an algorithm; ``sizes`` has bytes and color by name.

    ``published`` and ``formulas``: by name, the position of the bar that it belongs to, and its bytes (nan: none).
    """
    figure, axes = canvas(10.0, 4.8)
    axes.set_yscale("log", base=2)
    axes.set_axisbelow(True)
    width, middle = 0.9 / len(sizes), (len(sizes) - 1) / 2
    floor = 2**23
    for i, (name, (values, color)) in enumerate(sizes.items()):
        at = np.arange(len(lengths)) + (i - middle) * width
        axes.bar(at, np.asarray(values, dtype=float) - floor, width * 0.92, bottom=floor, color=color, label=name)
        inside = i == len(sizes) - 2  # above this bar a published point may stand
        for x, value in zip(at, values):
            number, unit = binary(round(value)).split()
            axes.annotate(f"{float(number):.3g}\n{unit}", (x, floor if inside else value), (0, 2), fontsize=7.5,
                          textcoords="offset points", ha="center", va="bottom", linespacing=0.9,
                          color="white" if inside else INK)
    for marker, (name, (bar, values)) in zip("sD__", {**published, **formulas}.items()):
        at = np.arange(len(lengths)) + (bar - middle) * width
        shown = [np.nan if value < 1.2 * floor else value for value in values]
        size, face = (6, "white") if name in published else (17, INK)
        axes.plot(at, shown, marker, color=INK, markerfacecolor=face, markersize=size, linestyle="none", label=name,
                  markeredgewidth=1 if name in published else 2)
    axes.set_xticks(range(len(lengths)), [f"n = 2{superscript(round(np.log2(n)))}" for n in lengths])
    ticks = [2**e for e in range(25, 46, 5)]
    axes.set_yticks(ticks, [binary(tick) for tick in ticks])
    axes.set(ylabel="memory of value and gradient (bytes)", ylim=(floor, 2**47))
    axes.grid(False, axis="x")
    axes.legend(loc="upper left", fontsize=8.5, ncols=2)
    return figure


def superscript(number: int) -> str:
    """A number as an exponent."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def training(
    losses: Mapping[str, Sequence[float]], differences: Mapping[str, Sequence[float]], tolerance: Sequence[float],
    colors: Mapping[str, str],
) -> Figure:
    """Left: losses by step, one curve a run, all of them there. Right: differences from the first run, and what is
    allowed."""
    figure, (left, right) = canvas(10.0, 3.9, ncols=2)
    styles = [("-", 5.5), ("-", 2.2), ((0, (3, 3)), 1.2)]
    for (name, loss), (line, width) in zip(losses.items(), styles):
        left.plot(loss, color=colors[name], linestyle=line, linewidth=width, label=name)
    left.set(xlabel="step", ylabel="loss (nats per byte)")
    left.legend(fontsize=9)
    steps = np.arange(len(tolerance))
    right.plot(steps, tolerance, color=INK, linewidth=1.2, linestyle="--")
    right.annotate("tolerance", (steps[-1], tolerance[-1]), (-2, 5), textcoords="offset points", ha="right",
                   fontsize=9, color=INK)
    right.plot(steps, losses[next(iter(losses))], color=GRAY, linewidth=1)
    right.annotate("the loss itself", (steps[-1], 1.6), (-2, -14), textcoords="offset points", ha="right",
                   fontsize=9, color=GRAY)
    for name, difference in differences.items():
        right.plot(steps, np.maximum(difference, 1e-10), color=colors[name], linewidth=1, label=f"{name} − standard")
    right.set_yscale("log")
    right.set(xlabel="step", ylabel="difference of losses (nats per byte)", ylim=(1e-10, 30))
    right.legend(fontsize=9, loc=(0.5, 0.62))
    return figure
