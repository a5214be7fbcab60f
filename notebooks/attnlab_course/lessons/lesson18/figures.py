"""The figures of lesson 18, feature maps and recall."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import name_line_ends
from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SOFTMAX = COLORS["naive"]
FAMILIES = {"softmax": SOFTMAX, "elu": "#0072B2", "relu": "#56B4E9", "exp": "#E69F00", "taylor": "#009E73",
            "hedgehog": "#CC79A7"}  # fmt: skip
"""One color a feature map, that of the softmax first."""


def parabola(s: np.ndarray, curves: Mapping[str, np.ndarray], scores: np.ndarray, shares: Mapping[str, np.ndarray]
             ) -> Figure:  # fmt: skip
    """Left: weights against the score. Right: the share of one key of this score beside fifteen of score 0."""
    figure, (left, right) = canvas(10.2, 3.9, ncols=2)
    styles = ((SOFTMAX, "-"), (FAMILIES["taylor"], "-"), (GRAY, "--"))
    for values, (color, line) in zip(curves.values(), styles):
        left.plot(s, values, color=color, linestyle=line)
    at = {0: (1.5, 8.6), 1: (0.9, 0.8), 2: (-3.55, 11.2)}
    for n, (name, (color, _)) in enumerate(zip(curves, styles)):
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        left.text(*at[n], name.replace("e^s", "$e^s$"), color=darker(color), fontsize=10, bbox=box)
    left.axvline(-1, color=GRAY, linewidth=1, linestyle=":")
    left.annotate("−1", (-1, 12.6), (3, 0), textcoords="offset points", fontsize=9, color=GRAY)
    left.set(xlabel="score s", ylabel="weight", ylim=(0, 13.5), xlim=(s[0], s[-1]))
    left.set_title("the weight of one key")
    for name, values in shares.items():
        right.plot(scores, values, color=FAMILIES[name])
    name_line_ends(right, scores[-1], [(values[-1], name, FAMILIES[name]) for name, values in shares.items()], 0.08)
    right.set(xlabel="score of one key; 15 others have 0", ylabel="its share of the weight", ylim=(0, 1.05),
              xlim=(0, scores[-1] * 1.3))  # fmt: skip
    right.set_title("how spiky a map is")
    at = " and ".join(f"{name} {w[0]:.2f}" for name, w in curves.items())
    ends = ", ".join(f"{name} {values[-1]:.2f}" for name, values in shares.items())
    figure.set_label(
        f"Left: three weights against the score from {s[0]:g} to {s[-1]:g}. At the left end they are {at}: the "
        "parabolas rise again. Right: the share of one key beside fifteen others against its score; at "
        f"{scores[-1]:g} it is {ends}.")
    return figure


def heads(weights: Mapping[str, np.ndarray]) -> Figure:
    """The weights of one head, (N, N), by name: as squares, dark where the weight is large."""
    figure, grid = canvas(10.2, 3.3, ncols=len(weights), squeeze=False)
    for axes, (name, a) in zip(grid.flat, weights.items()):
        axes.imshow(np.sqrt(a), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(name)
        axes.grid(False)
        axes.set(xlabel="key", xticks=[0, len(a) - 1], yticks=[0, len(a) - 1])
    grid.flat[0].set_ylabel("query")
    before = ", ".join(f"{name}: {np.diagonal(a, -1).mean():.2f}" for name, a in weights.items())
    figure.set_label(
        f"The weights of one head for {len(next(iter(weights.values())))} tokens, as squares. Just below the "
        f"diagonal, where a query meets the token before it, the mean weight is {before}.")
    return figure


def distilled(curves: Mapping[str, Sequence[float]], floor: float, entropies: Mapping[str, np.ndarray]) -> Figure:
    """Left: the loss step by step, and the least it could be. Right: the entropy of each head's weights, sorted."""
    figure, (left, right) = canvas(10.2, 3.8, ncols=2)
    colors = (FAMILIES["hedgehog"], INK)
    for (name, values), color in zip(curves.items(), colors):
        left.plot(values, color=color)
        left.annotate(name, (len(values) * 0.45, values[len(values) // 2]), (0, 24), textcoords="offset points",
                      fontsize=10, color=darker(color))  # fmt: skip
    left.axhline(floor, color=SOFTMAX, linewidth=1.2, linestyle="--")
    left.annotate("entropy of the softmax's weights", (0, floor), (4, 4), textcoords="offset points", fontsize=10,
                  color=darker(SOFTMAX))  # fmt: skip
    left.set(xlabel="step", ylabel="cross-entropy (bits)", ylim=(0, None))
    left.set_title("distillation")
    order = np.argsort(next(iter(entropies.values())).ravel())
    for (name, values), (color, mark) in zip(entropies.items(), ((SOFTMAX, "o"), (GRAY, "x"), (FAMILIES["hedgehog"],
                                                                                             "s"))):  # fmt: skip
        right.plot(np.sort(np.arange(len(order))), values.ravel()[order], mark, color=color, markersize=6)
        right.plot([], [], mark, color=color, label=name)
    right.legend(loc="lower right", fontsize=10)
    right.set(xlabel="heads, in the order of the softmax's entropy", ylabel="entropy of the weights (bits)",
              ylim=(0, None))  # fmt: skip
    right.set_title("before and after")
    means = ", ".join(f"{name} {values.mean():.1f}" for name, values in entropies.items())
    falls = "; ".join(f"from {values[0]:.2f} to {values[-1]:.2f}" for values in curves.values())
    figure.set_label(
        f"Left: the cross-entropy against the step, {falls} bits; a dashed line at {floor:.2f}, the entropy of the "
        f"softmax's weights. Right: the entropy of each of {len(order)} heads; the means are {means} bits.")
    return figure


def converted(bits: Mapping[str, Sequence[float]], whole: float) -> Figure:
    """Bits per byte of each model: as converted, distilled, tuned; nan where a stage is left out."""
    figure, axes = canvas(10.2, 3.9)
    stages = (("as converted", GRAY), ("distilled", FAMILIES["hedgehog"]), ("tuned", FAMILIES["taylor"]))
    for n, values in enumerate(bits.values()):
        for stage, value in enumerate(values):
            if np.isfinite(value):
                axes.barh(n + 0.27 * (stage - 1), value, 0.25, color=stages[stage][1])
                axes.text(value + 0.03, n + 0.27 * (stage - 1), f"{value:.2f}", va="center", fontsize=9, color=INK)
    for name, color in stages:
        axes.barh([0], [0], color=color, label=name)
    axes.axvline(whole, color=SOFTMAX, linewidth=1.2, linestyle="--")
    axes.set(yticks=range(len(bits)), yticklabels=list(bits), xlabel="bits per byte, held out")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.legend(loc="upper right", fontsize=10)
    names = [stage for stage, _ in stages]
    said = "; ".join(
        f"{name} {', '.join(f'{x:.2f} {stage}' for stage, x in zip(names, values) if np.isfinite(x))}"
        for name, values in bits.items())
    figure.set_label(f"Bits per byte as bars: {said}. A dashed line at {whole:.2f}, the softmax as trained.")
    return figure


def recall(best: Mapping[tuple[str, int], Mapping], sizes: Mapping[tuple[str, int], int], runs: Sequence[Mapping],
           matched: Sequence[tuple[str, int]]) -> Figure:
    """Left: answers that are right, at the best rate, against the numbers of the state. Right: against the rate.

    Lines join the means of the seeds, bars go from the worst seed to the best. ``matched``: the models of the right.
    """
    figure, (left, right) = canvas(10.2, 4.2, ncols=2, sharey=True)
    said, swept = [], []
    for name, color in FAMILIES.items():
        family = sorted((sizes[key], found) for key, found in best.items() if key[0] == name)
        if family:
            x, y, low, high = zip(*((size, found["right"], found["least"], found["most"]) for size, found in family))
            _bars(left, x, y, low, high, color, name)
            said.append(f"{name} {', '.join(f'{100 * value:.0f} at {size:,}' for size, value in zip(x, y))}")
    for name, d in matched:
        rows = [run for run in runs if (run["map"], run["d"]) == (name, d)]
        rates = sorted({run["rate"] for run in rows})
        right_answers = [[run["right"] for run in rows if run["rate"] == rate] for rate in rates]
        _bars(right, rates, [np.mean(y) for y in right_answers], [min(y) for y in right_answers],
              [max(y) for y in right_answers], FAMILIES[name], name)  # fmt: skip
        swept.append(f"{name} {', '.join(f'{100 * np.mean(y):.0f} at {x:g}' for x, y in zip(rates, right_answers))}")
    left.set(xlabel="numbers in the state", ylabel="answers that are right (%)", xscale="log")
    for axes, ticks in ((left, (1000, 2000, 4000, 8000)), (right, rates)):
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_xticks([], minor=True)
    left.set_title("by size, at the best rate")
    left.legend(loc="lower right", fontsize=10)
    right.set(xlabel="rate of the optimizer", xscale="log")
    right.set_title("by rate, 15 or 16 features")
    figure.set_label(
        "Left: percent of right answers at the best of three rates against the numbers in the state; means of three "
        f"seeds are {'; '.join(said)}. Right: the same against the rate, for maps of 15 or 16 features: "
        f"{'; '.join(swept)}.")
    return figure


def _bars(axes: Axes, x: Sequence[float], y: Sequence[float], low: Sequence[float], high: Sequence[float], color: str,
          name: str) -> None:  # fmt: skip
    """A line through means, in percent, with bars from the least to the most."""
    y, low, high = (100 * np.array(values) for values in (y, low, high))
    axes.errorbar(x, y, [y - low, high - y], fmt="o-", color=color, label=name, capsize=3, markersize=5)
