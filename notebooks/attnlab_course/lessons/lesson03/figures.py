"""The figure of lesson 03, online softmax."""

from collections.abc import Sequence

from attnlab_course.plots.style import COLORS, GRAY, canvas

import numpy as np
from matplotlib.figure import Figure

ONLINE = COLORS["online"]


def steps(x: Sequence[float], ks: Sequence[int]) -> Figure:
    """The terms of l after k elements, one panel for each k: every term is shifted by the maximum so far."""
    figure, grid = canvas(max(2.5 * len(ks), 4.6), 2.9, ncols=len(ks), sharey=True, squeeze=False)
    x, told = np.asarray(x, float), []
    for axes, k in zip(grid[0], ks):
        m, before = x[:k].max(), x[: k - 1].max(initial=-np.inf)
        terms, factor = np.exp(x[:k] - m), np.exp(before - m)
        places = np.arange(1, k + 1)
        if factor < 1 and k > 1:
            axes.bar(places[:-1], np.minimum(terms[:-1] / factor, 1), width=0.7, facecolor="none", edgecolor=GRAY,
                     linestyle=":", linewidth=1.2)
        axes.bar(places[:-1], terms[:-1], width=0.7, color=ONLINE)
        axes.bar(places[-1:], terms[-1:], width=0.7, color=GRAY)
        axes.set_axisbelow(True)
        axes.grid(False, axis="x")
        axes.set_xticks(range(1, len(x) + 1), [f"{value:g}" for value in x], fontsize=9)
        axes.set(xlim=(0.4, len(x) + 0.6), ylim=(0, 1.28), yticks=[0, 0.5, 1], xlabel="element x")
        change = "first element" if k == 1 else f"old terms × {factor:.2f}"
        told.append(f"k = {k}, m = {m:g}, l = {terms.sum():.2f}, {change}")
        axes.set_title(f"k = {k}:  m = {m:g},  l = {terms.sum():.2f}\n{change}", fontsize=10, loc="left")
    grid[0, 0].set_ylabel("term of l")
    figure.set_label(f"The terms of l as bars, after each of several elements. Of {x.tolist()}: {'; '.join(told)}.")
    return figure
