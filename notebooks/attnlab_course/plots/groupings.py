"""The map of decoding: one sum over the keys, bracketed in several ways."""

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

KEYS = 12
GROUPINGS = {  # name: lesson, what it says, the slices of keys that are summed by themselves
    "fold": ("04", "one key after another", [slice(j, j + 1) for j in range(KEYS)]),
    "cache": ("14", "a prompt, then token by token", [slice(0, 9), *(slice(j, j + 1) for j in range(9, KEYS))]),
    "split keys": ("15", "parts side by side", [slice(j, j + 3) for j in range(0, KEYS, 3)]),
    "window": ("16", "the first keys and the last", [slice(0, 2), slice(8, KEYS)]),
    "ring": ("21", "a block on each device", [slice(j, j + 3) for j in range(0, KEYS, 3)]),
    "tree": ("22", "the same, keys stay there", [slice(j, j + 3) for j in range(0, KEYS, 3)]),
}


def groupings(here: str | None = None) -> Figure:
    """One query's sum over 12 keys as the lessons on decoding bracket it; ``here`` is the row to mark."""
    figure, axes = canvas(9.6, 0.5 + 0.6 * len(GROUPINGS))
    axes.set(xlim=(-0.2, 26), ylim=(len(GROUPINGS) - 0.4, -0.4))
    axes.axis("off")
    for row, (name, (lesson, says, parts)) in enumerate(GROUPINGS.items()):
        marked = name == here
        kept = {j for part in parts for j in range(KEYS)[part]}
        for j in range(KEYS):
            axes.add_patch(_cell(j, row, (COLORS["online"] if marked else PALE) if j in kept else None))
        for part in parts:
            axes.plot([part.start + 0.1, part.stop - 0.1], [row + 0.36] * 2, color=INK, linewidth=2)
        note, weight = ("you are here", "bold") if marked else (f"lesson {lesson}", "normal")
        axes.text(KEYS + 0.5, row, name, va="center", weight="bold", color=INK)
        axes.text(KEYS + 4.0, row, says, va="center", fontsize=10, color=INK)
        axes.text(25.9, row, note, va="center", ha="right", fontsize=9, weight=weight, color=INK if marked else GRAY)
    return figure


def _cell(j: int, row: int, color: str | None) -> Rectangle:
    """One key, dotted and white where it takes no part."""
    return Rectangle((j + 0.06, row - 0.27), 0.88, 0.5, facecolor=color or "white", edgecolor=GRAY, linewidth=0.8,
                     linestyle="-" if color else ":")
