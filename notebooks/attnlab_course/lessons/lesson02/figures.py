"""The figures of lesson 02, safe softmax."""

from collections.abc import Mapping

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

import numpy as np
from matplotlib.figure import Figure


def valley(distances: np.ndarray, found: Mapping[str, np.ndarray]) -> Figure:
    """Relative error against how far the shift is from the maximum; the line of a dtype ends where NaN begins."""
    figure, axes = canvas(8.2, 4.0)
    axes.set_yscale("log")
    axes.axvline(0, color=COLORS["safe"], linewidth=6, alpha=0.3)
    axes.annotate("the maximum", (0, 3), (6, 0), textcoords="offset points", fontsize=9, color=darker(COLORS["safe"]))
    told = []
    for (dtype, errors), color in zip(found.items(), (COLORS["naive"], COLORS["tiled"], COLORS["online"])):
        first, *_, last = np.flatnonzero(errors < 0.9)
        axes.plot(distances, errors, color=color)
        axes.annotate(dtype, (distances[first], errors[first]), (-8, 0), textcoords="offset points", ha="right",
                      va="center", fontsize=10, color=darker(color))
        told.append(f"{dtype} {np.nanmin(errors):.0e} at the bottom, below 90% from {distances[first]:g} to "
                    f"{distances[last]:g}")
    axes.set(xlabel="shift c − maximum m", ylabel="relative error", xticks=range(-100, 101, 20))
    axes.set(xlim=(-118, 112), ylim=(5e-8, 10))
    figure.set_label("Relative error, logarithmic, against the distance of the shift from the maximum: valleys, the "
                     f"maximum at their bottom, with cliffs at both ends. {'; '.join(told)}.")
    return figure


def accesses(counts: Mapping[str, Mapping[str, tuple[float, float]]]) -> Figure:
    """Loads and stores per element, stacked: a group for each way of using the memory, a bar for each softmax."""
    figure, axes = canvas(8.2, 4.0)
    centers = []
    for group, bars in enumerate(counts.values()):
        for k, (name, (loads, stores)) in enumerate(bars.items()):
            x = group * (len(bars) + 1) + k
            axes.bar(x, loads, color=COLORS[name], width=0.86)
            axes.bar(x, stores, 0.86, loads, color="white", edgecolor=COLORS[name], hatch="///", linewidth=1)
            axes.annotate(f"{loads:.0f} + {stores:.0f}", (x, loads + stores), (0, 3), textcoords="offset points",
                          ha="center", fontsize=10)
            axes.annotate(name, (x, 0), (0, -5), textcoords="offset points", ha="center", va="top", fontsize=9,
                          color=darker(COLORS[name]))
        centers.append(group * (len(bars) + 1) + (len(bars) - 1) / 2)
    axes.set_xticks(centers, counts)
    axes.tick_params(axis="x", length=0, pad=18, labelcolor=INK)
    axes.grid(False, axis="x")
    axes.set_axisbelow(True)
    axes.set(ylabel="accesses per element", ylim=(0, 6.9), yticks=range(7))
    axes.annotate("filled: loads\nhatched: stores", (1, 1), (-4, -4), xycoords="axes fraction",
                  textcoords="offset points", ha="right", va="top", fontsize=9, color=GRAY)
    bars = (f"{way}: " + ", ".join(f"{name} {a:.0f} + {b:.0f}" for name, (a, b) in tally.items())
            for way, tally in counts.items())
    figure.set_label(f"Loads + stores per element, as stacked bars. {'; '.join(bars)}.")
    return figure
