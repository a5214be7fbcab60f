"""The figures of lesson 12, real kernels."""

from collections.abc import Mapping, Sequence

from attnlab.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullFormatter

GROUPS = (COLORS["tiled"], "#B59B00", "#4B4B9F", COLORS["chunked"])
"""Heads in the grid; groups of warps in the schedule."""
UNITS = {"products": "tensor cores", "exp": "exponentials"}

Step = tuple[str, int, str, float, float]
"""What a plan consists of: unit, group of warps, label, start, end."""


def grid(heads: int, blocks: int, sms: int) -> Figure:
    """Left: the programs of a grid, one for each block of queries of each head. Right: on which multiprocessor, when.

    The programs are handed out in order and take equally long, so that the n-th runs on multiprocessor n mod sms.
    """
    programs = heads * blocks
    waves = -(-programs // sms)
    figure, (left, right) = canvas(9.6, 0.42 * max(heads, sms) + 1.5, ncols=2, width_ratios=[blocks + 2, waves + 2.5])
    for pid in range(programs):
        head, i = divmod(pid, blocks)
        box(left, i, head, f"{pid}", GROUPS[head % len(GROUPS)])
    for slot in range(waves * sms):
        wave, sm = divmod(slot, sms)
        busy = slot < programs
        box(right, wave, sm, f"{slot}" if busy else "idle", GROUPS[slot // blocks % len(GROUPS)] if busy else PALE,
            ink=INK if busy else GRAY)
    left.set(xticks=range(blocks), yticks=range(heads), xlabel="block of queries i", ylabel="head h")
    left.set_title("programs, numbered h · $T_r$ + i", loc="left")
    right.set(xticks=range(waves), xlabel="wave", ylabel="multiprocessor", yticks=range(sms))
    right.set_title(f"{waves} waves on {sms} multiprocessors", loc="left")
    for axes, columns, rows in ((left, blocks, heads), (right, waves, sms)):
        axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
        axes.grid(False)
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
    return figure


def box(axes: Axes, x: float, y: float, label: str, color: str, ink: str = INK, width: float = 0.92) -> None:
    """A rectangle around (x, y) with a label."""
    left = (x - width / 2, y - 0.4)
    axes.add_patch(Rectangle(left, width, 0.8, facecolor=color, edgecolor="white", alpha=0.75))
    axes.text(x, y, label, ha="center", va="center", fontsize=9, color=ink)


def occupancy(lengths: Sequence[int], shares: Mapping[str, Sequence[float]]) -> Figure:
    """Share of the multiprocessors' slots that hold a program, against the sequence length, one line a grid."""
    figure, axes = canvas(7.6, 3.7)
    axes.set_xscale("log", base=2)
    styles = ((COLORS["naive"], "s--"), (COLORS["tiled"], "o-"))
    for (name, line), (color, mark) in zip(shares.items(), styles):
        axes.plot(lengths, line, mark, color=color, markersize=5.5)
        axes.annotate(name, (lengths[-1], line[-1]), (9, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(color))
    axes.set_xticks(lengths, [f"{n}" if n < 1024 else f"{n // 1024}K" for n in lengths])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set(xlabel="sequence length N (tokens); batch = 16K / N", ylabel="busy slots", ylim=(0, 1.06),
             xlim=(lengths[0] * 0.85, lengths[-1] * 4.2))
    return figure


def schedule(plans: Mapping[str, Sequence[Step]]) -> Figure:
    """Plans under one another: what the tensor cores and the exponential units do, over time, by group of warps."""
    end = max(step[4] for plan in plans.values() for step in plan)
    figure, axes_of = canvas(10.0, 1.22 * len(plans) + 0.8, nrows=len(plans), sharex=True, squeeze=False)
    for axes, (name, plan) in zip(axes_of[:, 0], plans.items()):
        for unit, group, label, start, stop in plan:
            box(axes, (start + stop) / 2, list(UNITS).index(unit), label, GROUPS[group], width=stop - start)
        last = max(stop for *_, stop in plan)
        axes.axvline(last, color=INK, linewidth=1.2, linestyle=":")
        axes.set_title(name, fontsize=10, loc="left")
        axes.set_yticks(range(len(UNITS)), list(UNITS.values()))
        axes.set(ylim=(1.5, -0.5), xlim=(0, end * 1.01))
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(False, axis="y")
        axes.set_axisbelow(True)
    axes_of[-1, 0].set_xlabel("time, in units of the products of one tile, $QK^T$ and $PV$ together")
    return figure


def errors(found: Mapping[str, float]) -> Figure:
    """Root mean square error against float64, one mark a way to compute, on a logarithmic axis."""
    figure, axes = canvas(8.4, 0.46 * len(found) + 1.0)
    axes.set_xscale("log")
    for y, (name, error) in enumerate(found.items()):
        color = COLORS["tiled"] if "FP8" in name else GRAY
        axes.plot([1e-9, error], [y, y], color=color, linewidth=1.2, alpha=0.5)
        axes.plot(error, y, "o", color=color, markersize=8)
        axes.annotate(f"{error:.1e}", (error, y), (9, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(found)), list(found))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="root mean square error of the output", ylim=(len(found) - 0.5, -0.5),
             xlim=(min(found.values()) / 4, max(found.values()) * 4))
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)
    return figure
