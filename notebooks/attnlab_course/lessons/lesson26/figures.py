"""The figures of lesson 26, guess and verify."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, canvas, name_line_ends

import numpy as np
from matplotlib.figure import Figure

KEPT, OWN, DRAFT = COLORS["tiled"], COLORS["online"], COLORS["naive"]
"""What a guess and the model agree on, what the model adds, what the draft has too much."""


def name(byte: int) -> str:
    """A byte as a reader sees it."""
    return {10: "↵", 32: "␣"}.get(byte, chr(byte) if 32 < byte < 127 else "·")


def overlap(p: np.ndarray, q: np.ndarray, shown: int = 12) -> Figure:
    """Chances of the likeliest bytes under model and draft: what they share, and what each has more."""
    best = np.argsort(-np.maximum(p, q))[:shown]
    figure, axes = canvas(9.6, 3.4)
    at, both = np.arange(len(best)), np.minimum(p, q)[best]
    axes.bar(at, both, color=KEPT, label="min(p, q): kept")
    axes.bar(at, (p[best] - both), bottom=both, color=OWN, label="(p − q)₊: drawn after a rejection")
    axes.bar(at, (q[best] - both), bottom=both, color="white", edgecolor=DRAFT, hatch="////",
             label="(q − p)₊: rejected")  # fmt: skip
    axes.set_xticks(at, [name(x) for x in best])
    axes.set(xlabel="next byte", ylabel="probability")
    axes.set_axisbelow(True)
    axes.legend()
    first = best[0]
    figure.set_label(
        f"Chances of the {len(best)} likeliest bytes. All in all model and draft share {np.minimum(p, q).sum():.2f}; "
        f"the likeliest byte, {name(first)}, has {p[first]:.2f} in the model and {q[first]:.2f} in the draft.")
    return figure


def speedup(batches: Sequence[float], curves: Mapping[str, Sequence[float]]) -> Figure:
    """Speedup against the batch, a line for each plan."""
    figure, axes = canvas(9.6, 3.8)
    styles = (("tiled", "-"), ("online", "-"), ("tiled", "--"), ("naive", "-"))
    for values, (color, line) in zip(curves.values(), styles):
        axes.plot(batches, values, line, color=COLORS[color])
    name_line_ends(axes, batches[-1], [(values[-1], label, COLORS[color])
                                       for (label, values), (color, _) in zip(curves.items(), styles)], apart=0.22)
    axes.axhline(1, color=GRAY, linewidth=1)
    axes.set(xscale="log", xlabel="sequences in the batch", ylabel="speedup", ylim=(0, None),
             xlim=(batches[0], batches[-1] * 5))
    ticks = [x for x in (1, 4, 16, 64, 256, 1024, 4096) if x <= batches[-1]]
    axes.set_xticks(ticks, [f"{x:,}" for x in ticks])
    said = "; ".join(f"{label}: {values[0]:.2f} for one sequence, at most {max(values):.2f}, {values[-1]:.2f} for "
                     f"{batches[-1]:,.0f}" for label, values in curves.items())
    figure.set_label(f"Speedup against the size of the batch. {said}.")
    return figure
