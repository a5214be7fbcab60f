"""The figures of lesson 09, counting bytes."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

TILED, NAIVE, CHUNKED = COLORS["tiled"], COLORS["naive"], COLORS["chunked"]


def passes(walks: Mapping[str, Sequence[tuple[int, int, int]]], n: int, pass_size: int) -> Figure:
    """Which rows of Q are loaded, against the elements moved so far: one flight of stairs a pass.

    ``walks``: title → (elements moved before, first row, last row + 1) of every load of Q.
    """
    figure, panels = canvas(9.4, 3.1, ncols=len(walks), sharex=True, sharey=True, squeeze=False)
    for axes, (title, loads) in zip(panels[0], walks.items()):
        for moved, start, stop in loads:
            axes.fill_between([moved, moved + pass_size * (stop - start) / n], start, stop, color=TILED, linewidth=0)
        axes.set(xlabel="elements moved so far", ylim=(n, 0), yticks=[0, n // 2, n])
        axes.set_axisbelow(True)
        axes.set_title(title, pad=20, loc="left")
        firsts = [moved for moved, start, _ in loads if start == 0]
        for number, moved in enumerate(firsts):
            axes.annotate(f"pass {number + 1}", (moved + 0.5 * pass_size, -0.02 * n), ha="center", va="bottom",
                          fontsize=9, color=darker(TILED), annotation_clip=False)
    panels[0][0].set(ylabel="rows of Q loaded")
    flights = "; ".join(
        f"{title.replace('$', '')}: {sum(start == 0 for _, start, _ in loads)} passes in {len(loads)} steps"
        for title, loads in walks.items()
    )
    figure.set_label(f"Rows of Q loaded against elements moved so far, each pass a flight of stairs. {flights}.")
    return figure


def levels(once: int, asked: int, hbm: int, l2: int, count: int) -> Figure:
    """HBM, L2 and the multiprocessors; between them the bytes of K and V that cross, as multiples of ``once``."""
    figure, axes = canvas(9.0, 3.6)
    axes.set(xlim=(0, 11.7), ylim=(0.2, 4.8))
    axes.axis("off")
    boxes = [((0.1, 1.6), (1.7, 2.6), "HBM\nK, V\nof all heads"), ((4.2, 1.6), (1.7, 2.6), f"L2\n{binary(l2)}")]
    for (left, low), (width, height), words in boxes:
        axes.add_patch(Rectangle((left, low), width, height, facecolor=PALE, edgecolor=INK))
        axes.text(left + width / 2, low + height / 2, words, ha="center", va="center")
    for row, words in enumerate(("$Q_1$, its o, m, l", "$Q_2$, its o, m, l", "…", f"{count} multiprocessors")):
        middle = 4.3 - 1.15 * row
        if row < 3:
            axes.annotate("", (8.4, middle), (5.95, 2.9), arrowprops={"arrowstyle": "->", "color": TILED, "lw": 2})
            axes.add_patch(Rectangle((8.4, middle - 0.4), 3.2, 0.8, facecolor="white", edgecolor=TILED))
        axes.text(10.0, middle, words, ha="center", va="center", color=INK if row < 3 else GRAY)
    axes.annotate("", (4.15, 2.9), (1.85, 2.9), arrowprops={"arrowstyle": "->", "color": TILED, "lw": 2})
    for x, size in ((3.0, hbm), (7.0, asked)):
        times = "once" if size == once else f"{size // once} times"
        axes.text(x, 0.95, f"{times}\n{binary(size)}", ha="center", va="top", color=darker(TILED), weight="bold")
    figure.set_label(
        f"Three levels: HBM, an L2 cache of {binary(l2)}, and {count} multiprocessors, each with a block of queries. K "
        f"and V leave HBM {hbm // once} time{'s' * (hbm > once)}, and L2 {asked // once} times."
    )
    return figure


def powers(panels: Sequence[Mapping], standard: Sequence[Sequence[int]], floor: int, span: tuple[int, int]) -> Figure:
    """Elements moved against the size of SRAM, N and D, log–log: counted points on the closed form.

    ``panels``: x (the variable's values), counted, closed (both FlashAttention's), label, slope (the text).
    ``standard``: standard attention's elements in each panel; ``floor``: inputs and output once, in the first one;
    ``span``: the range of M of which the theorem speaks.
    """
    figure, grid = canvas(10.4, 4.0, ncols=len(panels), width_ratios=[1.7, 1, 1])
    for axes, panel, other in zip(grid, panels, standard):
        axes.plot(panel["x"], panel["closed"], color=TILED, zorder=2)
        axes.plot(panel["x"], panel["counted"], "o", color=INK, fillstyle="none", zorder=3)
        axes.plot(panel["x"], other, color=NAIVE, linestyle="--", zorder=2)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set(xlabel=panel["label"], xticks=panel["x"][:: 2 if len(panel["x"]) > 8 else 1])
        axes.set_axisbelow(True)
        axes.set_title(panel["slope"], color=darker(TILED), loc="left")
    first = grid[0]
    first.set_ylim(0.6 * floor, 2 * max(panels[0]["closed"]))
    first.axvspan(*span, color=PALE, zorder=0)
    first.axhline(floor, color=GRAY, linewidth=1.2, linestyle=":")
    x, y = panels[0]["x"], panels[0]["closed"]
    note(first, "standard", (x[-1], standard[0][-1]), (0, 5), darker(NAIVE), "right")
    note(first, "FlashAttention", (x[4], y[4]), (10, 2), darker(TILED), "left")
    note(first, "4ND: inputs and output once", (x[0], floor), (0, 4), GRAY, "left")
    note(first, "D ≤ $M_{sram}$ ≤ ND", (span[1], first.get_ylim()[1]), (-6, -14), GRAY, "right")
    note(grid[1], "standard", (panels[1]["x"][2], standard[1][2]), (-6, 4), darker(NAIVE), "right")
    note(grid[2], "standard", (panels[2]["x"][-1], standard[2][-1]), (0, -14), darker(NAIVE), "right")
    grid[0].set(ylabel="elements moved")
    ranges = "; ".join(
        f"against {panel['label'].replace('$', '')}: {panel['counted'][0]:,} to {panel['counted'][-1]:,}, standard "
        f"{other[0]:,} to {other[-1]:,}" for panel, other in zip(panels, standard)
    )
    figure.set_label(f"Elements moved by FlashAttention, log–log, counted points on closed forms, {ranges}.")
    return figure


def note(axes: Axes, text: str, at: tuple, gap: tuple[int, int], color: object, align: str) -> None:
    """A label beside a point."""
    axes.annotate(text, at, gap, textcoords="offset points", ha=align, fontsize=9.5, color=color)


def ledger(bars: Mapping[str, Mapping[str, float]], printed: Mapping[str, float]) -> Figure:
    """Stacked horizontal bars of gigabytes on one scale; a triangle where the published number is.

    ``bars``: name → {part: GB}, paler from part to part; ``printed``: name → published GB.
    """
    figure, axes = canvas(9.4, 2.9)
    said = []
    for row, (name, parts) in enumerate(bars.items()):
        left, color = 0.0, TILED if row else NAIVE
        for shade, (part, size) in enumerate(parts.items()):
            axes.barh(row, size, left=left, height=0.62, color=color, alpha=(0.85, 0.5, 0.28)[shade], edgecolor="white")
            if row == 0:
                axes.text(left + size / 2, row, f"{part}\n{size:.1f}", ha="center", va="center", fontsize=9)
            left += size
        split = " + ".join(f"{size:.2f} {part}" for part, size in parts.items())
        axes.text(left, row, f"  {left:.2f}" + (f" = {split}" if row else ""), va="center", fontsize=9.5,
                  color=darker(color))
        said.append(f"{name} {left:.2f} = {split}" + (f", printed {printed[name]}" if name in printed else ""))
        if name in printed:
            axes.plot(printed[name], row - 0.42, "v", color=INK, markersize=8, clip_on=False, zorder=3)
            side, gap = ("right", -8) if row == 0 else ("left", 8)
            axes.annotate(f"printed {printed[name]}", (printed[name], row - 0.42), (gap, 1), va="center", ha=side,
                          textcoords="offset points", fontsize=9)
    axes.set_yticks(range(len(bars)), list(bars))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)
    axes.set(ylim=(len(bars) - 0.5, -0.75), xlim=(0, 46), xlabel="GB moved, forward and backward")
    figure.set_label(f"Bars of gigabytes moved, on one scale: {'; '.join(said)}.")
    return figure


def middle(blocks: Sequence[int], closed: Sequence[float], counted: Mapping[int, float], bandwidth: float,
           compute: float, flat: int) -> Figure:
    """GB against B_c, and beside it the roofline's time of the same run.

    ``closed``: GB at each of ``blocks``, in steps, as passes are whole; ``counted``: B_c → GB; ``bandwidth``: GB/ms;
    ``compute``: ms of the arithmetic at peak; ``flat``: the block beyond which the published time is flat.
    """
    figure, (left, right) = canvas(9.6, 3.7, ncols=2)
    left.plot(blocks, closed, color=TILED, drawstyle="steps-post", zorder=2)
    left.plot(list(counted), list(counted.values()), "o", color=INK, fillstyle="none", zorder=3)
    for size, gigabytes in counted.items():
        left.annotate(f"{gigabytes:.2f}", (size, gigabytes), (7, 5), textcoords="offset points", fontsize=10)
    left.set(ylabel="HBM traffic, forward (GB)", ylim=(0, 7.6))
    moving = [gigabytes / bandwidth for gigabytes in closed]
    right.plot(blocks, moving, color=TILED, drawstyle="steps-post", zorder=2)
    right.plot(list(counted), [gigabytes / bandwidth for gigabytes in counted.values()], "o", color=INK,
               fillstyle="none", zorder=3)
    right.axhline(compute, color=INK, linewidth=1.5, zorder=2)
    right.axvspan(flat, 620, color=PALE, zorder=0)
    right.set(ylabel="time at the roofline of an A100 (ms)", ylim=(0, 7.6 / bandwidth))
    right.annotate("of the bytes", (90, moving[blocks.index(90)]), (8, 4), textcoords="offset points", fontsize=10,
                   color=darker(TILED))
    right.annotate("of the arithmetic", (64, compute), (0, -13), textcoords="offset points", fontsize=10, color=INK)
    right.annotate("the paper: bytes no\nlonger decide", (flat, right.get_ylim()[1]), (6, -6), va="top",
                   textcoords="offset points", fontsize=9.5, color=GRAY)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks([64, 128, 256, 512], ["64", "128", "256", "512"])
        axes.set(xlabel="keys in a block, $B_c$", xlim=(58, 620))
        axes.set_axisbelow(True)
    amounts = ", ".join(f"{size:.2f} at {keys}" for keys, size in counted.items())
    takes = ", ".join(f"{size / bandwidth:.1f}" for size in counted.values())
    figure.set_label(
        f"Left: gigabytes against keys in a block, counted, on falling stairs: {amounts}. Right: the bytes take "
        f"{takes} ms, the arithmetic {compute:.2f} ms at peak. The paper: bytes no longer decide from {flat} on."
    )
    return figure


def against(
    lengths: Sequence[int], panels: Sequence[Mapping[str, Sequence[float]]],
    counted: Sequence[Mapping[str, Mapping[int, float]]], inputs: Sequence[float],
) -> Figure:
    """Footprint and traffic against N for four algorithms: lines are closed forms, points were counted.

    ``panels``: name → bytes at each of ``lengths``; ``counted``: name → {N: bytes}; ``inputs``: bytes of inputs and
    output, a dotted line in both.
    """
    figure, grid = canvas(10.2, 4.4, ncols=2)
    looks = {"standard": (NAIVE, "-"), "RS": (CHUNKED, "-"), "FA": (TILED, "-"), "FA-2": (TILED, "--")}
    titles = ("held in HBM, without inputs and output", "moved between HBM and chip")
    for axes, title, lines, points in zip(grid, titles, panels, counted):
        for name, sizes in lines.items():
            color, style = looks[name]
            axes.plot(lengths, sizes, color=color, linestyle=style)
            gap = {"FA": 4, "FA-2": -5}.get(name, 0)
            axes.annotate(name, (lengths[-1], sizes[-1]), (5, gap), textcoords="offset points", fontsize=9.5,
                          va="center", color=darker(color), annotation_clip=False)
            axes.plot(list(points[name]), list(points[name].values()), "o", color=INK, fillstyle="none", markersize=5)
        axes.plot(lengths, inputs, color=GRAY, linewidth=1.2, linestyle=":")
        note(axes, "inputs and output", (lengths[-1], inputs[-1]), (5, 0), GRAY, "left")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set(xlabel="sequence length N (tokens)")
        axes.set_title(title, loc="left")
        axes.set_axisbelow(True)
        axes.set_xlim(right=lengths[-1] * (lengths[-1] / lengths[0]) ** 0.42)
        axes.set_xticks(lengths[::2])
    grid[0].set(ylabel="bytes, one head, half precision")
    ends = [", ".join(f"{name} {binary(sizes[-1], 3)}" for name, sizes in lines.items()) for lines in panels]
    figure.set_label(f"Two log–log panels against N. At {lengths[-1]:,} tokens, held: {ends[0]}; moved: {ends[1]}.")
    return figure
