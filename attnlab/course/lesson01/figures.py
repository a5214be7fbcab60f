"""The figures of lesson 01, naive attention."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab.arguments import LIBRARIES
from attnlab.plots.style import COLORS, GRAY, INK, MARKERS, canvas, darker

import numpy as np
from matplotlib.figure import Figure


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
