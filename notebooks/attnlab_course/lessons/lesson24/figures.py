"""The figures of lesson 24, smaller caches."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

KEPT, CUT, LOST, MARK = COLORS["tiled"], COLORS["chunked"], COLORS["naive"], COLORS["online"]


def factors(rows: Sequence[tuple[str, float, str]]) -> Figure:
    """The share of the whole cache that is left after each cut, as bars from 0; what it costs beside it."""
    figure, axes = canvas(9.4, 0.62 * len(rows) + 0.9)
    for y, (_, share, cost) in enumerate(rows):
        axes.barh(y, share, color=KEPT if y else GRAY, height=0.62)
        axes.text(share + 0.012, y, f"{100 * share:.0f}%   {cost}", va="center", fontsize=10)
    axes.set(yticks=range(len(rows)), xlim=(0, 1.5), xlabel="share of the whole cache after 512 tokens")
    axes.set_yticklabels([name for name, *_ in rows])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.invert_yaxis()
    axes.grid(False)
    said = "; ".join(f"{name} {100 * share:.0f}%, {cost}" for name, share, cost in rows)
    figure.set_label(f"Bars: how much of the cache is left. {said}.")
    return figure


def chains(errors: Mapping[str, float]) -> Figure:
    """Two products of matrices: without rotation the two in the middle join once, with it they differ at every j."""
    figure, axes = canvas(9.6, 2.9)
    rows = (("no rotation", ("q", "Uᵀ", "c"), (0, 2), "q Uᵀ: once per query, good for every key"),
            ("rotation", ("q", "R", "Uᵀ", "c"), (0, 3), "q R Uᵀ: another vector for every distance"))  # fmt: skip
    for y, (name, letters, (start, stop), text) in enumerate(rows):
        top = -1.25 * y
        axes.text(-0.25, top + 0.4, name, ha="right", va="center", fontsize=11)
        for x, letter in enumerate(letters):
            color = LOST if letter == "R" else CUT if letter == "c" else PALE
            axes.add_patch(Rectangle((x, top), 0.86, 0.8, facecolor=color, edgecolor=GRAY))
            small = {"R": "i − j", "c": "j"}.get(letter, "")
            light = color != PALE
            axes.text(x + 0.43, top + 0.45, letter, ha="center", va="center", fontsize=14,
                      color="white" if light else INK)
            axes.text(x + 0.66, top + 0.16, small, ha="center", va="center", fontsize=8,
                      color="white" if light else INK)
        axes.plot([start, stop - 0.14], [top - 0.1] * 2, color=KEPT if y == 0 else LOST, linewidth=3)
        axes.text(4.3, top + 0.4, text, va="center", fontsize=11)
    axes.set(xlim=(-1.7, 9.6), ylim=(-1.5, 0.95))
    axes.axis("off")
    said = ", ".join(f"{name} {x:.2f}" for name, x in errors.items())
    figure.set_label(
        "Two chains of matrices. Without rotation the score is q times U transposed times c, and the first two join. "
        "With "
        f"rotation R stands between them and depends on the distance. Errors of the two ways around it: {said}.")
    return figure


def bits(prices: Mapping[str, Mapping[float, tuple[float, float]]], whole: tuple[float, float]) -> Figure:
    """Bits per byte, and of repeated text, against bits per number: one line for each of what is cut."""
    figure, pair = canvas(10.2, 3.7, ncols=2)
    for axes, at, name in zip(pair, (0, 1), ("bits per byte", "bits per byte, repeated text")):
        for (what, row), color in zip(prices.items(), (INK, KEPT, MARK)):
            x = sorted(row)
            axes.plot(x, [row[b][at] for b in x], "o-", color=color)
            axes.annotate(what, (x[0], row[x[0]][at]), (-8, 0), textcoords="offset points", fontsize=10,
                          color=darker(color), ha="right", va="center")
        axes.axhline(whole[at], color=GRAY, linestyle="--", linewidth=1)
        axes.set(xscale="log", xlabel="bits per number, steps included", title=name, xlim=(2.2, 10))
        ticks = sorted({b for row in prices.values() for b in row})
        axes.set_xticks(ticks, [f"{b:g}" for b in ticks])
        axes.minorticks_off()
        axes.set_ylim(whole[at] * 0.97, None)
    said = "; ".join(f"{what}: " + ", ".join(f"{b:g} bits {row[b][0]:.2f} and {row[b][1]:.2f}" for b in sorted(row))
                     for what, row in prices.items())  # fmt: skip
    figure.set_label(
        f"Bits per byte of text, and of repeated text, against the bits of a number. In full {whole[0]:.2f} and "
        f"{whole[1]:.2f}. {said}.")
    return figure


def page(keys: np.ndarray, q: np.ndarray) -> Figure:
    """Keys of one page in two channels, their box, the corner that q picks, and the gap to the best key."""
    figure, axes = canvas(6.4, 4.6)
    low, high, corner = keys.min(0), keys.max(0), np.where(q > 0, keys.max(0), keys.min(0))
    scores = keys @ q
    best, bound = keys[scores.argmax()], corner @ q
    axes.add_patch(Rectangle(low, *(high - low), facecolor=PALE, edgecolor=GRAY, linewidth=1.2))
    unit, center = q / np.linalg.norm(q), keys.mean(0)
    side = np.array([-unit[1], unit[0]])
    gap = np.concatenate([best + np.outer([-9, 9], side), corner + np.outer([9, -9], side)])
    axes.fill(*gap.T, color=LOST, alpha=0.12, linewidth=0)
    for point, color, name in ((best, KEPT, f"best key: {scores.max():.2f}"), (corner, LOST, f"corner: {bound:.2f}")):
        ends = point + np.outer([-9, 9], side)
        axes.plot(*ends.T, color=color, linewidth=1.2, linestyle="--")
        axes.annotate(name, point, (8, 6), textcoords="offset points", fontsize=10, color=darker(color))
    axes.plot(*keys.T, "o", color=GRAY, markersize=6)
    axes.plot(*best, "o", color=KEPT, markersize=9)
    axes.plot(*corner, "s", color=LOST, markersize=9)
    axes.annotate("", center + 0.8 * unit, center, arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 2})
    axes.annotate("q", center + 0.8 * unit, (2, 6), textcoords="offset points", fontsize=12)
    pad = 0.25 * (high - low)
    axes.set(xlim=(low[0] - pad[0], high[0] + 3 * pad[0]), ylim=(low[1] - pad[1], high[1] + 1.2 * pad[1]))
    axes.set(xlabel="channel 0", ylabel="channel 1", aspect="equal")
    figure.set_label(
        f"{len(keys)} keys of one page in two channels and the box around them. Against q the best key scores "
        f"{scores.max():.2f}, the corner of the box {bound:.2f}.")
    return figure


def subsets(prices: Mapping[str, tuple[float, float, float]]) -> Figure:
    """Each choice of layers with all keys: share of the cache against bits, and against repeated text."""
    figure, pair = canvas(10.2, 4.0, ncols=2)
    for axes, at, name in zip(pair, (1, 2), ("bits per byte", "bits per byte, repeated text")):
        for layers, row in prices.items():
            color = KEPT if "3" in layers else LOST
            axes.plot(row[0], row[at], "o", color=color, markersize=8)
            if layers in ("", "3", "0 1 2", "0 1 2 3"):
                told = {"": "none", "0 1 2 3": "all", "3": "layer 3", "0 1 2": "layers 0, 1, 2"}[layers]
                up = 8 if layers == "0 1 2" or "3" in layers else -14
                axes.annotate(told, (row[0], row[at]), (6, up), textcoords="offset points", fontsize=10,
                              color=darker(color))
        axes.set(xlabel="share of the whole cache", title=name, xlim=(0, 1.15))
    said = "; ".join(f"{layers or 'none'}: {row[0]:.2f}, {row[1]:.2f}, {row[2]:.2f}" for layers, row in prices.items())
    figure.set_label(
        "Which layers keep all keys, as points in two clouds: those with layer 3 are low, those without it high. "
        "Share of "
        f"the cache, bits per byte, bits of repeated text: {said}.")
    return figure
