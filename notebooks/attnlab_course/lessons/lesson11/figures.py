"""The figures of lesson 11, block-sparse attention."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab_course.instruments.clock import Clock
from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker
from attnlab_course.published import PublishedTable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

TILED = COLORS["tiled"]
SPARSE = darker(TILED)
CLASSES = ListedColormap(["white", "#F3DCE9", TILED])
LINES = {
    "pytorch": ("PyTorch", COLORS["safe"], "s-"),
    "megatron": ("Megatron", darker(COLORS["safe"]), "v--"),
    "linformer": ("Linformer", GRAY, "^-"),
    "flash": ("FlashAttention", TILED, "o-"),
    "block_sparse": ("block-sparse", SPARSE, "D--"),
}
"""How the rows of Tables 20 and 21 are drawn: name, color, marks."""


def gallery(patterns: Mapping[str, np.ndarray]) -> Figure:
    """Patterns side by side, a square for each tile: 0 hidden is white, 1 partial pale, 2 full dark; s above each."""
    figure, grid = canvas(10.4, 3.2, ncols=len(patterns), squeeze=False)
    for axes, (name, table) in zip(grid[0], patterns.items()):
        squares(axes, table)
        axes.set_title(f"{name}\ns = {(table > 0).mean():.1%}", fontsize=10)
        axes.set_xlabel("block of keys")
    grid[0][0].set_ylabel("block of queries")
    told = (f"{name}: {(table == 2).sum()} full, {(table == 1).sum()} partial, {(table == 0).sum()} hidden tiles, "
            f"{(table > 0).mean():.1%} visible" for name, table in patterns.items())
    figure.set_label(f"Patterns of {len(table)} by {len(table)} tiles. {'. '.join(told)}.")
    return figure


def squares(axes: Axes, table: np.ndarray) -> None:
    """One pattern."""
    axes.imshow(table, cmap=CLASSES, vmin=0, vmax=2)
    rows, cols = table.shape
    axes.set_xticks(np.arange(cols + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(False)
    axes.grid(True, which="minor", color="#D8D8D8", linewidth=0.6)
    axes.tick_params(which="both", length=0, labelsize=8)
    axes.set(xticks=[0, cols - 1], yticks=[0, rows - 1])


def sparsity(
    shares: Sequence[float], counted: Mapping[str, Sequence[float | int]], lines: Mapping[str, Sequence[int]],
    clock: Clock, sizes: tuple[int, int],
) -> Figure:
    """Left: bytes against s, counted as dots on the closed forms' lines. Right: time over that at s = 1, fitted.

    ``counted`` and ``lines`` by pass, ``clock`` by name, for the shares of visible tiles ``shares``, the last of which
    is 1. ``sizes``: N of the left and of the right panel.
    """
    figure, (left, right) = canvas(10.4, 4.0, ncols=2)
    marks = {"forward": "o", "backward": "s"}
    for name, line in lines.items():
        left.plot(shares, np.array(line) / 2**20, color=TILED, zorder=1)
        left.annotate(name, (shares[-1], line[-1] / 2**20), (8, 0), textcoords="offset points", va="center",
                      fontsize=10, color=SPARSE)
    for name, points in counted.items():
        left.plot(shares, np.array(points) / 2**20, marks[name], color=INK, fillstyle="none", zorder=2)
    left.set_title(f"N = {sizes[0]}: counted bytes on their closed forms", loc="left")
    left.set_xticks(np.linspace(0, 1, 6))
    left.set(xlabel="s, share of tiles that are visible", ylabel="HBM traffic (MiB)", xlim=(0, 1.3), ylim=(0, None))

    right.plot([0, 1], [0, 1], color=GRAY, linestyle=":", linewidth=1.4)
    right.annotate("s · dense", (0.93, 0.93), (6, -14), textcoords="offset points", fontsize=9, color=GRAY)
    styles = [("o", INK), ("^", SPARSE)]
    fits = []
    for (name, rows), (mark, color) in zip(clock.seconds.items(), styles):
        low, relative, high = np.array(list(rows.values())).T / rows[shares[-1]][1]
        slope, start = np.polyfit(shares, relative, 1)
        fits.append(f"{name}: {start:.2f} + {slope:.2f} · s")
        right.plot(shares, relative, mark, color=color, fillstyle="none", label=fits[-1])
        right.vlines(shares, low, high, color=color, linewidth=3, alpha=0.3)
        right.plot([0, 1], [start, start + slope], color=color, linewidth=1.2)
    right.set_title(f"N = {sizes[1]}: time on this machine, a + b·s", loc="left")
    right.set(xlabel="s, share of tiles that are visible", ylabel="time ÷ time at s = 1", xlim=(0, 1.1), ylim=(0, None))
    right.legend(loc="upper left", fontsize=9, frameon=False)
    ends = "; ".join(f"{name} from {line[0] / 2**20:.0f} to {line[-1] / 2**20:.0f} MiB" for name, line in lines.items())
    figure.set_label(
        f"Two panels against the share s of visible tiles, from {shares[0]:.2f} to 1. Left: bytes, counted points on "
        f"straight lines, {ends}. Right: time over the time at s = 1, with fitted lines, {'; '.join(fits)}."
    )
    return figure


def table20(record: PublishedTable, rows: Sequence[str]) -> Figure:
    """Table 20: milliseconds against N, both logarithmic; the doubling in which lines cross is shaded."""
    figure, axes = canvas(8.8, 5.0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10)
    axes.axvspan(512, 1024, color="#F3F3F3", zorder=0)
    for key in rows:
        name, color, mark = LINES[key]
        times = 1e3 * np.array(record.rows[key].values)
        axes.plot(record.at, times, mark, color=color, markersize=5.5)
        last = int(np.flatnonzero(~np.isnan(times))[-1])
        gap, side = {"block_sparse": ((8, -9), "left"), "linformer": ((8, 7), "left"), "pytorch": ((-9, 4), "right"),
                     "megatron": ((-9, 10), "right")}.get(key, ((8, 0), "left"))
        axes.annotate(name, (record.at[last], times[last]), gap, textcoords="offset points", va="center", ha=side,
                      fontsize=10, color=darker(color) if isinstance(color, str) else color)
    for n, (where, exponent) in {8192: ("flash", 2), 16384: ("block_sparse", 1)}.items():
        y = 1e3 * record.rows[where].values[record.at.index(n)]
        axes.annotate(f"slope {exponent}", (n, y), (-4, 10) if exponent == 2 else (4, -18), textcoords="offset points",
                      fontsize=9, color=INK, ha="right" if exponent == 2 else "left")
    axes.set_xticks(record.at, [f"{n}" if n < 1024 else f"{n // 1024}K" for n in record.at])
    axes.set_yticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="sequence length N (tokens)", ylabel="forward + backward (ms)", xlim=(100, 330_000))
    told = []
    for key in rows:
        times = np.array(record.rows[key].values)
        known = np.flatnonzero(~np.isnan(times))
        slope = np.log2(times[known[-1]] / times[known[-3]]) / 2
        told.append(f"{LINES[key][0]} from {1e3 * times[0]:.2f} to {1e3 * times[known[-1]]:.0f} ms, slope {slope:.1f} "
                    "at its end")
    figure.set_label(
        f"Milliseconds against sequence length from {record.at[0]} to {record.at[-1]}, both axes logarithmic, as "
        f"published: {'; '.join(told)}. Shaded: 512 to 1024, where the sparse lines cross FlashAttention's."
    )
    return figure


def table21(record: PublishedTable, formulas: Mapping[str, Sequence[int]]) -> Figure:
    """Table 21: memory against N, both logarithmic; published as marks, ``formulas`` (bytes) as lines."""
    figure, axes = canvas(8.0, 4.4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for key, sizes in formulas.items():
        name, color, mark = LINES[key]
        axes.plot(record.at, sizes, color=color, linewidth=1.4)
        axes.plot(record.at, record.rows[key].values, mark[0], color=color)
        axes.annotate(name, (record.at[-1], sizes[-1]), (8, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(color))
    axes.axhline(40 * 2**30, color=GRAY, linewidth=1, linestyle="--")
    axes.annotate("40 GiB", (128, 40 * 2**30), (0, 3), textcoords="offset points", fontsize=9, color=GRAY)
    ticks = [2**e for e in range(24, 45, 4)]
    axes.set_yticks(ticks, [binary(tick) for tick in ticks])
    axes.set_xticks(record.at, [f"{n}" if n < 1024 else f"{n // 1024}K" for n in record.at])
    axes.set(xlabel="sequence length N (tokens)", ylabel="memory, forward + backward", xlim=(110, 400_000))
    told = "; ".join(f"{LINES[key][0]} from {binary(round(sizes[0]))} to {binary(round(sizes[-1]))}"
                     for key, sizes in formulas.items())
    figure.set_label(f"Memory forward and backward against N from {record.at[0]} to {record.at[-1]}, both axes "
                     f"logarithmic; published marks on the lines of the formulas: {told}. A dashed line at 40 GiB.")
    return figure


def reaches(found: Mapping[int, np.ndarray]) -> Figure:
    """Which block reaches which after a number of layers: one square table for each, its share above."""
    figure, grid = canvas(10.4, 3.3, ncols=len(found), squeeze=False)
    for axes, (layers, reached) in zip(grid[0], found.items()):
        squares(axes, 2 * reached.astype(int))
        name = f"{layers} layer{'s' if layers > 1 else ''}"
        axes.set_title(f"{name}\n{reached.mean():.0%} of all pairs", fontsize=10)
        axes.set_xlabel("block of keys")
    grid[0][0].set_ylabel("block of queries")
    told = ", ".join(f"{reached.mean():.0%} after {layers}" for layers, reached in found.items())
    figure.set_label(f"Which pairs of blocks are connected after how many layers: {told}.")
    return figure
