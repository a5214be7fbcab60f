"""The figure of lesson 09, counting bytes."""

from collections.abc import Mapping

from attnlab.measure import binary
from attnlab_course.plots.style import COLORS, INK, PALE, canvas, darker

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

TILED = COLORS["tiled"]


def levels(once: int, crossed: Mapping[str, tuple[int, int]], l2: int, count: int) -> Figure:
    """HBM, L2 and the multiprocessors, a panel per order of the programs; arrows as wide as the bytes that cross.

    ``once``: bytes of K and V; ``crossed``: order → their bytes that leave L2, and that leave HBM.
    """
    figure, panels = canvas(9.6, 2.3, ncols=len(crossed))
    widest = max(asked for asked, _ in crossed.values())
    said = []
    for axes, (name, (asked, hbm)) in zip(panels, crossed.items()):
        axes.set(xlim=(0, 10.4), ylim=(-1.6, 1.5))
        axes.axis("off")
        axes.set_title(name, loc="left")
        boxes = f"HBM\nK, V\n{binary(once)}", f"L2\n{binary(l2)}", f"{count} multi-\nprocessors"
        for left, words in zip((0, 4, 8), boxes):
            axes.add_patch(Rectangle((left, -1), 2.3, 2, facecolor=PALE, edgecolor=INK))
            axes.text(left + 1.15, 0, words, ha="center", va="center", fontsize=9)
        for left, size in ((2.4, hbm), (6.4, asked)):
            times = "once" if size == once else f"{size // once} times"
            axes.add_patch(Rectangle((left, -size / widest), 1.5, 2 * size / widest, color=TILED, linewidth=0))
            axes.text(left + 0.75, -1.12, f"{times}\n{binary(size)}", ha="center", va="top", fontsize=9,
                      color=darker(TILED))
        said.append(f"{name}: HBM {hbm // once} time{'s' * (hbm > once)}, L2 {asked // once} times")
    figure.set_label(
        f"Three levels: HBM, an L2 cache of {binary(l2)}, {count} multiprocessors. How often K and V leave each, "
        f"by the order of the programs: {'; '.join(said)}."
    )
    return figure
