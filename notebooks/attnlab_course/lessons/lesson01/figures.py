"""The figures of lesson 01, naive attention."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def matrices(named: Mapping[str, np.ndarray]) -> Figure:
    """Small matrices of weights side by side, queries down, keys across, each entry written in its cell."""
    columns = [matrix.shape[1] for matrix in named.values()]
    figure, grid = canvas(sum(columns) * 0.62 + 1.4, 2.9, ncols=len(named), width_ratios=columns, squeeze=False)
    for axes, (title, matrix) in zip(grid[0], named.items()):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1.9)
        axes.grid(False)
        axes.set(title=title, xlabel="key j", ylabel="query i")
        axes.set(xticks=range(matrix.shape[1]), yticks=range(matrix.shape[0]))
        axes.tick_params(length=0)
        for (i, j), p in np.ndenumerate(matrix):
            axes.text(j, i, f"{p:.2f}".rstrip("0").rstrip(".") if p else "·", ha="center", va="center", fontsize=9)
    told = []
    for title, matrix in named.items():
        seen = ", ".join(f"query {i} sees keys {np.flatnonzero(row).tolist()}" for i, row in enumerate(matrix))
        told.append(f"{title}: {seen}")
    figure.set_label(f"Matrices of weights, queries by keys. {'; '.join(told)}.")
    return figure


def attention_map(weights: np.ndarray, text: Sequence[str], query: int) -> Figure:
    """The weights of one head over a text, (N, N): queries down, keys across, and the row of one query marked."""
    figure, axes = canvas(6.4, 6.2)
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axes.grid(False)
    axes.set(xlabel="key: the character that is looked at", ylabel="query: the character that looks")
    axes.set_xticks(range(len(text)), text, fontsize=8, family="monospace")
    axes.set_yticks(range(len(text)), text, fontsize=8, family="monospace")
    axes.tick_params(length=0, colors=INK)
    axes.add_patch(Rectangle((-0.5, query - 0.5), len(text), 1, fill=False, edgecolor=COLORS["naive"], linewidth=1.5))
    best = np.argsort(-weights[query])[:2]
    looks = " and ".join(f"“{text[j]}” at position {j} with weight {weights[query, j]:.2f}" for j in best)
    figure.set_label(f"A matrix of attention weights over {len(text)} characters, {''.join(text)}; above the diagonal "
                     f"all are 0. The marked query, “{text[query]}” at position {query}, looks mostly at {looks}.")
    return figure


def cliffs(scores: np.ndarray, weights: np.ndarray, marks: Sequence[tuple[str, float, str]]) -> Figure:
    """n · p of n equal scores against the score: 1 is right; where it is 0 or NaN, naive softmax failed.

    ``marks``: name, score and side ("left" or "right") of each cliff.
    """
    figure, axes = canvas(8.6, 3.4)
    axes.plot(scores, weights, color=COLORS["naive"])
    lost = np.isnan(weights)
    axes.plot(scores[lost], np.full(lost.sum(), -0.22), ".", color=COLORS["naive"], markersize=3)
    for name, score, side in marks:
        axes.axvline(score, color=GRAY, linewidth=1, linestyle=":")
        align, gap = ("right", -4) if side == "left" else ("left", 4)
        axes.annotate(name, (score, 1.12), (gap, 0), textcoords="offset points", ha=align, fontsize=9, color=GRAY)
    axes.set(xlabel="score", ylabel="n · p  (right: 1)", ylim=(-0.35, 1.25), yticks=[-0.22, 0, 1])
    axes.set_yticklabels(["NaN", "0", "1"])
    kinds = np.select([lost, weights == 0, np.isclose(weights, 1, atol=1e-3)], ["NaN", "0", "1"], "another number")
    changes = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1)]
    runs = (f"{kinds[a]} from {scores[a]:g}" for a in changes)
    figure.set_label(f"n times p of equal scores against the score, which should be 1: {', '.join(runs)} on.")
    return figure


def average(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> Figure:
    """Attention of one query in the plane: keys and their shadows on the query's line, values and their average."""
    figure, (left, right) = canvas(9.4, 3.9, ncols=2)
    scores = keys @ q / np.sqrt(2)
    weights = np.exp(scores) / np.exp(scores).sum()
    out, tones = weights @ values, [COLORS[name] for name in ("safe", "lazy", "chunked")]
    left.axline((0, 0), tuple(q), color=GRAY, linewidth=1, linestyle=":")
    names = ["q", *(f"k$_{j}$, s = {score:.2f}" for j, score in enumerate(scores, 1))]
    for vector, color, name in zip([q, *keys], [INK, *tones], names):
        left.annotate("", vector, (0, 0), arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2})
        beside = (-10 if name == "q" else 6, 5)  # q's line goes on to the right
        left.annotate(name, vector, beside, textcoords="offset points", color=darker(color), fontsize=10)
        left.plot(*zip(vector, vector @ q / (q @ q) * q), color=color, linewidth=1, linestyle="--")
    left.set(xlim=(-1.6, 3.1), ylim=(-1.6, 1.9), aspect="equal", title="a query and three keys")
    for j, (value, p, color) in enumerate(zip(values, weights, tones), 1):
        right.plot(*zip(value, values[j % 3]), color=GRAY, linewidth=1, zorder=1)
        right.plot(*value, "o", color=color, markersize=4 + 30 * p)
        away = (4 + 30 * p) / 2 + 12  # beyond the point, on the side where the triangle isn't
        right.annotate(f"v$_{j}$, p = {p:.2f}", value, (0, away if value[1] > out[1] else -away),
                       textcoords="offset points", ha="center", va="center", fontsize=9)  # fmt: skip
    right.plot(*out, "s", color=INK)
    right.annotate("out", out, (8, 0), textcoords="offset points", va="center", weight="bold")
    right.set(xlim=(-1, 5), ylim=(-0.9, 4.1), aspect="equal", title="their values, and the average")
    figure.set_label("Left, a query and three keys as arrows, each key with its shadow on the query's line. "
                     f"The scores are {', '.join(f'{s:.2f}' for s in scores)}. Right, three values as points with "
                     f"weights {', '.join(f'{p:.2f}' for p in weights)}, and the output inside their triangle.")
    return figure
