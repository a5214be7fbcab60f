"""The figures of lesson 04, lazy and online attention."""

from collections.abc import Mapping, Sequence

from attnlab.arguments import LIBRARIES
from attnlab.plots.style import COLORS, GRAY, INK, MARKERS, canvas, darker

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

KEYS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def fold(scores: Sequence[float], shown: int | None = None) -> Figure:
    """Stacked weights e^{s − m} / l after each key, with the score, m, the factor and l written below each bar.

    ``shown``: how many keys have been read; None is all. Keys still to come leave empty places.
    """
    count, shown = len(scores), len(scores) if shown is None else shown
    figure, axes = canvas(8.6, 4.4)
    m, l = -np.inf, 0.0
    for t in range(shown):
        m_new = max(m, scores[t])
        factor = np.exp(m - m_new)
        l, m = l * factor + np.exp(scores[t] - m_new), m_new
        weights = np.exp(np.array(scores[: t + 1]) - m) / l
        bottoms = np.cumsum([0, *weights[:-1]])
        for j, (weight, bottom) in enumerate(zip(weights, bottoms)):
            axes.bar(t, weight, 0.72, bottom=bottom, color=KEYS[j % len(KEYS)], edgecolor="white", linewidth=1)
            if weight > 0.07:
                dark = sum(matplotlib.colors.to_rgb(KEYS[j % len(KEYS)])) < 1.4
                axes.text(t, bottom + weight / 2, f"{j}", ha="center", va="center", fontsize=9,
                          color="white" if dark else INK)
        moved = t > 0 and factor < 1
        notes = (f"{scores[t]:g}".replace("-", "−"), f"{m:g}".replace("-", "−"), f"{factor:.2f}", f"{l:.2f}")
        for row, note in enumerate(notes):
            axes.text(t, -0.16 - 0.10 * row, note, ha="center", va="center", fontsize=10,
                      weight="bold" if moved and row in (1, 2) else "normal",
                      color=darker(COLORS["naive"]) if moved and row in (1, 2) else INK)
    for row, name in enumerate(("score s", "maximum m", r"factor $e^{m-m'}$", "sum l")):
        axes.text(-0.62, -0.16 - 0.10 * row, name, ha="right", va="center", fontsize=10, color=GRAY)
    axes.set(xlim=(-0.6, count - 0.4), ylim=(-0.52, 1.02), yticks=[0, 0.5, 1], ylabel="weights of the keys read")
    axes.yaxis.set_label_coords(-0.06, 0.68)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_bounds(0, 1)
    axes.grid(visible=False)
    axes.set_title("one bar after each key; the number in a part is its key", loc="left")
    return figure


def memory(
    measured: Mapping[str, Mapping[str, Mapping[int, float]]], formulas: Mapping[str, Mapping[int, float]]
) -> Figure:
    """Extra numbers held per query against the number of keys: formulas as lines, measured points by library."""
    figure, axes = canvas(7.8, 4.4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    styles = {"lazy": (0, (4, 3)), "online": "-", "naive": "-"}
    shift = {"naive": 0, "online": -7, "lazy": 8}
    for method, line in formulas.items():
        x, y = list(line), list(line.values())
        axes.plot(x, y, color=COLORS[method], linestyle=styles[method], zorder=3 if method == "lazy" else 2)
        axes.annotate(method, (x[-1], y[-1]), (6, shift[method]), textcoords="offset points", va="center",
                      fontsize=10, color=darker(COLORS[method]))
    labeled = set()
    for method, libraries in measured.items():
        for library, points in libraries.items():
            axes.plot(list(points), list(points.values()), MARKERS[library], color=darker(COLORS[method]),
                      fillstyle="none", markersize=8 if method == "lazy" else 6,
                      label=None if library in labeled else LIBRARIES[library])
            labeled.add(library)
    axes.set(xlabel="number of keys M", ylabel="extra numbers held per query")
    ticks = [2**e for e in range(5, 16, 2)]
    axes.set_yticks(ticks, [f"{t:,}" for t in ticks])
    xticks = [2**e for e in range(8, 16, 2)]
    axes.set_xticks(xticks, [f"{t:,}" for t in xticks])
    axes.set_ylim(bottom=32)
    axes.margins(x=0.12)
    legend = axes.legend(title="measured", loc="upper left", fontsize=9, title_fontsize=9, frameon=False)
    for handle in legend.legend_handles:
        handle.set_color(INK)
    return figure


def trade(
    blocks: Sequence[int], seconds: Sequence[float], numbers: Sequence[float], formula: Sequence[float]
) -> Figure:
    """Left: time against the number of keys read at once. Right: numbers held per query, measured and by formula."""
    figure, (left, right) = canvas(9.0, 3.4, ncols=2)
    for axes, name in ((left, "time (s)"), (right, "numbers held per query")):
        axes.set_xscale("log", base=2)
        axes.set(xlabel="keys read at once", ylabel=name)
        axes.set_xticks(blocks[::2], [f"{b:,}" for b in blocks[::2]])
        axes.xaxis.set_minor_locator(NullLocator())
    left.set_yscale("log")
    left.plot(blocks, seconds, "o-", color=COLORS["online"], markersize=5)
    left.yaxis.set_major_formatter("{x:g}")
    left.yaxis.set_minor_formatter(NullFormatter())
    right.set_yscale("log", base=2)
    right.plot(blocks, formula, color=COLORS["online"], label="formula")
    right.plot(blocks, numbers, "o", color=INK, fillstyle="none", markersize=5, label="measured (NumPy)")
    ticks = [2**e for e in range(7, 14)]
    right.set_yticks(ticks, [f"{t:,}" for t in ticks])
    right.legend(loc="upper left", fontsize=9, frameon=False)
    return figure
