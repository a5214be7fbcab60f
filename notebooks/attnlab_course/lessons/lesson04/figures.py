"""The figures of lesson 04, lazy and online attention."""

from collections.abc import Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, SHADES, canvas, darker

import numpy as np
from matplotlib.figure import Figure

BOXES = {"s": "#E3E3E3", "m": "#BFD9EA", "l": "#F3DDB0", "o": "#BFE3D6"}


def fold(scores: Sequence[float]) -> Figure:
    """Stacked weights e^{s − m} / l after each key, with the score, m, the factor and l written below each bar."""
    figure, axes = canvas(8.6, 4.4)
    m, l, moves = -np.inf, 0.0, []
    for t, score in enumerate(scores):
        m_new = max(m, score)
        factor = np.exp(m - m_new)
        l, m = l * factor + np.exp(score - m_new), m_new
        if moved := t > 0 and factor < 1:
            moves.append(f"at key {t} by the factor {factor:.2f}")
        weights = np.exp(np.array(scores[: t + 1]) - m) / l
        bars = axes.bar(np.full(t + 1, t), weights, 0.72, bottom=np.cumsum(weights) - weights, color=SHADES,
                        alpha=0.6, edgecolor="white", linewidth=1)
        axes.bar_label(bars, [str(j) if weight > 0.07 else "" for j, weight in enumerate(weights)],
                       label_type="center", fontsize=9, color=INK)
        notes = (f"{score:g}".replace("-", "−"), f"{m:g}".replace("-", "−"), f"{factor:.2f}", f"{l:.2f}")
        for row, note in enumerate(notes):
            bold = {"weight": "bold", "color": darker(COLORS["naive"])} if moved and row in (1, 2) else {}
            axes.text(t, -0.16 - 0.10 * row, note, ha="center", va="center", fontsize=10, **bold)
    figure.set_label(
        f"{len(scores)} stacked bars of height 1, one after each key, divided among the keys read so far. The maximum "
        f"moves {' and '.join(moves)}; at the end it is {m:g}, and the sum is {l:.2f}."
    )
    for row, name in enumerate(("score s", "maximum m", "factor e^(old m − m)", "sum l")):
        axes.text(-0.62, -0.16 - 0.10 * row, name, ha="right", va="center", fontsize=10, color=GRAY)
    axes.set(xlim=(-0.6, len(scores) - 0.4), ylim=(-0.52, 1.02), yticks=[0, 0.5, 1], ylabel="weights of the keys read")
    axes.yaxis.set_label_coords(-0.06, 0.68)
    axes.set(xticks=[], title="one bar after each key; the number in a part is its key")
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_bounds(0, 1)
    axes.grid(visible=False)
    return figure


def held(scores: Sequence[float], values: Sequence[float]) -> Figure:
    """What a query keeps after each key, naive, lazy and online, if a value is one number: a box for each number."""
    kept, said = {"naive": [], "lazy": [], "online": []}, []
    for t in range(1, len(scores) + 1):
        m, e = max(scores[:t]), np.exp(scores[:t])
        l, o = e.sum(), e @ values[:t]
        kept["naive"].append([("s", s) for s in scores[:t]])
        kept["lazy"].append([("l", l), ("o", o)])
        kept["online"].append([("m", m), ("l", l * np.exp(-m)), ("o", o * np.exp(-m))])
    figure, panels = canvas(8.6, 3.2, ncols=3, sharey=True)
    for axes, (method, columns) in zip(panels, kept.items()):
        for t, column in enumerate(columns):
            for y, (name, number) in enumerate(column):
                axes.bar(t, 0.9, 0.94, bottom=y, color=BOXES[name])
                axes.text(t, y + 0.45, f"{number:.2g}".replace("-", "−"), ha="center", va="center", fontsize=6.5)
        for y, (name, _) in enumerate(columns[0]):
            axes.text(-0.7, y + 0.45, name, ha="right", va="center", color=GRAY)
        largest = max(abs(number) for column in columns for _, number in column)
        said.append(f"{method}: from {len(columns[0])} to {len(columns[-1])}, the largest {largest:.1f}.")
        axes.set(xlim=(-1.4, len(scores) - 0.4), title=f"{method}: a column per key")
        axes.axis("off")
    figure.set_label(f"Boxes in a column per key read, one for each number that a query keeps. {' '.join(said)}")
    return figure
