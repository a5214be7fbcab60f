"""The map of the course: the two ladders."""

from attnlab_course.ladder import LADDER
from attnlab_course.plots.style import COLORS, GRAY, PALE, canvas, darker

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

SOFTMAX_LADDER = (
    ("naive", "the bare formula", "01"),
    ("safe", "shift by the maximum", "02"),
    ("online", "maximum and sum in one pass", "03"),
)
ATTENTION_LADDER = tuple((name, method.idea, method.lesson) for name, method in LADDER.items())


def ladders() -> Figure:
    """The two ladders of the course: each rung with its idea and its lesson."""
    figure, panels = canvas(10.0, 4.4, ncols=2, width_ratios=[4, 5])
    for axes, name, rungs in zip(panels, ("softmax", "attention"), (SOFTMAX_LADDER, ATTENTION_LADDER)):
        axes.set(xlim=(0, 1), ylim=(-0.1, len(ATTENTION_LADDER)))
        axes.set_title(f"the ladder of {name}", loc="left")
        axes.axis("off")
        for height, (rung, idea, lesson) in enumerate(rungs):
            axes.add_patch(FancyBboxPatch(
                (0.02, height + 0.08), 0.96, 0.66, boxstyle="round,pad=0,rounding_size=0.03", mutation_aspect=6,
                facecolor=PALE, edgecolor=COLORS[rung], linewidth=1.5,
            ))  # fmt: skip
            axes.text(0.06, height + 0.41, rung, va="center", weight="bold", color=darker(COLORS[rung]))
            axes.text(0.24, height + 0.41, idea, va="center", fontsize=10)
            axes.text(0.96, height + 0.41, f"lesson {lesson}", va="center", ha="right", fontsize=8, color=GRAY)
    rungs = ", ".join(rung for rung, _, _ in ATTENTION_LADDER)
    figure.set_label(f"Two ladders. Softmax: {', '.join(x for x, _, _ in SOFTMAX_LADDER)}. Attention: {rungs}.")
    return figure
