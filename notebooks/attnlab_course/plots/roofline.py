"""The roofline of a machine, and what runs below it."""

from collections.abc import Mapping, Sequence

from attnlab_course.instruments.hardware import Accelerator
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def roofline(
    machines: Sequence[Accelerator], algorithms: Mapping[str, tuple[float, float | None]],
    steps: Mapping[int, tuple[float, float]] | None = None,
) -> Figure:
    """The roof of a machine, of further ones in gray, and what runs below it.

    ``algorithms``: name → (intensity, measured FLOP/s or None); a ring on the first machine's roof, a dot where it was
    measured. ``steps``: steps of a fused polynomial → (intensity, measured FLOP/s).
    """
    figure, axes = canvas(8.8, 5.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    machine, steps = machines[0], steps or {}
    intensity = [x for x, _ in [*algorithms.values(), *steps.values()]]
    balances = [m.balance for m in machines]
    left, right = 0.5 * min([*intensity, *balances]), 4 * max([*intensity, *balances])
    rates = [rate for _, rate in [*algorithms.values(), *steps.values()] if rate]
    low, high = min([*rates, machine.attainable(left)]) / 2, 3 * max(m.flops for m in machines)
    axes.axvspan(left, machine.balance, color=PALE, zorder=0)
    for m in reversed(machines):
        first = m is machine
        xs = np.geomspace(left, right, 200)
        axes.plot(xs, [m.attainable(x) for x in xs], color=INK if first else GRAY, linewidth=2.4 if first else 1)
        if not first:
            axes.annotate(f"{m.name}: {m.balance:.3g} FLOP/B", (right, m.flops), (0, 4), textcoords="offset points",
                          ha="right", fontsize=9.5, color=GRAY)
    axes.set_title(f"{machine.name}: balance {machine.balance:.3g} FLOP per byte", loc="left")
    if steps:
        x, rates = zip(*steps.values())
        label = f"polynomial, {min(steps)} to {max(steps)} steps"
        axes.plot(x, rates, "D-", color=GRAY, markersize=5, linewidth=1, zorder=3, label=label)
        axes.legend(loc="upper left", fontsize=9, frameon=False)
    _place(axes, machine, algorithms)
    axes.annotate("memory-bound", (left, low), (6, 6), textcoords="offset points", fontsize=9, color=GRAY)
    axes.annotate("compute-bound", (right, low), (-6, 6), textcoords="offset points", ha="right", fontsize=9,
                  color=GRAY)
    axes.set(xlabel="intensity (FLOP per byte)", ylabel="FLOP/s", xlim=(left, right), ylim=(low, high))
    figure.set_label(_text(machine, algorithms, steps))
    return figure


def _text(
    machine: Accelerator, algorithms: Mapping[str, tuple[float, float | None]], steps: Mapping[int, tuple[float, float]]
) -> str:
    """What the figure shows, for those who can't see it."""
    text = f"Roofline of {machine.name}: a slope up to {machine.balance:.3g} FLOP per byte, then a flat top."
    if steps:
        shares = ", ".join(f"{k} steps {rate / 1e9:.3g}" for k, (_, rate) in steps.items())
        text += f" Diamonds, a polynomial, in GFLOP/s: {shares}."
    dots = [f"{name} {rate / machine.attainable(x):.0%}" for name, (x, rate) in algorithms.items() if rate]
    return text + (f" Dots, the algorithms, in shares of the roof: {', '.join(dots)}." if dots else "")


def _place(axes: Axes, machine: Accelerator, algorithms: Mapping[str, tuple[float, float | None]]) -> None:
    """Rings on the roof, dots where measured; names beside the dots, or above the rings where nothing was measured."""
    groups: dict[float, list[str]] = {}
    for name, (x, _) in algorithms.items():
        groups.setdefault(round(float(np.log10(x)), 1), []).append(name)
    for names in groups.values():
        names.sort(key=lambda name: algorithms[name][1] or 0)
        for rank, name in enumerate(names):
            (x, rate), color = algorithms[name], COLORS[name]
            roof = machine.attainable(x)
            axes.plot(x, roof, "o", color=color, fillstyle="none", markersize=9, markeredgewidth=2, zorder=4)
            if rate is None:
                on_slope = x < machine.balance
                gap = (-9, 4 + 13 * rank) if on_slope else (0, -18 - 13 * rank)
                axes.annotate(name, (x, roof), gap, textcoords="offset points", fontsize=10, color=darker(color),
                              ha="right" if on_slope else "center")
                continue
            axes.plot([x, x], [rate, roof], color=color, linewidth=1, linestyle=":", zorder=2)
            axes.plot(x, rate, "o", color=color, markersize=7, zorder=4)
            side = -1 if len(names) > 1 and rank == 0 else 1
            axes.annotate(name, (x, rate), (side * 8, -2), textcoords="offset points", fontsize=10,
                          color=darker(color), ha="right" if side < 0 else "left", va="center")
