"""The figures of lesson 26, guess and verify."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

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
    axes.bar(at, (p[best] - both), bottom=both, color=OWN, label="(p − q)₊: drawn after a refusal")
    axes.bar(at, (q[best] - both), bottom=both, color="white", edgecolor=DRAFT, hatch="////",
             label="(q − p)₊: refused")  # fmt: skip
    axes.set_xticks(at, [name(x) for x in best])
    axes.set(xlabel="next byte", ylabel="probability")
    axes.set_axisbelow(True)
    axes.legend()
    first = best[0]
    figure.set_label(
        f"Chances of the {len(best)} likeliest bytes. All in all model and draft share {np.minimum(p, q).sum():.2f}; "
        f"the likeliest byte, {name(first)}, has {p[first]:.2f} in the model and {q[first]:.2f} in the draft.")
    return figure


def tape(text: Sequence[int], calls: Mapping[str, Sequence[int]], shown: int = 56) -> Figure:
    """A stretch of text, a row for each draft: filled where a guess was kept, framed where the model's token came."""
    figure, axes = canvas(10.2, 0.52 * len(calls) + 0.7)
    said = []
    for row, (draft, counts) in enumerate(calls.items()):
        at = 0
        for count in counts:
            for j in range(count):
                if at < shown:
                    own = j == count - 1
                    axes.add_patch(Rectangle((at, row), 0.94, 0.8, facecolor="white" if own else KEPT, edgecolor=INK
                                             if own else KEPT, linewidth=1))
                    axes.text(at + 0.47, row + 0.4, name(text[at]), ha="center", va="center", fontsize=9,
                              color=INK if own else "white")
                    at += 1
        used = next(i for i in range(len(counts) + 1) if sum(counts[:i]) >= shown or i == len(counts))
        said.append(f"{draft}: {used} calls")
        axes.text(-0.5, row + 0.4, f"{draft} ({used} calls)", ha="right", va="center", fontsize=10)
    axes.set(xlim=(-14, shown), ylim=(len(calls), -0.2))
    axes.grid(False)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.spines[:].set_visible(False)
    figure.set_label(f"The same {shown} bytes, by draft; guesses that were kept are filled. {'; '.join(said)}.")
    return figure


def couplings(p: Sequence[float], q: Sequence[float], agree: Mapping[str, float]) -> Figure:
    """Left: the unit interval cut by p and by q, equal tokens shaded. Right: how often each coupling agrees."""
    figure, (left, right) = canvas(9.8, 2.9, ncols=2, width_ratios=[1.5, 1])
    shades = (KEPT, OWN, DRAFT)
    for y, chances, label in ((1, p, "model"), (0, q, "draft")):
        start = 0.0
        for token, width in enumerate(chances):
            left.barh(y, width, left=start, height=0.6, color=shades[token], edgecolor="white")
            left.text(start + width / 2, y, "ABC"[token], ha="center", va="center", color="white")
            start += width
        left.text(-0.02, y, label, ha="right", va="center")
    ends_p, ends_q = np.cumsum(p), np.cumsum(q)
    for token in range(len(p)):
        low = max(ends_p[token] - p[token], ends_q[token] - q[token])
        high = min(ends_p[token], ends_q[token])
        if high > low:
            left.fill_between([low, high], 0.3, 0.7, color=shades[token], alpha=0.35, linewidth=0)
    left.set(xlim=(-0.16, 1), ylim=(-0.5, 1.5), xlabel="the number u", yticks=[])
    left.set_title("one u, looked up twice: equal where shaded")
    left.grid(False)
    bars = right.barh([*agree], [*agree.values()], color=[GRAY, OWN, KEPT, PALE], edgecolor=GRAY)
    right.bar_label(bars, fmt="%.2f", padding=3)
    right.set(xlim=(0, 1.1), xlabel="probability that both draw the same")
    right.invert_yaxis()
    right.set_axisbelow(True)
    said = ", ".join(f"{key} {value:.2f}" for key, value in agree.items())
    figure.set_label(f"Left: model {list(p)} and draft {list(q)} cut the unit interval; where the same token lies "
                     f"above and below, one number gives both the same. Right, probability of agreement: {said}.")
    return figure


def speedup(batches: Sequence[float], curves: Mapping[str, Sequence[float]], kinks: Mapping[str, float]) -> Figure:
    """Speedup against the batch, a line for each plan, and where arithmetic takes over."""
    figure, axes = canvas(9.6, 3.8)
    for (label, values), color in zip(curves.items(), (COLORS["tiled"], COLORS["online"], COLORS["naive"], INK)):
        axes.plot(batches, values, color=color)
        axes.annotate(label, (batches[-1], values[-1]), (6, 0), textcoords="offset points", va="center",
                      color=darker(color), fontsize=10)
    axes.axhline(1, color=GRAY, linewidth=1)
    for label, at in kinks.items():
        axes.axvline(at, color=GRAY, linestyle="--", linewidth=1)
        axes.annotate(label, (at, 0.06), (4, 0), textcoords="offset points", fontsize=9, color=GRAY)
    axes.set(xscale="log", xlabel="sequences in the batch", ylabel="speedup", ylim=(0, None),
             xlim=(batches[0], batches[-1] * 3.2))
    axes.set_xticks([x for x in (1, 4, 16, 64, 256, 1024) if x <= batches[-1]],
                    [str(x) for x in (1, 4, 16, 64, 256, 1024) if x <= batches[-1]])
    said = "; ".join(f"{label}: {values[0]:.2f} for one sequence, {values[-1]:.2f} for {batches[-1]:.0f}"
                     for label, values in curves.items())
    figure.set_label(f"Speedup against the size of the batch. {said}.")
    return figure
