"""The figures of lesson 08, tiled attention."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attnlab.core.arguments import LIBRARIES
from attnlab.core.geometry import Band, blocks
from attnlab.measure import binary
from attnlab_course.plots.style import COLORS, GRAY, INK, MARKERS, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

KEYS, QUERIES, SCORES, STATE = "#4B4B9F", "#B59B00", "#BDBDBD", COLORS["tiled"]
"""What lies on chip: K and V; Q; a tile of scores; O, l and m."""


class Visit(NamedTuple):
    """One visit of a block of queries and a block of keys: where, and elements moved until its end, by array."""

    rows: slice
    cols: slice
    loaded: dict[str, int]
    stored: dict[str, int]
    new_keys: bool


def visits(events: Sequence[tuple[str, str, Any, int]]) -> list[Visit]:
    """The visits in what a machine's ``watch`` was told by ``flash_forward``."""
    found: list[Visit] = []
    moved: dict[str, dict[str, int]] = {"load": {}, "store": {}, "fill": {}}
    cols, rows, fresh = slice(0), slice(0), False
    for kind, name, index, elements in events:
        moved[kind][name] = moved[kind].get(name, 0) + elements
        if name == "K":
            cols, fresh = index, True
        elif name == "Q":
            rows = index
        elif (kind, name) == ("store", "m"):
            found.append(Visit(rows, cols, dict(moved["load"]), dict(moved["store"]), fresh))
            fresh = False
    return found


