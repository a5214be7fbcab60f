"""The map of the course: the two ladders."""

from attnlab_course.ladder import LADDER
from attnlab_course.plots.style import COLORS, GRAY, PALE, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

SOFTMAX_LADDER = (
    ("naive", "the bare formula", "01"),
    ("safe", "shift by the maximum", "02"),
    ("online", "maximum and sum in one pass", "03"),
)
ATTENTION_LADDER = tuple((name, method.idea, method.lesson) for name, method in LADDER.items())


def ladders(here: str | None = None) -> Figure:
    """The two ladders of the course; ``here`` is the rung to mark, such as "softmax safe" or "attention lazy"."""
    figure, (left, right) = canvas(10.0, 4.4, ncols=2, width_ratios=[4, 5])
    for axes, name, rungs in ((left, "softmax", SOFTMAX_LADDER), (right, "attention", ATTENTION_LADDER)):
        _blank(axes, f"the ladder of {name}", len(ATTENTION_LADDER))
        for height, (rung, idea, lesson) in enumerate(rungs):
            marked = here == f"{name} {rung}"
            _draw_rung(axes, height, rung, idea, "you are here" if marked else f"lesson {lesson}", marked)
    rungs = ", ".join(rung for rung, _, _ in ATTENTION_LADDER)
    said = f"; {here} is marked" if here else ""
    figure.set_label(f"Two ladders. Softmax: {', '.join(x for x, _, _ in SOFTMAX_LADDER)}. Attention: {rungs}{said}.")
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
