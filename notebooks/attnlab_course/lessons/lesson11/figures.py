"""The figures of lesson 11, block-sparse attention."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker
from attnlab_course.published import PublishedTable

import numpy as np
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
        last = len(table) - 1
        axes.imshow(table, cmap=CLASSES, vmin=0, vmax=2)
        axes.set_xticks(np.arange(last + 2) - 0.5, minor=True)
        axes.set_yticks(np.arange(last + 2) - 0.5, minor=True)
        axes.grid(False)
        axes.grid(True, which="minor", color="#D8D8D8", linewidth=0.6)
        axes.tick_params(which="both", length=0, labelsize=8)
        axes.set_title(f"{name}\ns = {(table > 0).mean():.1%}", fontsize=10)
        axes.set(xticks=[0, last], yticks=[0, last], xlabel="block of keys")
    grid[0][0].set_ylabel("block of queries")
    told = (f"{name}: {(table == 2).sum()} full, {(table == 1).sum()} partial, {(table == 0).sum()} hidden tiles, "
            f"{(table > 0).mean():.1%} visible" for name, table in patterns.items())
    figure.set_label(f"Patterns of {len(table)} by {len(table)} tiles. {'. '.join(told)}.")
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