def walk(
    found: Sequence[Visit], n: int, m: int, block_q: int, block_k: int, at: Sequence[int] | None = None,
    itemsize: int = 2,
) -> Figure:
    """Panels of the walk: what each visit holds on chip, which scores are done, and the elements moved so far.

    ``at``: the numbers of the visits to draw, from 0; one beyond the end is the last. A single one is drawn large, with
    its totals in bytes, ``itemsize`` for each element.
    """
    chosen = [min(number, len(found) - 1) for number in (range(len(found)) if at is None else at)]
    columns = min(len(chosen), 6)
    lines = -(-len(chosen) // columns)
    wide = 1.72 if len(chosen) > 1 else 4.2
    tall = wide * (n + 7.6) / (m + 5.2) + 0.4
    figure, grid = canvas(wide * columns + 0.2, tall * lines, ncols=columns, nrows=lines, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, number in zip(grid.flat, chosen):
        panel(axes, found, number, n, m, block_q, block_k)
    if len(chosen) == 1:
        moved = [itemsize * sum(x.values()) for x in (found[chosen[0]].loaded, found[chosen[0]].stored)]
        text = f"visit {chosen[0] + 1} of {len(found)}: {moved[0]:,} + {moved[1]:,} = {sum(moved):,} bytes so far"
        grid.flat[0].set_title(text, loc="center", fontsize=9)
    figure.set_label(walk_text(found, chosen, n, m, block_q, block_k))
    return figure


def walk_text(found: Sequence[Visit], chosen: Sequence[int], n: int, m: int, block_q: int, block_k: int) -> str:
    """What the panels of a walk show."""
    last = found[chosen[-1]]
    text = (
        f"{n} queries and {m} keys in tiles of {block_q} by {block_k}: {len(found)} visits, {len(chosen)} drawn. "
        "A block of keys and values, marked above, stays while blocks of queries, marked at the left, pass with their "
        "O, l and m, at the right; the tile of scores is where the two cross. "
    )
    moved = [sum(x.values()) for x in (last.loaded, last.stored)]
    return text + f"After visit {chosen[-1] + 1}, {moved[0]} elements have gone in and {moved[1]} out."


def panel(axes: Axes, found: Sequence[Visit], number: int, n: int, m: int, block_q: int, block_k: int) -> None:
    """One visit: K and V above, Q at the left, O, l, m at the right, the scores between."""
    visit = found[number]
    axes.set(xlim=(-2.6, m + 2.6), ylim=(n + 3.4, -4.2))
    axes.set_aspect("equal")
    rows, cols = visit.rows, visit.cols
    for y, name in ((-3.0, "K"), (-1.7, "V")):
        bar(axes, 0, y, m, 1, "white")
        bar(axes, cols.start, y, cols.stop - cols.start, 1, KEYS, bold=visit.new_keys)
        axes.text(-0.4, y + 0.5, name, ha="right", va="center", fontsize=8)
    for x, width, name, color in ((-1.7, 1, "Q", QUERIES), (m + 0.7, 1.4, "O l m", STATE)):
        bar(axes, x, 0, width, n, "white")
        bar(axes, x, rows.start, width, rows.stop - rows.start, color, bold=True)
        axes.text(x + width / 2, n + 0.8, name, ha="center", va="center", fontsize=8)
    done = {(v.rows.start, v.cols.start) for v in found[:number]}
    for i in blocks(n, block_q):
        for j in blocks(m, block_k):
            color = "#E7E7E7" if (i.start, j.start) in done else "white"
            bar(axes, j.start, i.start, j.stop - j.start, i.stop - i.start, color, edge="#CFCFCF")
    bar(axes, cols.start, rows.start, cols.stop - cols.start, rows.stop - rows.start, SCORES, edge=INK)
    if rows.stop - rows.start > 1:
        axes.text((cols.start + cols.stop) / 2, (rows.start + rows.stop) / 2, "S", ha="center", va="center", fontsize=9)
    axes.set_title(f"visit {number + 1}", loc="center", fontsize=9)
    moved = f"in {sum(visit.loaded.values())}   out {sum(visit.stored.values())}"
    axes.text(m / 2, n + 2.4, moved, ha="center", va="center", fontsize=8.5)


def bar(
    axes: Axes, x: float, y: float, width: float, height: float, color: str, edge: str = GRAY, bold: bool = False
) -> None:
    """A rectangle; bold has a dark edge: it has just crossed."""
    axes.add_patch(Rectangle((x, y), width, height, facecolor=color, edgecolor=INK if bold else edge,
                             linewidth=1.6 if bold else 0.7))


def held(d: int, block_q: int, block_k: int, gradient: bool = False, itemsize: int = 2) -> dict[str, int]:
    """Bytes that one visit holds, by part, for values of the size of keys: forward, or with ``gradient`` backward."""
    rows, keys, tile = itemsize * block_q * d, itemsize * block_k * d, itemsize * block_q * block_k
    if gradient:
        return {"K, V": 2 * keys, "dK, dV": 2 * keys, "Q, O, dO, dQ": 4 * rows, "P, dP": 2 * tile,
                "vectors": 3 * itemsize * block_q}
    return {"K, V": 2 * keys, "Q, O": 2 * rows, "S": tile, "vectors": 6 * itemsize * block_q}


def holdings(choices: Mapping[str, Mapping[str, int]], capacity: int) -> Figure:
    """What SRAM holds at once, in bytes, by part, one bar a choice of blocks; the capacity as a line."""
    figure, axes = canvas(9.4, 0.62 * len(choices) + 1.3)
    colors = {"K, V": KEYS, "dK, dV": "#8F8FCC", "Q, O": QUERIES, "Q, O, dO, dQ": QUERIES, "S": SCORES,
              "P, dP": SCORES, "vectors": STATE}
    for y, (_, parts) in enumerate(choices.items()):
        left = 0.0
        for part, size in parts.items():
            kib = size / 1024
            axes.barh(y, kib, left=left, color=colors[part], edgecolor="white", height=0.66)
            if kib > 11:
                white = part in ("K, V",)
                axes.text(left + kib / 2, y, part.replace("O, dO", "O,\ndO"), ha="center", va="center", fontsize=9,
                          color="white" if white else INK)
            left += kib
        axes.text(left + 3, y, f"{left:.0f} KiB", va="center", fontsize=9)
    axes.axvline(capacity / 1024, color=INK, linewidth=1.3, linestyle="--")
    axes.annotate(f"SRAM {capacity / 1024:.0f} KiB", (capacity / 1024, -0.45), (4, 2), textcoords="offset points",
                  fontsize=9, va="bottom")
    axes.set_yticks(range(len(choices)), list(choices))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set(xlabel="held at once (KiB)", ylim=(len(choices) - 0.5, -0.85))
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)
    axes.margins(x=0.1)
    bars = "; ".join(
        f"{' '.join(name.replace('$', '').split())}: {sum(parts.values()) / 1024:.0f} KiB"
        for name, parts in choices.items()
    )
    figure.set_label(f"What SRAM holds at once, against a capacity of {capacity / 1024:.0f} KiB. {bars}.")
    return figure


def classes(grids: Mapping[str, tuple[Band, int, int]]) -> Figure:
    """Visibility of each score, cut into tiles: hidden tiles white, partial ones pale, full ones dark."""
    widths = [band.m + 3 for band, _, _ in grids.values()]
    tall = max(band.n for band, _, _ in grids.values())
    figure, axes_of = canvas(10.4, 10.4 * (tall + 7) / (sum(widths) + 3), ncols=len(grids), width_ratios=widths)
    found = []
    for axes, (title, (band, block_q, block_k)) in zip(np.atleast_1d(axes_of), grids.items()):
        counts = {"hidden": 0, "partial": 0, "full": 0}
        for rows in blocks(band.n, block_q):
            seen = {cols.start for cols in band.key_blocks(rows, block_k)}
            for cols in blocks(band.m, block_k):
                kind = "hidden" if cols.start not in seen else "full" if band.full(rows, cols) else "partial"
                counts[kind] += 1
                draw_tile(axes, band, rows, cols, kind)
        said = f"{counts['full']} full, {counts['partial']} partial, {counts['hidden']} hidden"
        found.append(f"{title}, tiles of {block_q} by {block_k}: {said}")
        axes.set_title(f"{title}\n{said}", fontsize=9.5)
        axes.set(xlim=(-0.6, band.m + 0.2), ylim=(tall + 0.2, -0.2), xlabel="key j")
        axes.set_aspect("equal", anchor="NW")
        axes.set_xticks([c.start for c in blocks(band.m, block_k)])
        axes.set_yticks([r.start for r in blocks(band.n, block_q)])
        axes.tick_params(length=0, labelsize=8)
        axes.grid(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
    np.atleast_1d(axes_of)[0].set_ylabel("query i")
    figure.set_label(f"Grids of tiles with a dot for each visible score. {'; '.join(found)}.")
    return figure


def draw_tile(axes: Axes, band: Band, rows: slice, cols: slice, kind: str) -> None:
    """One tile with its scores: a dot where the query sees the key."""
    color = {"hidden": "white", "partial": "#F3DCE9", "full": COLORS["tiled"]}[kind]
    axes.add_patch(Rectangle((cols.start + 0.04, rows.start + 0.04), cols.stop - cols.start - 0.08,
                             rows.stop - rows.start - 0.08, facecolor=color, edgecolor=GRAY, linewidth=0.9))
    for i in range(rows.start, rows.stop):
        for j in range(cols.start, cols.stop):
            if band.full(slice(i, i + 1), slice(j, j + 1)):
                axes.plot(j + 0.5, i + 0.5, ".", color="white" if kind == "full" else darker(COLORS["tiled"]),
                          markersize=3.5)


def footprint(
    measured: Mapping[str, Mapping[str, Mapping[int, float]]], formulas: Mapping[str, Mapping[int, float]],
    published: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> Figure:
    """Extra memory against the number of keys: formulas as lines, ours measured, a source's figures as crosses."""
    figure, axes = canvas(8.4, 4.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for method, line in formulas.items():
        x, y = list(line), list(line.values())
        axes.plot(x, y, color=COLORS[method], zorder=2)
        axes.annotate(method, (x[-1], y[-1]), (7, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(COLORS[method]))
    labeled: set[str] = set()
    for method, libraries in measured.items():
        for library, points in libraries.items():
            axes.plot(list(points), list(points.values()), MARKERS[library], color=darker(COLORS[method]),
                      fillstyle="none", markersize=6.5, linestyle="none", zorder=3,
                      label=None if library in labeled else f"measured, {LIBRARIES[library]}")
            labeled.add(library)
    for label, (x, y) in published.items():
        axes.plot(x, y, "x", color=darker(COLORS["chunked"]), markersize=7, label=label, zorder=3)
    exponents = range(16, 36, 3)
    axes.set_yticks([2**e for e in exponents], [binary(2**e) for e in exponents])
    axes.set_xticks([2**e for e in range(8, 21, 2)], [f"2$^{{{e}}}$" for e in range(8, 21, 2)])
    axes.set(xlabel="number of keys M", ylabel="extra memory of one head (bytes)")
    axes.margins(x=0.1)
    legend = axes.legend(loc="upper left", fontsize=9, frameon=False)
    for handle in legend.legend_handles[: len(labeled)]:
        handle.set_color(INK)
    def ends(lines: Mapping[str, Mapping[int, float]]) -> str:
        last = {name: (line[max(line)], max(line)) for name, line in lines.items()}
        return ", ".join(f"{name} {binary(size, 3)} at {keys:,} keys" for name, (size, keys) in last.items())

    figure.set_label(
        f"Extra memory of one head against the number of keys, both axes logarithmic. By formula: {ends(formulas)}. "
        f"Tiled, measured: {ends(measured['tiled'])}; its line is level from {min(measured['tiled']['jax']):,} keys on."
    )
    return figure
