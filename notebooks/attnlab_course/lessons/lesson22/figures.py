"""The figures of lesson 22, tree attention."""

import math
from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

WAYS = {"keys": COLORS["naive"], "halving": COLORS["lazy"], "doubling": COLORS["online"],
        "query": COLORS["chunked"], "one shot": COLORS["tiled"]}
"""One color for each thing that can travel, and each reduction."""


def moves(devices: int) -> Figure:
    """What travels in one step of decoding: keys around, parts in pairs, the query out and parts back."""
    figure, (left, middle, right) = canvas(10.4, 4.1, ncols=3, width_ratios=[1, 1.15, 1])
    _around(left, devices)
    _pairs(middle, devices)
    _star(right, devices)
    for axes in (left, middle, right):
        axes.grid(False)
        axes.set_anchor("N")
        axes.tick_params(length=0, labelbottom=False, labelleft=False)
        axes.spines[:].set_visible(False)
    return figure


def _places(devices: int) -> list[tuple[float, float]]:
    """Devices on a circle, number 0 on top, clockwise."""
    angles = [math.pi / 2 - 2 * math.pi * r / devices for r in range(devices)]
    return [(math.cos(x), math.sin(x)) for x in angles]


def _device(axes: Axes, x: float, y: float, text: str, color: str = PALE) -> None:
    axes.add_patch(Circle((x, y), 0.15, facecolor=color, edgecolor=GRAY, linewidth=0.8, zorder=3))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color="white" if color != PALE else INK, zorder=4)


def _keys(axes: Axes, x: float, y: float, color: str = PALE) -> None:
    """The keys and values of a device: colored where they travel."""
    axes.add_patch(Rectangle((x - 0.2, y - 0.16), 0.4, 0.32, facecolor=color, edgecolor=GRAY, linewidth=0.6))
    axes.text(x, y, "K, V", ha="center", va="center", fontsize=7.5, color=INK if color == PALE else "white")


def _arrow(axes: Axes, a: Sequence[float], b: Sequence[float], color: str, width: float, style: str = "->") -> None:
    props = {"arrowstyle": style, "color": color, "linewidth": width, "shrinkA": 11, "shrinkB": 11}
    axes.annotate("", b, a, arrowprops=props, zorder=2)


def _around(axes: Axes, devices: int) -> None:
    places = _places(devices)
    for r, (x, y) in enumerate(places):
        _device(axes, x, y, str(r))
        _keys(axes, 1.45 * x, 1.45 * y, WAYS["keys"])
        _arrow(axes, places[r], places[(r + 1) % devices], WAYS["keys"], 3.5)
    axes.set(xlim=(-1.75, 1.75), ylim=(-1.85, 1.85), aspect="equal")
    axes.set_title(f"keys travel: {devices - 1} such steps")


def _pairs(axes: Axes, devices: int) -> None:
    steps = devices.bit_length() - 1
    for step in range(steps + 1):
        y = 1.1 * (steps - step)
        for r in range(devices):
            _device(axes, 0.5 * r, y, str(r), WAYS["doubling"] if step == steps else PALE)
            if step == 0:
                _keys(axes, 0.5 * r, y + 0.42)
            if step < steps:
                for to in (r, r ^ 2**step):
                    _arrow(axes, (0.5 * r, y), (0.5 * to, y - 1.1), GRAY if to == r else WAYS["doubling"], 1.2)
        if step < steps:
            axes.text(-0.35, y - 0.55, f"distance {2**step}", ha="right", va="center", fontsize=9, color=GRAY)
    axes.set(xlim=(-1.9, 0.5 * devices - 0.2), ylim=(-0.35, 1.1 * steps + 0.75), aspect="equal")
    axes.set_title(f"(out, lse) travels: {steps} steps, in pairs")


def _star(axes: Axes, devices: int) -> None:
    places = _places(devices - 1)
    _device(axes, 0, 0, "0", WAYS["query"])
    _keys(axes, -0.5, -0.42)
    for r, (x, y) in enumerate(places, 1):
        _device(axes, 1.1 * x, 1.1 * y, str(r))
        _keys(axes, 1.5 * x, 1.5 * y)
        _arrow(axes, (0, 0), (1.1 * x, 1.1 * y), WAYS["query"], 1.2, "<->")
    axes.set(xlim=(-1.75, 1.75), ylim=(-1.85, 1.85), aspect="equal")
    axes.set_title("the query travels: out and back")


def winners(
    rows: Sequence[float], latencies: Sequence[float], best: Mapping[int, np.ndarray], names: Sequence[str],
    dots: Mapping[str, tuple[float, float]],
) -> Figure:
    """The fastest way by number of rows and latency in microseconds, one map for each number of devices.

    ``best``: indices into ``names``, a row for each latency. ``dots``: (rows, microseconds), named.
    """
    figure, grid = canvas(10.0, 4.4, ncols=len(best), sharey=True)
    colors = ListedColormap([WAYS[name] for name in names])
    for axes, (devices, table) in zip(grid, best.items()):
        axes.pcolormesh(rows, latencies, table, cmap=colors, vmin=0, vmax=len(names) - 1, alpha=0.55, rasterized=True)
        axes.set(xscale="log", yscale="log", xlabel="rows: sequences × query heads", title=f"{devices} devices")
        for index, name in enumerate(names):
            at = np.argwhere(table == index)
            if len(at):
                level = int(np.quantile(at[:, 0], 0.25 if name == "halving" else 0.6))
                y, x = np.log(latencies[level]), np.log(rows)[at[at[:, 0] == level, 1]].mean()
                axes.text(np.exp(x), np.exp(y), name, ha="center", va="center", weight="bold", color=INK)
        for name, (x, y) in dots.items():
            axes.plot(x, y, "o", color=INK, markersize=6)
            axes.annotate(name, (x, y), (7, 0), textcoords="offset points", va="center", fontsize=9)
        axes.grid(False)
    grid[0].set_ylabel("latency of a message in microseconds")
    shares = (f"{devices} devices: " + ", ".join(f"{name} on {(table == at).mean():.0%} of it"
              for at, name in enumerate(names)) for devices, table in best.items())
    marks = (f"{name} at {x:,} rows and {y:g} microseconds" for name, (x, y) in dots.items())
    figure.set_label(
        f"The fastest way, by the number of rows from {rows[0]:,.0f} to {rows[-1]:,.0f} and the latency from "
        f"{latencies[0]:g} to {latencies[-1]:g} microseconds, a map each. {'; '.join(shares)}. Borders are straight "
        f"diagonals. Dots: {', '.join(marks)}."
    )
    return figure
