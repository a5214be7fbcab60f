"""The figures of lesson 01, naive attention."""

from collections.abc import Mapping, Sequence

from attnlab.core.arguments import LIBRARIES
from attnlab.measure import binary
from attnlab_course.plots.style import COLORS, GRAY, INK, MARKERS, canvas, darker

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


def memory(
    measured: Mapping[str, Mapping[int, int]], formulas: Mapping[str, tuple[Sequence[int], Sequence[int]]],
    limits: Mapping[str, int], colors: Mapping[str, str],
) -> Figure:
    """Bytes against sequence length: ``formulas`` as lines, ``measured`` as points, ``limits`` as horizontal lines."""
    figure, axes = canvas(7.6, 4.4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for name, (lengths, sizes) in formulas.items():
        axes.plot(lengths, sizes, color=colors[name])
        axes.annotate(name, (lengths[-1], sizes[-1]), (4, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(colors[name]))
    for name, sizes in measured.items():
        axes.plot(list(sizes), list(sizes.values()), MARKERS[name], color=INK, fillstyle="none", label=LIBRARIES[name])
    for name, size in limits.items():
        axes.axhline(size, color=GRAY, linewidth=1, linestyle="--")
        axes.annotate(name, (axes.get_xlim()[0], size), (4, 3), textcoords="offset points", fontsize=9, color=GRAY)
    exponents = range(10, 2 * 64, 5)
    low, high = axes.get_ylim()
    ticks = [2**e for e in exponents if low <= 2**e <= high]
    axes.set_yticks(ticks, [binary(tick) for tick in ticks])
    axes.set(xlabel="sequence length N (tokens)", ylabel="extra memory (bytes)")
    axes.margins(x=0.16)
    axes.legend(title="measured, one head", loc="upper left", fontsize=9, title_fontsize=9, frameon=False)
    first, line = next(iter(formulas.items()))
    passed = [f"{name}: {limit} between {n // 2:,} and {n:,} tokens" for name, (lengths, sizes) in formulas.items()
              for limit, most in limits.items() for n, size in zip(lengths, sizes) if size / 4 <= most < size]
    points = [f"{LIBRARIES[name]} {min(ratios):.1f} to {max(ratios):.1f}" for name, sizes in measured.items()
              if (ratios := [size / dict(zip(*line))[n] for n, size in sizes.items()])]
    figure.set_label("Extra memory in bytes against sequence length, both axes logarithmic. The lines pass, "
                     f"{'; '.join(passed)}. Measured, divided by the line of {first}: {', '.join(points)}.")
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


def layer(n: int, m: int) -> Figure:
    """One head of a layer: X → Q, K, V → S → P → O, a box of cells for each matrix, with its shape."""
    d, size, cell = 6, 3, 0.17
    figure, axes = canvas(10.4, 3.5)
    axes.set(xlim=(-0.2, 9.9), ylim=(-1.95, 1.55), aspect="equal")
    axes.axis("off")
    boxes = {  # name: shape in words, rows, columns, center
        "X": ("N × d", n, d, (0.5, 0.75)), "X′": ("M × d", m, d, (0.5, -0.85)),
        "Q": ("N × D", n, size, (2.6, 0.75)), "K": ("M × D", m, size, (2.6, -0.85)),
        "V": ("M × D$_v$", m, size, (7.0, -0.85)), "S": ("N × M", n, m, (4.7, 0.75)),
        "P": ("N × M", n, m, (7.0, 0.75)), "O": ("N × D$_v$", n, size, (9.2, 0.75)),
    }  # fmt: skip
    for name, (shape, rows, columns, (x, y)) in boxes.items():
        color, alpha = (COLORS["naive"], 0.85) if name in "SP" else (GRAY, 0.35)
        for i, j in np.ndindex(rows, columns):
            corner = x + (j - columns / 2) * cell, y + (i - rows / 2) * cell
            axes.add_patch(Rectangle(corner, cell, cell, facecolor=color, alpha=alpha, edgecolor="white"))
        axes.text(x, y + rows * cell / 2 + 0.06, f"{name}   {shape}", ha="center", va="bottom", fontsize=10, color=INK)
    arrows = [  # from, to, how much it bends, what it says
        ((1.1, 0.75), (2.25, 0.75), 0, "W$_Q$"), ((1.1, -0.85), (2.25, -0.85), 0, "W$_K$"),
        ((2.95, 0.75), (4.0, 0.75), 0, "QKᵀ / √D"), ((2.95, -0.6), (4.5, 0.3), 0, ""),
        ((5.4, 0.75), (6.3, 0.75), 0, "softmax"), ((7.7, 0.75), (8.85, 0.75), 0, "PV"),
        ((7.4, -0.6), (9.0, 0.3), 0, ""), ((0.9, -1.5), (6.7, -1.5), 0.06, "W$_V$"),
    ]  # fmt: skip
    for start, end, bend, says in arrows:
        style = {"arrowstyle": "->", "color": GRAY, "connectionstyle": f"arc3,rad={bend}"}
        axes.annotate("", end, start, arrowprops=style)
        middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        axes.annotate(says, middle, (0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=9, color=INK)
    return figure
