"""The figures and the tables of the page of reproductions."""

import math
from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab_course import published
from attnlab_course.instruments.clock import Clock
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker, name_line_ends

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

STANDARD, CHUNKED = COLORS["safe"], COLORS["chunked"]
COMPILED = "s^D"
QUERIES = "#56458A"  # query chunking alone is no rung of the course and has a color of this page only


def beside(at: Sequence[int], row: published.PublishedRow, ours: Mapping[str, Sequence[float]]) -> None:
    """Print a line for each length: the published number; each of ours, its ratio to that, and whether it's close."""
    print(f"{'n':<5}{'printed':>8}" + "".join(f"{name:>14}{'':<9}" for name in ours))
    for i, n in enumerate(at):
        line = f"2^{n.bit_length() - 1:<3}{row.printed[i]:>8}"
        for values in ours.values():
            ratio, within = values[i] / row.values[i], 1 + published.WITHIN
            close = "" if math.isnan(ratio) else f"× {ratio:.2f} " + ("✓" if 1 / within <= ratio <= within else "✗")
            line += f"{'–' if math.isnan(values[i]) else binary(values[i]):>14} {close:<8}"
        print(line.rstrip())


def overheads(
    at: Sequence[int], published: Mapping[str, Sequence[float]], formulas: Mapping[str, Sequence[float]],
    measured: Mapping[str, Mapping[str, Sequence[float]]],
) -> Figure:
    """Memory beyond inputs and outputs against n: published as dots, formulas as lines, compiled as open marks.

    All take "standard" and "chunked", in bytes (nan: not given); ``measured`` has up to three named series for each.
    """
    figure, axes = canvas(8.6, 5.0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for name, color in (("standard", STANDARD), ("chunked", CHUNKED)):
        axes.plot(at, formulas[name], color=color)
        axes.plot(at, published[name], "o", color=color, markersize=9)
        for mark, sizes in zip(COMPILED, measured[name].values()):
            axes.plot(at, sizes, mark, color=darker(color), fillstyle="none", markersize=8)
        axes.annotate(name, (at[-1], formulas[name][-1]), (9, 0), textcoords="offset points", va="center", fontsize=11,
                      color=darker(color))
    entries = [Line2D([], [], color=INK), Line2D([], [], color=INK, marker="o", linestyle="", markersize=9)]
    entries += [Line2D([], [], color=INK, marker=mark, linestyle="", fillstyle="none") for mark in COMPILED]
    labels = ["formula", "published", *measured["chunked"]]
    axes.legend(entries, labels, fontsize=10, loc="upper left", frameon=False)
    top = 4 * max(*measured["standard"]["compiled"])
    ticks = [2**e for e in range(18, 60, 4) if 2**e < top]
    axes.set_yticks(ticks, [binary(tick) for tick in ticks])
    axes.set_xticks(list(at), [f"$2^{{{n.bit_length() - 1}}}$" for n in at])
    axes.set(xlabel="sequence length n (tokens)", ylabel="memory beyond inputs and outputs (bytes)")
    axes.set_xlim(right=5 * at[-1])
    told = []
    for name in ("standard", "chunked"):
        series = {"formula": formulas[name], "published": published[name], **measured[name]}
        ends = (f"{label} {_ends(at, sizes)}" for label, sizes in series.items())
        told.append(f"{name}: {', '.join(ends)}")
    figure.set_label(f"Memory against n, both axes logarithmic. {'. '.join(told)}.")
    return figure


def _ends(at: Sequence[int], sizes: Sequence[float]) -> str:
    """The first and the last known number of a series, and where."""
    known = [(n, size) for n, size in zip(at, sizes) if size == size]
    (first, low), (last, high) = known[0], known[-1]
    return f"{binary(round(low))} at {first} to {binary(round(high))} at {last}"


def query_chunking(clock: Clock, slow: int, rows: Mapping[int, int]) -> Figure:
    """Figure 5. Left: query chunk size → time over dense attention's; the paper calls sizes to ``slow`` much slower.

    Right, at equal memory: n → time of query chunking, and of dense attention, over that of chunked attention;
    ``rows``: n → queries in a chunk. ``clock`` has "chunks of queries" by size, the others by length.
    """
    figure, (left, right) = canvas(10.6, 4.3, ncols=2)
    sizes, lengths = list(clock.seconds["chunks of queries"]), list(rows)
    dense, chunked = clock.median("dense"), clock.median("chunked")
    left.set_xscale("log", base=2)
    left.axvspan(sizes[0] / 1.4, slow * 1.25, color=PALE, zorder=0)
    left.annotate(f"published: much slower\nthan dense up to {slow}", (sizes[0] / 1.2, 0.93), fontsize=9, color=GRAY,
                  xycoords=("data", "axes fraction"), va="top")
    by_size = _relative(left, clock, "chunks of queries", dict.fromkeys(sizes, dense[lengths[-1]]), QUERIES)
    left.axhline(1, color=STANDARD, linestyle="--")
    left.set_xticks(sizes, [str(size) for size in sizes])
    left.tick_params(axis="x", labelsize=9)
    left.set_title(f"one length, n = {lengths[-1]}", loc="left")
    left.set(xlabel="queries in a chunk", ylabel="time ÷ time of dense attention")
    left.set(ylim=(0, 1.4 * max(1, *by_size)), xlim=(sizes[0] / 1.4, sizes[-1] * 7))
    apart = 0.06 * left.get_ylim()[1]
    name_line_ends(left, sizes[-1], [(1, "dense", STANDARD), (by_size[-1], "query chunks", QUERIES)], apart)

    right.set_xscale("log", base=2)
    right.axhline(1, color=CHUNKED, linestyle="--")
    others = _relative(right, clock, "dense", chunked, STANDARD)
    times = _relative(right, clock, "queries", chunked, QUERIES)
    right.set_xticks(lengths, [f"$2^{{{n.bit_length() - 1}}}$\n{rows[n]}" for n in lengths])
    right.set_title("equal memory", loc="left")
    right.set(xlabel="sequence length n (tokens); queries in a chunk", ylabel="time ÷ time of chunked attention")
    right.set(ylim=(0, 1.25 * max(1, *times, *others)), xlim=(lengths[0] / 1.3, lengths[-1] * 3))
    names = [(1, "chunked", CHUNKED), (times[-1], "query chunks", QUERIES), (others[-1], "dense", STANDARD)]
    name_line_ends(right, lengths[-1], names, 0.06 * right.get_ylim()[1])
    figure.set_label(
        "Two plots of times. Left, over dense attention's, against the queries in a chunk: "
        + ", ".join(f"{size} take {y:.2f}" for size, y in zip(sizes, by_size))
        + ". Right, at equal memory, over chunked attention's, against n: "
        + "; ".join(f"{n}, chunks of {rows[n]} queries {y:.2f}, dense {z:.2f}"
                    for n, y, z in zip(lengths, times, others)) + "."
    )  # fmt: skip
    return figure


def _relative(axes: Axes, clock: Clock, name: str, base: Mapping[int, float], color: str) -> list[float]:
    """Draw seconds over those of ``base`` at the same size, with the band of their middle half; returns the medians."""
    rows = clock.seconds[name]
    low, middle, high = ([row[at] / base[x] for x, row in rows.items()] for at in range(3))
    axes.fill_between(list(rows), low, high, color=color, alpha=0.25, linewidth=0)
    axes.plot(list(rows), middle, "o-", color=color)
    return middle


def softmax_times(published: Mapping[str, float], clock: Clock, size: int) -> Figure:
    """Time of three softmaxes of ``size`` numbers over that of the naive one: published beside ours."""
    figure, axes = canvas(7.0, 2.9)
    ours = {name: [x / clock.median("naive")[size] for x in clock.seconds[name][size]] for name in published}
    for row, (name, theirs) in enumerate(published.items()):
        low, mine, high = ours[name]
        theirs = theirs / published["naive"]
        color = COLORS[name]
        axes.barh(row - 0.19, theirs, 0.34, color=color)
        axes.barh(row + 0.19, mine, 0.34, color="white", edgecolor=color, linewidth=1.6,
                  xerr=[[mine - low], [high - mine]], ecolor=GRAY)
        axes.annotate(f"{theirs:.2f}  published", (theirs, row - 0.19), (5, 0), textcoords="offset points",
                      va="center", fontsize=9, color=INK)
        axes.annotate(f"{mine:.2f}  here", (max(mine, high), row + 0.19), (5, 0), textcoords="offset points",
                      va="center", fontsize=9, color=INK)
    axes.set_yticks(range(len(published)), list(published))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.2)
    axes.set(xlabel=f"time ÷ time of naive softmax, {size:,} numbers")
    figure.set_label(
        "Time of softmax over that of the naive one, published and here: "
        + ", ".join(f"{name} {theirs / published['naive']:.2f} and {ours[name][1]:.2f}"
                    for name, theirs in published.items()) + "."
    )  # fmt: skip
    return figure
