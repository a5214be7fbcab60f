"""The figures of lesson 06, gradients and checkpointing."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

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
    said = [f"{title}: {', '.join(f'{name} {size:,}' for name, size, _ in arrays)}" for title, arrays in panels.items()]
    figure.set_label(f"Strips of rectangles drawn to scale, each {n} high, with their elements. {'; '.join(said)}.")
    return figure


def training(runs: Mapping[str, np.ndarray]) -> Figure:
    """Left: losses by step, a curve for each run. Right: how far the others are from the first run, at most so far."""
    figure, (left, right) = canvas(10.0, 3.9, ncols=2)
    first, *others = runs
    styles = {"standard": ("-", 5.5, COLORS["safe"]), "chunked": ("-", 2.2, COLORS["chunked"]),
              "control": ((0, (3, 3)), 1.2, GRAY)}
    for name, loss in runs.items():
        line, width, color = styles[name]
        left.plot(loss, linestyle=line, linewidth=width, color=color, label=name)
    left.set(xlabel="step", ylabel="loss (nats per byte)")
    left.legend(fontsize=9)
    said = []
    for name in others:
        apart = np.maximum.accumulate(abs(runs[name] - runs[first]))
        right.plot(np.maximum(apart, 1e-10), color=styles[name][2], linewidth=2, label=f"{name} − {first}")
        said.append(f"{name}, {apart[-1]:.0e} nats per byte")
    right.plot(runs[first], color=styles[first][2], linewidth=1.5, label="the loss itself")
    right.set_yscale("log")
    right.set(xlabel="step", ylabel="largest difference so far (nats per byte)", ylim=(1e-10, 30))
    right.legend(fontsize=9, loc=(0.5, 0.5))
    falls = [f"{name} from {loss[0]:.1f} to {loss[-1]:.1f}" for name, loss in runs.items()]
    figure.set_label(f"Left: the losses, on top of each other: {', '.join(falls)}. Right, on a logarithmic axis: the "
                     f"loss, and far below it the largest difference from {first} so far, after the last step: "
                     f"{'; '.join(said)}.")
    return figure
