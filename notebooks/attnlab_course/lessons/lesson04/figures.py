"""The figures of lesson 04, lazy and online attention."""

from collections.abc import Mapping, Sequence

from attnlab.core.arguments import LIBRARIES
from attnlab_course.plots.style import COLORS, GRAY, INK, MARKERS, canvas, darker

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

KEYS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def fold(scores: Sequence[float]) -> Figure:
    """Stacked weights e^{s − m} / l after each key, with the score, m, the factor and l written below each bar."""
    figure, axes = canvas(8.6, 4.4)
    m, l, moves = -np.inf, 0.0, []
    for t, score in enumerate(scores):
        m_new = max(m, score)
        factor = np.exp(m - m_new)
        l, m = l * factor + np.exp(score - m_new), m_new
        moved = t > 0 and factor < 1
        if moved:
            moves.append(f"at key {t} by the factor {factor:.2f}")
        stack(axes, t, np.exp(np.array(scores[: t + 1]) - m) / l)
        notes = (f"{score:g}".replace("-", "−"), f"{m:g}".replace("-", "−"), f"{factor:.2f}", f"{l:.2f}")
        for row, note in enumerate(notes):
            axes.text(t, -0.16 - 0.10 * row, note, ha="center", va="center", fontsize=10,
                      weight="bold" if moved and row in (1, 2) else "normal",
                      color=darker(COLORS["naive"]) if moved and row in (1, 2) else INK)
    figure.set_label(
        f"{len(scores)} stacked bars of height 1, one after each key read, divided among the keys read so far. "
        f"Below each bar: the score, the maximum, the factor and the sum. The maximum moves {' and '.join(moves)}; "
        f"at the end it is {m:g}, and the sum is {l:.2f}."
    )
    for row, name in enumerate(("score s", "maximum m", r"factor $e^{m-m'}$", "sum l")):
        axes.text(-0.62, -0.16 - 0.10 * row, name, ha="right", va="center", fontsize=10, color=GRAY)
    axes.set(xlim=(-0.6, len(scores) - 0.4), ylim=(-0.52, 1.02), yticks=[0, 0.5, 1], ylabel="weights of the keys read")
    axes.yaxis.set_label_coords(-0.06, 0.68)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_bounds(0, 1)
    axes.grid(visible=False)
    axes.set_title("one bar after each key; the number in a part is its key", loc="left")
    return figure


def stack(axes: Axes, x: float, weights: Sequence[float]) -> None:
    """A bar at ``x``, divided by the weights of the keys."""
    bottom = 0.0
    for j, weight in enumerate(weights):
        axes.bar(x, weight, 0.72, bottom=bottom, color=KEYS[j % len(KEYS)], edgecolor="white", linewidth=1)
        if weight > 0.07:
            dark = sum(matplotlib.colors.to_rgb(KEYS[j % len(KEYS)])) < 1.4
            axes.text(x, bottom + weight / 2, f"{j}", ha="center", va="center", fontsize=9,
                      color="white" if dark else INK)
        bottom += weight


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
    lengths = list(next(iter(formulas.values())))
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=32)
    axes.margins(x=0.12)
    legend = axes.legend(title="measured", loc="upper left", fontsize=9, title_fontsize=9, frameon=False)
    for handle in legend.legend_handles:
        handle.set_color(INK)
    said = ranges(measured, formulas)
    figure.set_label(f"Numbers held per query against the number of keys, both axes logarithmic. {said}")
    return figure


def ranges(
    measured: Mapping[str, Mapping[str, Mapping[int, float]]], formulas: Mapping[str, Mapping[int, float]]
) -> str:
    """What was measured over the formula, in words."""
    said = []
    for method, line in formulas.items():
        ratios = [held / line[m] for points in measured[method].values() for m, held in points.items()]
        low, high = min(line.values()), max(line.values())
        course = "is level at" if low == high else f"rises from {low:,.0f} to"
        said.append(f"{method}: the line {course} {high:,.0f}; measured {min(ratios):.1f} to {max(ratios):.1f} times.")
    return " ".join(said)

