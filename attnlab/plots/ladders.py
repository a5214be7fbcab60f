"""The map of the course: the two ladders, and the square of what distinguishes their rungs."""

from attnlab.methods import METHODS
from attnlab.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

SOFTMAX_LADDER = (
    ("naive", "the bare formula", "01"),
    ("safe", "shift by the maximum", "02"),
    ("online", "maximum and sum in one pass", "03"),
)
ATTENTION_LADDER = tuple((name, method.idea, method.lesson) for name, method in METHODS.items())
MAXIMA = {"unused": "maximum not used", "known": "maximum known beforehand", "running": "maximum running"}


def ladders(here: str | None = None) -> Figure:
    """The two ladders of the course; ``here`` is the rung to mark, such as "softmax safe" or "attention lazy"."""
    figure, (left, right) = canvas(10.0, 4.4, ncols=2, width_ratios=[4, 5])
    for axes, name, rungs in ((left, "softmax", SOFTMAX_LADDER), (right, "attention", ATTENTION_LADDER)):
        _blank(axes, f"the ladder of {name}", len(ATTENTION_LADDER))
        for height, (rung, idea, lesson) in enumerate(rungs):
            marked = here == f"{name} {rung}"
            _draw_rung(axes, height, rung, idea, "you are here" if marked else f"lesson {lesson}", marked)
    return figure


def _blank(axes: Axes, title: str, height: int) -> None:
    """Axes to draw boxes in."""
    axes.set(xlim=(0, 1), ylim=(-0.1, height))
    axes.set_title(title, loc="left")
    axes.axis("off")


def _draw_rung(axes: Axes, height: int, rung: str, idea: str, note: str, marked: bool) -> None:
    """One rung."""
    patch = FancyBboxPatch(
        (0.02, height + 0.08), 0.96, 0.66, boxstyle="round,pad=0,rounding_size=0.03",
        mutation_aspect=6, facecolor="white" if marked else PALE,
        edgecolor=COLORS[rung], linewidth=4 if marked else 1.5,
    )
    axes.add_patch(patch)
    axes.text(0.06, height + 0.41, rung, va="center", weight="bold", color=darker(COLORS[rung]))
    axes.text(0.24, height + 0.41, idea, va="center", fontsize=10)
    axes.text(0.96, height + 0.41, note, va="center", ha="right", fontsize=8, color=GRAY)


def square(here: str | None = None) -> Figure:
    """When to divide, against what is known of the maximum; ``here`` is the algorithm to mark."""
    cells: dict[tuple[int, int], list[str]] = {}
    for rung, method in METHODS.items():
        cell = list(MAXIMA).index(method.maximum), int(method.divides == "each weight")
        cells.setdefault(cell, []).append(rung)
    figure, axes = canvas(9.6, 3.0)
    axes.set(xlim=(-0.5, 2.5), ylim=(-0.5, 1.5), xticks=range(3), yticks=range(2))
    axes.set_xticklabels(MAXIMA.values())
    axes.set_yticklabels(["divide at\nthe end", "divide each\nweight"])
    axes.tick_params(length=0, colors=INK)
    axes.grid(False)
    for x in (-0.5, 0.5, 1.5, 2.5):
        axes.axvline(x, color="#D0D0D0", linewidth=1)
    axes.axhline(0.5, color="#D0D0D0", linewidth=1)
    note = "possible for a softmax:\nits second pass divides"
    axes.text(2, 1, note, ha="center", va="center", fontsize=9, color=GRAY)
    for (x, y), rungs in cells.items():
        for i, rung in enumerate(rungs):
            style = {"boxstyle": "round", "facecolor": "white", "edgecolor": COLORS[rung] if rung == here else "white"}
            axes.text(
                x, y + 0.18 * (len(rungs) - 1) - 0.36 * i, rung, ha="center", va="center", weight="bold",
                color=darker(COLORS[rung]), bbox={**style, "linewidth": 3},
            )
    return figure
