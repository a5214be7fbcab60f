"""The figures of lesson 08, tiled attention."""

from collections.abc import Mapping

from attnlab.core.geometry import Band, blocks
from attnlab_course.plots.style import COLORS, GRAY, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


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
