"""The figures of lesson 22, tree attention."""

import math
from collections.abc import Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

KEYS, PARTS = COLORS["naive"], COLORS["online"]  # what travels


def moves(devices: int) -> Figure:
    """What travels in one step of decoding: keys around, or parts in pairs."""
    figure, (left, right) = canvas(8.4, 4.1, ncols=2, width_ratios=[1, 1.15])
    _around(left, devices)
    _pairs(right, devices)
    for axes in (left, right):
        axes.grid(False)
        axes.set_anchor("N")
        axes.tick_params(length=0, labelbottom=False, labelleft=False)
        axes.spines[:].set_visible(False)
    return figure


def _device(axes: Axes, x: float, y: float, text: str, color: str = PALE) -> None:
    axes.add_patch(Circle((x, y), 0.15, facecolor=color, edgecolor=GRAY, linewidth=0.8, zorder=3))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color="white" if color != PALE else INK, zorder=4)


def _keys(axes: Axes, x: float, y: float, color: str = PALE) -> None:
    """The keys and values of a device: colored where they travel."""
    axes.add_patch(Rectangle((x - 0.2, y - 0.16), 0.4, 0.32, facecolor=color, edgecolor=GRAY, linewidth=0.6))
    axes.text(x, y, "K, V", ha="center", va="center", fontsize=7.5, color=INK if color == PALE else "white")


def _arrow(axes: Axes, a: Sequence[float], b: Sequence[float], color: str, width: float) -> None:
    props = {"arrowstyle": "->", "color": color, "linewidth": width, "shrinkA": 11, "shrinkB": 11}
    axes.annotate("", b, a, arrowprops=props, zorder=2)


def _around(axes: Axes, devices: int) -> None:
    """Devices on a circle, number 0 on top, clockwise."""
    angles = [math.pi / 2 - 2 * math.pi * r / devices for r in range(devices)]
    places = [(math.cos(x), math.sin(x)) for x in angles]
    for r, (x, y) in enumerate(places):
        _device(axes, x, y, str(r))
        _keys(axes, 1.45 * x, 1.45 * y, KEYS)
        _arrow(axes, places[r], places[(r + 1) % devices], KEYS, 3.5)
    axes.set(xlim=(-1.75, 1.75), ylim=(-1.85, 1.85), aspect="equal")
    axes.set_title(f"keys travel: {devices - 1} such steps")


def _pairs(axes: Axes, devices: int) -> None:
    """Devices in a row, a row per step."""
    steps = devices.bit_length() - 1
    for step in range(steps + 1):
        y = 1.1 * (steps - step)
        for r in range(devices):
            _device(axes, 0.5 * r, y, str(r), PARTS if step == steps else PALE)
            if step == 0:
                _keys(axes, 0.5 * r, y + 0.42)
            if step < steps:
                for to in (r, r ^ 2**step):
                    _arrow(axes, (0.5 * r, y), (0.5 * to, y - 1.1), GRAY if to == r else PARTS, 1.2)
        if step < steps:
            axes.text(-0.35, y - 0.55, f"distance {2**step}", ha="right", va="center", fontsize=9, color=GRAY)
    axes.set(xlim=(-1.9, 0.5 * devices - 0.2), ylim=(-0.35, 1.1 * steps + 0.75), aspect="equal")
    axes.set_title(f"(out, lse) travels: {steps} steps, in pairs")
