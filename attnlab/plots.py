"""The figures of the course: one style, one color per algorithm, every figure with a text for those who cannot see it.

Functions take numbers that a lesson computed and return a matplotlib figure; ``show`` displays one.
"""

import base64
import html
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

COLORS = {
    "naive": "#D55E00",
    "safe": "#E69F00",
    "lazy": "#56B4E9",
    "online": "#0072B2",
    "chunked": "#009E73",
    "tiled": "#CC79A7",
}
"""One color per algorithm through the whole course (Okabe and Ito's palette, safe for color-blind readers)."""

INK, GRAY, PALE = "#222222", "#767676", "#F3F3F3"
MARKERS = {"numpy": "o", "jax": "s", "torch": "^"}
LIBRARIES = {"numpy": "NumPy", "jax": "JAX", "torch": "PyTorch"}

SOFTMAX_LADDER = (
    ("naive", "the bare formula", "01"),
    ("safe", "shift by the maximum", "02"),
    ("online", "maximum and sum in one pass", "03"),
)
ATTENTION_LADDER = (
    ("naive", "the bare formula, all scores held", "01"),
    ("safe", "shift each row by its maximum", "02"),
    ("lazy", "divide at the end, keep no score", "04"),
    ("online", "divide at the end, running maximum", "04"),
    ("chunked", "summaries of chunks, combined", "05"),
    ("tiled", "the running fold, tile by tile", "08"),
)
STYLE = {
    "figure.dpi": 100,
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.edgecolor": GRAY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "lines.linewidth": 2,
    "legend.frameon": False,
    "svg.hashsalt": "attnlab",
}


