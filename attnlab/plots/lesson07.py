"""The figures of lesson 07, memory hierarchy and intensity."""

from collections.abc import Mapping, Sequence

from attnlab.hardware import Accelerator
from attnlab.plots.style import COLORS, GRAY, INK, LIBRARIES, MARKERS, PALE, binary, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

LINES = {"numpy": INK, "jax": COLORS["chunked"], "torch": COLORS["online"]}


def steps(measured: Mapping[str, Mapping[int, float]]) -> Figure:
    """Bandwidth against the size of the array that is read and written again and again, a line a library."""
    figure, axes = canvas(8.4, 3.9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for name, found in measured.items():
        sizes, rates = list(found), [x / 1e9 for x in found.values()]
        axes.plot(sizes, rates, color=LINES[name], marker=MARKERS[name], markersize=4, linewidth=1.5,
                  label=LIBRARIES[name])
    everything = [x / 1e9 for found in measured.values() for x in found.values()]
    axes.set(xlabel="size of the array (bytes)", ylabel="bandwidth (GB/s), read and write",
             ylim=(0.7 * min(everything), 1.6 * max(everything)))
    ticks = [2**e for e in range(16, 29, 2)]
    axes.set_xticks(ticks, [binary(tick) for tick in ticks])
    plain_ticks(axes)
    if len(measured) > 1:
        axes.legend(loc="lower left", fontsize=10)
    return figure


def plain_ticks(axes: Axes) -> None:
    """1, 2, 5, 10 … on a logarithmic y axis, written out."""
    low, high = axes.get_ylim()
    ticks = [a * 10.0**e for e in range(-4, 8) for a in (1, 2, 5) if low <= a * 10.0**e <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def intensities(
    lengths: Sequence[int], curves: Mapping[str, tuple[Sequence[float], str, str]], counted: Mapping[int, tuple],
    balances: Mapping[str, float],
) -> Figure:
    """Intensity against sequence length.

    ``curves``: label → (values, color, line style); ``counted``: N → intensities counted on the machine;
    ``balances``: machine → FLOP/B, as horizontal lines.
    """
    figure, axes = canvas(8.8, 5.6)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for balance in balances.values():
        axes.axhline(balance, color=GRAY, linewidth=1, linestyle="--", zorder=1)
    for values, color, style in curves.values():
        axes.plot(lengths, values, color=color, linestyle=style, zorder=2)
    ends = [(values[-1], label, darker(color)) for label, (values, color, _) in curves.items()]
    ends += [(balance, f"balance of {name}", GRAY) for name, balance in balances.items()]
    height = 0.0
    for value, label, color in sorted(ends):  # labels keep a distance from each other
        height = max(value, height * 1.31)
        axes.annotate(label, (lengths[-1], height), (6, 0), textcoords="offset points", va="center", fontsize=10,
                      color=color, annotation_clip=False)
    for n, values in counted.items():
        axes.plot([n] * len(values), values, "o", color=INK, fillstyle="none", zorder=3)
    axes.set(xlabel="sequence length N (tokens)", ylabel="intensity (FLOP per byte)", ylim=(0.6, 800),
             xlim=(0.8 * lengths[0], lengths[-1]))
    ticks = [2**e for e in range(7, 18, 2)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    plain_ticks(axes)
    return figure


def roofline(
    machines: Sequence[Accelerator], algorithms: Mapping[str, tuple[float, float | None]],
    layers: Mapping[int, tuple[float, float]] | None = None,
) -> Figure:
    """The roof of a machine, of further ones in gray, and what runs below it.

    ``algorithms``: name → (intensity, measured FLOP/s or None); a ring on the first machine's roof, a dot where it was
    measured. ``layers``: rows of a batch → (intensity, measured FLOP/s) of a linear layer.
    """
    figure, axes = canvas(8.8, 5.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    machine, layers = machines[0], layers or {}
    intensity = [x for x, _ in [*algorithms.values(), *layers.values()]]
    balances = [m.balance for m in machines]
    left, right = 0.5 * min([*intensity, *balances]), 4 * max([*intensity, *balances])
    rates = [rate for _, rate in [*algorithms.values(), *layers.values()] if rate]
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
    for b, (x, rate) in layers.items():
        axes.plot(x, rate, "D", color=GRAY, markersize=4, zorder=3)
        if b in (sorted(layers)[1], max(layers)):
            axes.annotate(f"linear layer, {b} rows", (x, rate), (7, -11), textcoords="offset points", fontsize=9,
                          color=GRAY)
    place(axes, machine, algorithms)
    axes.annotate("memory-bound", (left, low), (6, 6), textcoords="offset points", fontsize=9, color=GRAY)
    axes.annotate("compute-bound", (right, low), (-6, 6), textcoords="offset points", ha="right", fontsize=9,
                  color=GRAY)
    axes.set(xlabel="intensity (FLOP per byte)", ylabel="FLOP/s", xlim=(left, right), ylim=(low, high))
    return figure


def place(axes: Axes, machine: Accelerator, algorithms: Mapping[str, tuple[float, float | None]]) -> None:
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
