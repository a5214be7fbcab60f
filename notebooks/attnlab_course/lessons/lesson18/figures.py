"""The figures of lesson 18, feature maps and recall."""

from collections.abc import Mapping, Sequence

from attnlab_course.lessons.lesson18.recall import MATCHED
from attnlab_course.plots.style import COLORS, GRAY, canvas

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SOFTMAX = COLORS["naive"]
FAMILIES = {"softmax": SOFTMAX, "elu": "#0072B2", "relu": "#56B4E9", "exp": "#E69F00", "taylor": "#009E73",
            "hedgehog": "#CC79A7"}  # fmt: skip
"""One color a feature map, that of the softmax first."""


def parabola(s: np.ndarray) -> Figure:
    """The weight of a key against its score: softmax's, and the parabola's."""
    figure, axes = canvas(7.2, 3.6)
    curves = {"$e^s$": np.exp(s), "1 + s + s²/2": 1 + s + s**2 / 2}
    for (name, values), color in zip(curves.items(), (SOFTMAX, FAMILIES["taylor"])):
        axes.plot(s, values, color=color, label=name)
    axes.axvline(-1, color=GRAY, linewidth=1, linestyle=":")
    axes.legend(loc="upper center", fontsize=10)
    axes.set(xlabel="score s", ylabel="weight of a key", ylim=(0, 13.5), xlim=(s[0], s[-1]))
    figure.set_label(
        f"Two weights against the score from {s[0]:g} to {s[-1]:g}. At the left end the exponential is "
        f"{np.exp(s[0]):.2f} and the parabola {1 + s[0] + s[0] ** 2 / 2:.2f}: below −1 it rises again.")
    return figure


def heads(weights: Mapping[str, np.ndarray]) -> Figure:
    """The weights of one head, (N, N), by name: as squares, dark where the weight is large."""
    figure, grid = canvas(10.2, 3.3, ncols=len(weights), squeeze=False)
    for axes, (name, a) in zip(grid.flat, weights.items()):
        axes.imshow(np.sqrt(a), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        axes.grid(False)
        axes.set(title=name, xlabel="key", xticks=[0, len(a) - 1], yticks=[0, len(a) - 1])
    grid.flat[0].set_ylabel("query")
    before = ", ".join(f"{name}: {np.diagonal(a, -1).mean():.2f}" for name, a in weights.items())
    figure.set_label(
        f"The weights of one head for {len(next(iter(weights.values())))} tokens, as squares. Just below the "
        f"diagonal, where a query meets the token before it, the mean weight is {before}.")
    return figure


def recall(best: Mapping[tuple[str, int], Mapping], sizes: Mapping[tuple[str, int], int], runs: Sequence[Mapping]
           ) -> Figure:  # fmt: skip
    """Left: answers that are right against the rate, for MATCHED models. Right: at the best rate, by size.

    Lines join the means of the seeds, bars go from the worst seed to the best.
    """
    figure, (left, right) = canvas(10.2, 4.2, ncols=2, sharey=True)
    said, swept = [], []
    rates = sorted({run["rate"] for run in runs})
    for n, (name, d) in enumerate(MATCHED):
        found = {rate: [run["right"] for run in runs if (run["map"], run["d"], run["rate"]) == (name, d, rate)]
                 for rate in rates}  # fmt: skip
        _bars(left, [rate * 1.03**n for rate in found], list(found.values()), FAMILIES[name], name)
        swept.append(f"{name} {', '.join(f'{100 * np.mean(y):.0f} at {rate:g}' for rate, y in found.items())}")
    for name, color in FAMILIES.items():
        family = {sizes[key]: [run["right"] for run in runs if (run["map"], run["d"], run["rate"]) == (
            *key, found["rate"])] for key, found in sorted(best.items()) if key[0] == name}  # fmt: skip
        _bars(right, [*family], list(family.values()), color, name)
        said.append(f"{name} {', '.join(f'{100 * np.mean(y):.0f} at {size:,}' for size, y in family.items())}")
    left.set(title="by rate, 15 or 16 features", xlabel="rate of the optimizer", ylabel="answers that are right (%)")
    right.set(title="by size, at the best rate", xlabel="numbers in the state")
    for axes, ticks in ((left, rates), (right, (1000, 2000, 4000, 8000))):
        axes.set_xscale("log")
        axes.set_xticks([*ticks], [f"{tick:,}" for tick in ticks])
        axes.set_xticks([], minor=True)
    right.legend(loc="lower right", fontsize=10)
    figure.set_label(
        "Percent of right answers, means of three seeds. Left, against the rate, for maps of 15 or 16 features: "
        f"{'; '.join(swept)}. Right, at the best rate of each, against the numbers in the state: {'; '.join(said)}.")
    return figure


def _bars(axes: Axes, x: Sequence[float], found: Sequence[Sequence[float]], color: str, name: str) -> None:
    """A line through means, in percent, with bars from the least to the most."""
    y, low, high = (100 * np.array([of(values) for values in found]) for of in (np.mean, np.min, np.max))
    axes.errorbar(x, y, [y - low, high - y], fmt="o-", color=color, label=name, capsize=3, markersize=5)
