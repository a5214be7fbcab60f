"""The first picture of the course: what two algorithms hold for the same output, as areas."""

from attnlab import costs
from attnlab.measure import binary
from attnlab.plots.style import COLORS, INK, canvas, darker

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

N, D = 32_768, 64
SAYS = {"naive": "naive attention holds", "tiled": "tiled attention holds"}


def hook() -> Figure:
    """Extra memory of naive and tiled attention, one head of 32,768 tokens in float32, as squares drawn to scale."""
    held = {name: 4 * costs.extra_elements(name, N, N, D, D) for name in SAYS}
    figure, axes = canvas(6.6, 3.3)
    axes.set(xlim=(0, 2.1), ylim=(0, 1.07), aspect="equal")
    axes.axis("off")
    sides = [(size / held["naive"]) ** 0.5 for size in held.values()]
    for (name, size), side, left in zip(held.items(), sides, (0, 1.08)):
        axes.add_patch(Rectangle((left, 0), side, side, facecolor=COLORS[name], linewidth=0))
        # the words stand in the large square and above the small one
        x, y, color = (0.5, 0.5, "white") if side > 0.5 else (left, 0.22, darker(COLORS[name]))
        axes.text(x, y, f"{SAYS[name]}\n{binary(size, 2)}", color=color, ha="center" if side > 0.5 else "left",
                  va="center", fontsize=15, weight="bold")
    axes.text(1.08, 0.97, f"One head, {N:,} tokens.\nThe same output.\nMemory, drawn to scale:", color=INK, fontsize=15,
              va="top")
    return figure
