"""The figures of lesson 02, safe softmax."""

from collections.abc import Mapping, Sequence

from attnlab.arguments import LIBRARIES
from attnlab.plots.style import COLORS, GRAY, INK, MARKERS, canvas, darker

import numpy as np
from matplotlib.figure import Figure

LOST = 30.0  # where a NaN is drawn on a logarithmic axis of errors


def exponents(ranges: Mapping[str, tuple[float, float, float]]) -> Figure:
    """A number line of exponents u: for each dtype where e^u is 0, has lost bits, is whole, and overflows.

    ``ranges``: dtype to the largest u with e^u = 0, the smallest with all bits, the largest without overflow.
    """
    figure, axes = canvas(9.6, 3.3)
    low, high = -128.0, 112.0
    axes.axvspan(low, 0, color=COLORS["safe"], alpha=0.13, linewidth=0)
    axes.axvline(0, color=COLORS["safe"], linewidth=2)
    for height, (zero, whole, top) in enumerate(reversed(ranges.values())):
        axes.barh(height, top - whole, left=whole, height=0.36, color=GRAY, alpha=0.55)
        axes.barh(height, whole - zero, left=zero, height=0.36, color=GRAY, alpha=0.22)
        for cliff, side in ((zero, -1), (top, 1)):
            axes.plot([cliff, cliff], [height - 0.2, height + 0.2], color=COLORS["naive"])
            axes.annotate(f"{cliff:.2f}".replace("-", "−"), (cliff, height), (5 * side, 0), textcoords="offset points",
                          ha="left" if side > 0 else "right", va="center", fontsize=9, color=darker(COLORS["naive"]))
        axes.annotate(f"{whole:.2f}".replace("-", "−"), (whole, height + 0.2), (0, 2), textcoords="offset points",
                      ha="center", fontsize=8, color=GRAY)
    top = len(ranges) - 0.42
    axes.text(low + 2, top, "after the shift every exponent lies here", fontsize=9, color=darker(COLORS["safe"]))
    axes.text(high, top, "e^u overflows right of a bar, is 0 left of it", fontsize=9, color=darker(COLORS["naive"]),
              ha="right")
    axes.set(xlim=(low, high), ylim=(-0.55, len(ranges) - 0.1), xlabel="exponent u (dark: e^u has all its bits)")
    axes.set_yticks(range(len(ranges)), [*reversed(ranges)])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(False, axis="y")
    return figure


def errors(
    offsets: np.ndarray, found: Mapping[str, Mapping[str, np.ndarray]], spacing: Mapping[str, float]
) -> Figure:
    """Relative error against the offset of the scores: a panel for each dtype, a line for each softmax.

    ``found``: dtype to softmax to errors; ``spacing``: dtype to the rounding error of one number.
    """
    figure, grid = canvas(10.2, 3.7, ncols=len(found), sharey=True, squeeze=False)
    for axes, (dtype, lines) in zip(grid[0], found.items()):
        axes.set_yscale("log")
        axes.axhline(spacing[dtype], color=GRAY, linewidth=1, linestyle="--")
        for name, error in lines.items():
            lost = np.isnan(error)
            axes.plot(offsets, error, color=COLORS[name], linewidth=3 if name == "safe" else 1.8, label=name,
                      zorder=2 if name == "safe" else 3)
            axes.plot(offsets[lost], np.full(lost.sum(), LOST), "s", color=COLORS[name], markersize=2.5)
        axes.set(title=dtype, xlabel="offset added to every score", ylim=(1e-8, 4 * LOST), xticks=range(0, 121, 20))
    axes = grid[0][0]
    ticks = [10.0**e for e in range(-8, 1, 2)]
    axes.set_yticks([*ticks, LOST], [*(f"$10^{{{round(np.log10(t))}}}$" for t in ticks), "NaN"])
    axes.minorticks_off()
    axes.set_ylabel("relative error")
    axes.annotate("naive", (60, LOST), (0, -13), textcoords="offset points", fontsize=10, color=darker(COLORS["naive"]))
    safe = found[next(iter(found))]["safe"]
    axes.annotate("safe", (60, safe[len(safe) // 2]), (0, 6), textcoords="offset points", fontsize=10,
                  color=darker(COLORS["safe"]))
    last = grid[0][-1]
    last.annotate("rounding of one number", (60, spacing[list(found)[-1]]), (0, -12), textcoords="offset points",
                  ha="center", fontsize=9, color=GRAY)
    return figure


def running_sum(sums: Mapping[str, np.ndarray]) -> Figure:
    """The running sum of ones against the number of terms, one line for each dtype, both axes logarithmic."""
    figure, axes = canvas(6.6, 3.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    styles = {"float32": (GRAY, 5, "-"), "float16": (INK, 2, "-"), "bfloat16": (INK, 2, (0, (4, 1.5)))}
    for name, l in sums.items():
        color, width, style = styles[name]
        axes.plot(np.arange(1, len(l) + 1), l, color=color, linewidth=width, linestyle=style,
                  alpha=0.6 if name == "float32" else 1)
        axes.annotate(f"{name}: {l[-1]:.0f}", (len(l), l[-1]), (6, 0), textcoords="offset points", va="center",
                      fontsize=10, color=darker(color) if color == GRAY else INK)
    ticks = [2**e for e in range(0, 13, 2)]
    axes.set_xticks(ticks, ticks)
    axes.set_yticks(ticks, ticks)
    axes.set(xlabel="terms added, each of them 1", ylabel="running sum l")
    axes.set_xlim(right=2**12 * 9)
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
    return figure


def fusion(lengths: Sequence[int], ratios: Mapping[str, Sequence[float]], expected: float) -> Figure:
    """Time of separate kernels over that of one, against the size of the matrix; ``expected`` from the traffic."""
    figure, axes = canvas(6.6, 3.6)
    axes.set_xscale("log", base=2)
    axes.axhline(expected, color=GRAY, linewidth=1, linestyle="--")
    axes.annotate(f"{expected:g}, by\ntraffic", (1, expected), (4, 0), xycoords=("axes fraction", "data"),
                  textcoords="offset points", fontsize=9, color=GRAY, va="center")
    highest = max(expected, *(value for values in ratios.values() for value in values))
    height = -highest
    for name, values in sorted(ratios.items(), key=lambda item: item[1][-1]):
        axes.plot(lengths, values, MARKERS[name] + "-", color=INK, fillstyle="none", linewidth=1, label=LIBRARIES[name])
        height = max(values[-1], height + highest / 14)  # names are kept apart where lines end together
        axes.annotate(LIBRARIES[name], (lengths[-1], height), (7, 0), textcoords="offset points", va="center",
                      fontsize=10)
    axes.set_xticks(lengths, lengths)
    axes.minorticks_off()
    axes.set(xlabel="rows and columns n", ylabel="time: three kernels ÷ one", ylim=(0, 1.12 * highest))
    axes.margins(x=0.2)
    return figure
