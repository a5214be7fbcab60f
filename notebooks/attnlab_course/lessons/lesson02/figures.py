"""The figures of lesson 02, safe softmax."""

from collections.abc import Mapping

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

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
    reach = ", ".join(f"{dtype} from {zero:.2f} to {top:.2f}" for dtype, (zero, _, top) in ranges.items())
    figure.set_label(f"A number line of exponents u. e^u is neither 0 nor infinite in {reach}. After the shift all "
                     "exponents are left of 0.")
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
    figure.set_label("Relative error against the offset of the scores, vertical axis logarithmic. " + " ".join(
        _told(dtype, offsets, lines["naive"], lines["safe"] / spacing[dtype]) for dtype, lines in found.items()))
    return figure


def _told(dtype: str, offsets: np.ndarray, naive: np.ndarray, safe: np.ndarray) -> str:
    """What a panel of :func:`errors` shows; ``safe`` in rounding errors."""
    zero, nan = offsets[naive >= 0.99][0], offsets[np.isnan(naive)][0]
    return (f"{dtype}: the naive softmax is wrong by 100% from an offset of {zero:g} on and NaN from {nan:g}; the safe "
            f"one stays below {np.ceil(safe.max()):.0f} rounding errors of one number at every offset.")


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
