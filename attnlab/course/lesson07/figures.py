"""The figures of lesson 07, memory hierarchy and intensity."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab.arguments import LIBRARIES
from attnlab.plots.style import COLORS, GRAY, INK, MARKERS, canvas, darker

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
