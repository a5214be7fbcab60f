"""The figures of lesson 15, sharing keys and splitting keys."""

from collections.abc import Mapping, Sequence

from attnlab_course.instruments.hardware import Accelerator
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

GROUPS = (COLORS["tiled"], COLORS["online"], COLORS["chunked"], COLORS["safe"], COLORS["lazy"], COLORS["naive"])
"""One color a key head."""


def sharing(heads: int, kv_heads: Mapping[str, int]) -> Figure:
    """Query heads above, key heads below, each query joined to the key head that it reads; one panel a model."""
    figure, grid = canvas(10.4, 2.7, ncols=len(kv_heads), squeeze=False)
    for axes, (name, many) in zip(grid[0], kv_heads.items()):
        axes.set(xlim=(-0.7, heads - 0.3), ylim=(-0.75, 1.75))
        axes.axis("off")
        axes.set_title(f"{name}\n{many} key head{'s' if many > 1 else ''}, G = {heads // many}", fontsize=10)
        group = heads // many
        for h in range(heads):
            g = h // group
            middle = g * group + (group - 1) / 2
            axes.plot([h, middle], [0.8, 0.2], color=GROUPS[g], linewidth=1.4)
            _box(axes, h, 1.05, f"$q_{h}$", "white", GROUPS[g])
            if h % group == 0:
                _box(axes, middle, -0.05, f"$k_{g}, v_{g}$", PALE, GROUPS[g], width=0.88)
    grid[0][0].text(-0.7, 1.55, "queries of the new token", fontsize=9, color=GRAY)
    grid[0][0].text(-0.7, -0.7, "cache: all keys and values", fontsize=9, color=GRAY)
    said = "; ".join(f"{name}: {many} key head{'s' * (many > 1)}, each read by {heads // many}"
                     for name, many in kv_heads.items())  # fmt: skip
    figure.set_label(f"{heads} query heads above and key heads below. {said}, consecutive ones.")
    return figure


def _box(axes: Axes, x: float, y: float, text: str, fill: str, edge: str, width: float = 0.72) -> None:
    """A head."""
    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - 0.25), width, 0.5, boxstyle=style, facecolor=fill,
                                  edgecolor=edge, linewidth=1.6))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color=INK)


def throughput(chip: Accelerator, weights: float, caches: Mapping[int, float], heads: int) -> Figure:
    """Tokens per second against the batch, by key heads, up to a dot at the largest batch that fits into the memory."""
    figure, axes = canvas(8.4, 3.8)
    said = []
    for (many, cache), color in zip(caches.items(), (COLORS["safe"], COLORS["online"], COLORS["tiled"])):
        most = int((chip.memory - weights) // cache)
        sizes = np.unique(np.geomspace(1, most, 40).astype(int))
        rates = [size / max(chip.decoding(weights, cache, size, group=heads // many)) for size in sizes]
        axes.plot(sizes, rates, color=color)
        axes.plot(most, rates[-1], "o", color=color)
        axes.annotate(f"{many} key head{'s' * (many > 1)}", (most, rates[-1]), (8, -2), textcoords="offset points",
                      color=darker(color))
        said.append(f"{rates[-1]:,.0f} for {most} with {many}")
    axes.set(xscale="log", yscale="log", xlabel="sequences in the batch", ylabel="tokens per second, at most",
             xlim=(1, 2000))
    figure.set_label("Tokens per second against the batch, both axes logarithmic, up to the largest batch that fits: "
                     f"{', '.join(said)} key heads.")
    return figure


def parts(splits: Sequence[int], busy: Sequence[float], time: Sequence[float], floor: float) -> Figure:
    """Left: busy share of the multiprocessors against the number of parts. Right: µs, and those of memory alone."""
    figure, (left, right) = canvas(10.4, 3.7, ncols=2)
    color = COLORS["chunked"]
    left.bar(splits, [100 * x for x in busy], color=color, width=0.7)
    left.set_axisbelow(True)
    left.set(xlabel="parts of the keys", ylabel="busy multiprocessors (%)", ylim=(0, 109))
    left.set_title("how full the waves are", loc="left")
    right.plot(splits, time, "o-", color=color, markersize=4)
    right.axhline(floor, color=INK, linewidth=1, linestyle="--")
    right.annotate("all bytes at HBM's full rate", (max(splits), floor), (0, -14), textcoords="offset points",
                   fontsize=9, ha="right", color=INK)
    right.set(xlabel="parts of the keys", ylabel="time (µs)", ylim=(0, 1.08 * max(time)))
    right.set_title("the time of a step's reading", loc="left")
    for axes in (left, right):
        axes.set_xticks([1, *range(4, max(splits) + 1, 4)])
    shares = {n: f"{100 * x:.0f} percent at {n}" for n, x in zip(splits, busy)}
    micro = {n: f"{x:.1f} at {n}" for n, x in zip(splits, time)}
    shown = [n for n in (1, 7, 16, 17, 33) if n in shares]
    figure.set_label(
        f"Left: busy share of the multiprocessors against the number of parts, {', '.join(shares[n] for n in shown)}. "
        f"Right: the time in microseconds, {', '.join(micro[n] for n in shown)}; a dashed line at {floor:.1f}: all "
        "bytes at HBM's full rate.")
    return figure