def canvas(width: float, height: float, **grid: Any) -> tuple[Figure, Any]:
    """A figure of ``width`` by ``height`` inches in the course's style, and its axes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(**grid)


def show(figure: Figure, alt: str) -> None:
    """Display a figure in a notebook, with ``alt`` for screen readers."""
    from IPython.display import HTML, display

    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    png, width = base64.b64encode(buffer.getvalue()).decode(), round(figure.get_figwidth() * 100)
    # JupyterLab and nbconvert keep no alternative text for an image output; in HTML they do.
    display(HTML(f'<img alt="{html.escape(alt)}" width="{width}" src="data:image/png;base64,{png}">'))


# The map of the course


def ladders(here: str | None = None) -> Figure:
    """The two ladders of the course; ``here`` is the rung to mark, such as "softmax safe" or "attention lazy"."""
    figure, (left, right) = canvas(10.0, 4.4, ncols=2, width_ratios=[4, 5])
    for axes, name, rungs in ((left, "softmax", SOFTMAX_LADDER), (right, "attention", ATTENTION_LADDER)):
        blank(axes, f"the ladder of {name}", len(ATTENTION_LADDER))
        for height, (rung, idea, lesson) in enumerate(rungs):
            marked = here == f"{name} {rung}"
            box(axes, height, rung, idea, "you are here" if marked else f"lesson {lesson}", marked)
    return figure


def blank(axes: Axes, title: str, height: int) -> None:
    """Axes to draw boxes in."""
    axes.set(xlim=(0, 1), ylim=(-0.1, height))
    axes.set_title(title, loc="left")
    axes.axis("off")


def box(axes: Axes, height: int, rung: str, idea: str, note: str, marked: bool) -> None:
    """One rung."""
    patch = FancyBboxPatch(
        (0.02, height + 0.08), 0.96, 0.66, boxstyle="round,pad=0,rounding_size=0.03",
        mutation_aspect=6, facecolor="white" if marked else PALE,
        edgecolor=COLORS[rung], linewidth=4 if marked else 1.5,
    )
    axes.add_patch(patch)
    axes.text(0.06, height + 0.41, rung, va="center", weight="bold", color=darker(COLORS[rung]))
    axes.text(0.24, height + 0.41, idea, va="center", fontsize=10)
    axes.text(0.96, height + 0.41, note, va="center", ha="right", fontsize=8, color=GRAY)


def darker(color: str) -> tuple[float, ...]:
    """The color for text: dark enough to read on white."""
    return tuple(0.72 * c for c in matplotlib.colors.to_rgb(color))


def square(here: str | None = None) -> Figure:
    """When to divide, against what is known of the maximum; ``here`` is the algorithm to mark."""
    cells = {
        (0, 1): ["naive"],
        (1, 1): ["safe"],
        (0, 0): ["lazy"],
        (1, 0): ["chunked"],
        (2, 0): ["online", "tiled"],
    }
    figure, axes = canvas(9.6, 3.0)
    axes.set(xlim=(-0.5, 2.5), ylim=(-0.5, 1.5), xticks=range(3), yticks=range(2))
    axes.set_xticklabels(["maximum not used", "maximum known beforehand", "maximum running"])
    axes.set_yticklabels(["divide at\nthe end", "divide each\nweight"])
    axes.tick_params(length=0, colors=INK)
    axes.grid(False)
    for x in (-0.5, 0.5, 1.5, 2.5):
        axes.axvline(x, color="#D0D0D0", linewidth=1)
    axes.axhline(0.5, color="#D0D0D0", linewidth=1)
    note = "possible for a softmax:\nits second pass divides"
    axes.text(2, 1, note, ha="center", va="center", fontsize=9, color=GRAY)
    for (x, y), rungs in cells.items():
        for i, rung in enumerate(rungs):
            style = {"boxstyle": "round", "facecolor": "white", "edgecolor": COLORS[rung] if rung == here else "white"}
            axes.text(
                x, y + 0.18 * (len(rungs) - 1) - 0.36 * i, rung, ha="center", va="center", weight="bold",
                color=darker(COLORS[rung]), bbox={**style, "linewidth": 3},
            )
    return figure


# Figures of lesson 01


def matrices(named: Mapping[str, np.ndarray]) -> Figure:
    """Small matrices of weights side by side, queries down, keys across, each entry written in its cell."""
    columns = [matrix.shape[1] for matrix in named.values()]
    figure, grid = canvas(sum(columns) * 0.62 + 1.4, 2.9, ncols=len(named), width_ratios=columns, squeeze=False)
    for axes, (title, matrix) in zip(grid[0], named.items()):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1.9)
        axes.grid(False)
        axes.set(title=title, xlabel="key j", ylabel="query i")
        axes.set(xticks=range(matrix.shape[1]), yticks=range(matrix.shape[0]))
        axes.tick_params(length=0)
        for (i, j), p in np.ndenumerate(matrix):
            axes.text(j, i, f"{p:.2f}".rstrip("0").rstrip(".") if p else "·", ha="center", va="center", fontsize=9)
    return figure


def memory(
    measured: Mapping[str, Mapping[int, int]], formulas: Mapping[str, tuple[Sequence[int], Sequence[int]]],
    limits: Mapping[str, int], colors: Mapping[str, str],
) -> Figure:
    """Bytes against sequence length: ``formulas`` as lines, ``measured`` as points, ``limits`` as horizontal lines."""
    figure, axes = canvas(7.6, 4.4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for name, (lengths, sizes) in formulas.items():
        axes.plot(lengths, sizes, color=colors[name])
        axes.annotate(name, (lengths[-1], sizes[-1]), (4, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(colors[name]))
    for name, sizes in measured.items():
        axes.plot(list(sizes), list(sizes.values()), MARKERS[name], color=INK, fillstyle="none", label=LIBRARIES[name])
    for name, size in limits.items():
        axes.axhline(size, color=GRAY, linewidth=1, linestyle="--")
        axes.annotate(name, (axes.get_xlim()[0], size), (4, 3), textcoords="offset points", fontsize=9, color=GRAY)
    exponents = range(10, 2 * 64, 5)
    low, high = axes.get_ylim()
    ticks = [2**e for e in exponents if low <= 2**e <= high]
    axes.set_yticks(ticks, [binary(tick) for tick in ticks])
    axes.set(xlabel="sequence length N (tokens)", ylabel="extra memory (bytes)")
    axes.margins(x=0.16)
    axes.legend(title="measured, one head", loc="upper left", fontsize=9, title_fontsize=9, frameon=False)
    return figure


def binary(size: int) -> str:
    """A number of bytes in the largest binary unit that divides it well."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.4g} {unit}"
        size = size / 1024
    raise AssertionError


def cliffs(scores: np.ndarray, weights: np.ndarray, marks: Sequence[tuple[str, float, str]]) -> Figure:
    """n · p of n equal scores against the score: 1 is right; where it is 0 or NaN, naive softmax failed.

    ``marks``: name, score and side ("left" or "right") of each cliff.
    """
    figure, axes = canvas(8.6, 3.4)
    axes.plot(scores, weights, color=COLORS["naive"])
    lost = np.isnan(weights)
    axes.plot(scores[lost], np.full(lost.sum(), -0.22), ".", color=COLORS["naive"], markersize=3)
    for name, score, side in marks:
        axes.axvline(score, color=GRAY, linewidth=1, linestyle=":")
        align, gap = ("right", -4) if side == "left" else ("left", 4)
        axes.annotate(name, (score, 1.12), (gap, 0), textcoords="offset points", ha=align, fontsize=9, color=GRAY)
    axes.set(xlabel="score", ylabel="n · p  (right: 1)", ylim=(-0.35, 1.25), yticks=[-0.22, 0, 1])
    axes.set_yticklabels(["NaN", "0", "1"])
    return figure


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        ladders().savefig(sys.argv[1], metadata={"Date": None})
