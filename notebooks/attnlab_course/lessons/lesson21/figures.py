"""The figures of lesson 21, ring and striped attention."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, DEVICES, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def cell(axes: Axes, x: float, y: float, color: str, text: str = "", size: float = 0.94, dotted: bool = False) -> None:
    """A square with a text in it."""
    line = ":" if dotted else "-"
    axes.add_patch(Rectangle((x, y), size, size, facecolor=color, edgecolor=GRAY, linewidth=0.7, linestyle=line))
    ink = "white" if color == DEVICES[-1] else INK
    axes.text(x + size / 2, y + size / 2, text, ha="center", va="center", fontsize=10, color=ink)


def bare(axes: Axes) -> None:
    """No frame, no ticks."""
    axes.grid(False)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal")


def holders(table: Sequence[Sequence[int]]) -> Figure:
    """Whose block each device holds, a row a step; arrows to the next device. Dotted: hidden by a causal mask."""
    devices = len(table[0])
    figure, axes = canvas(8.6, 4.6)
    for step, row in enumerate(table):
        for r, block in enumerate(row):
            x, y = 2.4 * r, 1.75 * step
            seen = block <= r
            cell(axes, x, y, DEVICES[block] if seen else PALE, f"$K_{block}, V_{block}$", 1.2, not seen)
            if step + 1 < len(table) and r + 1 < devices:
                tip = {"arrowstyle": "->", "color": GRAY, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", (x + 2.36, y + 1.95), (x + 1.24, y + 1.0), arrowprops=tip)
        if step + 1 < len(table):  # the arrow that makes it a ring
            tip = {"arrowstyle": "->", "color": GRAY, "shrinkA": 0, "shrinkB": 0, "linestyle": "--", "linewidth": 0.8}
            axes.annotate("", (1.24, 1.75 * step + 1.72), (2.4 * (devices - 1), 1.75 * step + 1.22), arrowprops=tip)
        axes.text(-0.5, 1.75 * step + 0.6, f"step {step}", ha="right", va="center", fontsize=10)
    for r in range(devices):
        axes.text(2.4 * r + 0.6, -0.35, f"device {r}: $Q_{r}$", ha="center", va="bottom", fontsize=10)
    axes.set(xlim=(-1.9, 2.4 * devices), ylim=(1.75 * len(table) - 0.3, -1.0))
    bare(axes)
    hidden = sum(block > r for row in table for r, block in enumerate(row))
    said = "; ".join(f"device {r} has the blocks {', '.join(str(row[r]) for row in table)}" for r in range(devices))
    figure.set_label(f"{devices} devices, {len(table)} steps; arrows to the next device, and from the last one to "
                     f"device 0. In order of the steps {said}. Dotted are the {hidden} blocks that come after the "
                     "queries of the device, which a causal mask hides.")
    return figure


def layouts(owners: Mapping[str, Sequence[int]]) -> Figure:
    """Which device each token of a text lies on: a row of squares a layout."""
    figure, axes = canvas(9.2, 0.62 * len(owners) + 0.6)
    for y, (name, row) in enumerate(owners.items()):
        for x, device in enumerate(row):
            cell(axes, x, 1.35 * y, DEVICES[device], str(device))
        axes.text(-0.4, 1.35 * y + 0.47, name, ha="right", va="center", fontsize=10)
    length = len(next(iter(owners.values())))
    for x in range(length):
        axes.text(x + 0.47, 1.35 * len(owners) + 0.1, str(x), ha="center", va="center", fontsize=8, color=GRAY)
    axes.text(-0.4, 1.35 * len(owners) + 0.1, "token", ha="right", va="center", fontsize=8, color=GRAY)
    axes.set(xlim=(-3.4, length), ylim=(1.35 * len(owners) + 0.5, -0.2))
    bare(axes)
    said = "; ".join(f"{name}: {', '.join(map(str, row))}" for name, row in owners.items())
    figure.set_label(f"{length} tokens, and the device of each, in {len(owners)} layouts. {said}.")
    return figure


def covered(
    chunks: Sequence[int], work: Sequence[float], links: Mapping[str, Sequence[float]], meets: Mapping[str, int]
) -> Figure:
    """Milliseconds of a step against the tokens a device: the arithmetic, and the transfer over each link.

    ``meets``: from how many tokens on the arithmetic takes longer.
    """
    figure, axes = canvas(8.6, 4.2)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.plot(chunks, work, color=COLORS["tiled"], linewidth=3)
    axes.annotate("arithmetic of a block", (chunks[-1], work[-1]), (6, 0), textcoords="offset points", va="center",
                  color=darker(COLORS["tiled"]))
    for (name, times), style in zip(links.items(), ("-", "--")):
        axes.plot(chunks, times, color=COLORS["online"], linestyle=style)
        axes.annotate(name, (chunks[-1], times[-1]), (6, 0), textcoords="offset points", va="center",
                      color=darker(COLORS["online"]))
        at = float(np.interp(np.log(meets[name]), np.log(chunks), np.log(times)))
        axes.plot(meets[name], np.exp(at), "o", color=INK, markersize=7, zorder=5)
        axes.annotate(f"{meets[name]:,} tokens", (meets[name], np.exp(at)), (10, -12), textcoords="offset points",
                      fontsize=9.5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.set_xticks(chunks[::2], [f"{n // 1024}K" if n >= 1024 else str(n) for n in chunks[::2]])
    axes.set_yticks([1e-3, 1e-2, 1e-1, 1, 10, 100, 1000], ["0.001", "0.01", "0.1", "1", "10", "100", "1000"])
    axes.set_xlim(chunks[0], 9 * chunks[-1])
    axes.set(xlabel="tokens on each device", ylabel="milliseconds of a step")
    said = ", ".join(f"{name} at {at:,} tokens" for name, at in meets.items())
    figure.set_label(f"Milliseconds of a step of the ring against the tokens on each device, from {chunks[0]:,} to "
                     f"{chunks[-1]:,}, both axes logarithmic: arithmetic and the transfer of a block. Arithmetic is "
                     f"the steeper line. It overtakes {said}.")
    return figure


def speedups(
    lengths: Sequence[int], formula: Mapping[int, Sequence[float]], printed: Mapping[int, Sequence[float]],
    tiles: Mapping[int, Sequence[float]], measured: Mapping[int, Sequence[float]],
) -> Figure:
    """Striped over contiguous against the length, by number of devices.

    Lines: the formula's maximum; dots: as printed; dashed: counted by tiles; crosses: measured.
    """
    figure, axes = canvas(9.2, 4.6)
    axes.set_xscale("log", base=2)
    for devices, color in zip(formula, (DEVICES[0], DEVICES[2], DEVICES[1])):
        known = [not np.isnan(y) for y in measured[devices]]
        axes.plot(lengths, formula[devices], color=color)
        axes.plot(lengths, printed[devices], "o", color=color, markeredgecolor=INK, markeredgewidth=0.6)
        axes.plot(np.compress(known, lengths), np.compress(known, tiles[devices]), "--", color=color, linewidth=1.4)
        axes.plot(lengths, measured[devices], "x", color=color, markersize=7, markeredgewidth=2)
        axes.annotate(f"{devices} devices", (lengths[-1], formula[devices][-1]), (8, 0), textcoords="offset points",
                      va="center", color=darker(color))
    axes.axhline(1, color=GRAY, linewidth=1, linestyle=":")
    note = "line: the formula\n● maximum, printed\ndashed: counted in tiles\n× measured"
    axes.text(1.0, 0.16, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=9.5, color=INK)
    axes.set_xticks(lengths, [f"{n // 1024}K" for n in lengths])
    axes.set_xticks([], minor=True)
    axes.set_xlim(lengths[0] / 1.15, 2.4 * lengths[-1])
    axes.set(xlabel="tokens in the sequence", ylabel="how many times faster than the ring")
    said = "; ".join(f"{n} devices: {np.nanmin(row):.2f} to {np.nanmax(row):.2f} measured, where tiles promise up to "
                     f"{np.max(np.compress(~np.isnan(row), tiles[n])):.2f} and the maximum printed is "
                     f"{np.nanmax(printed[n]):.2f}" for n, row in measured.items())
    figure.set_label(f"Speedup of striped over ring attention against the length of the text. {said}.")
    return figure
