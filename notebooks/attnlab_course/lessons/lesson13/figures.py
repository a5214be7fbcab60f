"""The figures of lesson 13, fast kernels."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter


def staircase(steps: Mapping[str, Sequence[float]], peak: float) -> Figure:
    """TFLOP/s of one kernel after another: a step for the best of its lengths, a dot for each; the chip's peak."""
    figure, axes = canvas(8.6, 3.6)
    for x, (name, rates) in enumerate(steps.items()):
        best = max(rates)
        axes.fill_between([x, x + 1], best, color=COLORS["tiled"], alpha=0.25 + 0.25 * x, linewidth=0)
        places = [x + (i + 1) / (len(rates) + 1) for i in range(len(rates))]
        axes.plot(places, rates, "o", color=INK, markersize=5)
        axes.text(x + 0.5, best + 14, f"{best:.0f}", ha="center", fontsize=12, color=INK)
        axes.text(x + 0.5, 40, name, ha="center", fontsize=10, color=INK)
    axes.axhline(peak, color=GRAY, linestyle="--", linewidth=1.5)
    axes.text(0.02, peak - 20, f"peak of the datasheet, {peak:.0f}", va="top", fontsize=10, color=GRAY)
    axes.set(xticks=[], xlim=(0, len(steps)), ylim=(0, 1.08 * peak), ylabel="TFLOP/s")
    said = ", ".join(f"{name} {max(rates):.0f} ({max(rates) / peak:.0%})" for name, rates in steps.items())
    figure.set_label(f"The best rates of {len(steps)} kernels below a peak of {peak:.0f} TFLOP/s: {said}. On each step "
                     "a dot for each length.")
    return figure


def occupancy(lengths: Sequence[int], shares: Mapping[str, Sequence[float]]) -> Figure:
    """Share of the multiprocessors' slots that hold a program, against the sequence length, one line a grid."""
    figure, axes = canvas(7.6, 3.7)
    axes.set_xscale("log", base=2)
    styles = ((COLORS["naive"], "s--"), (COLORS["tiled"], "o-"))
    for (name, line), (color, mark) in zip(shares.items(), styles):
        axes.plot(lengths, line, mark, color=color, markersize=5.5)
        axes.annotate(name, (lengths[-1], line[-1]), (9, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(color))
    axes.set_xticks(lengths, [f"{n}" if n < 1024 else f"{n // 1024}K" for n in lengths])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    axes.set(xlabel="sequence length N (tokens); batch = 16K / N", ylabel="busy slots", ylim=(0, 1.06),
             xlim=(lengths[0] * 0.85, lengths[-1] * 3.4))
    said = "; ".join(f"{' '.join(name.split())}: from {line[0]:.1%} to {line[-1]:.1%}" for name, line in shares.items())
    figure.set_label(f"Busy share of the multiprocessors against the sequence length, from {lengths[0]} to "
                     f"{lengths[-1]}, at the same number of tokens in all. {said}.")
    return figure


def errors(found: Mapping[str, float]) -> Figure:
    """Root mean square error against float64, one mark a way to compute, on a logarithmic axis."""
    figure, axes = canvas(8.4, 0.46 * len(found) + 1.0)
    axes.set_xscale("log")
    for y, (name, error) in enumerate(found.items()):
        color = COLORS["tiled"] if "FP8" in name else GRAY
        axes.plot(error, y, "o", color=color, markersize=8)
        axes.annotate(f"{error:.1e}", (error, y), (9, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(found)), list(found))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="root mean square error of the output", ylim=(len(found) - 0.5, -0.5),
             xlim=(min(found.values()) / 4, max(found.values()) * 4))
    axes.set_axisbelow(True)
    said = "; ".join(f"{name} {error:.1e}" for name, error in found.items())
    figure.set_label(f"Root mean square errors on a logarithmic axis: {said}.")
    return figure


def references(tops: Sequence[float], lines: Mapping[str, Sequence[float]]) -> Figure:
    """The largest score of each tile of a row, and what the exponents refer to after each tile, one line a rule."""
    figure, axes = canvas(8.4, 3.4)
    tiles = range(1, len(tops) + 1)
    axes.plot(tiles, tops, "o", color=GRAY, markersize=4, label="largest score\nof the tile")
    styles = ((COLORS["naive"], "--"), (COLORS["tiled"], "-"))
    for (name, line), (color, dash) in zip(lines.items(), styles):
        axes.step(tiles, line, dash, where="post", color=color, label=name)
    axes.set(xlabel="tile of keys", ylabel="score, base two", xlim=(0, len(tops) + 1))
    axes.set_xticks(range(0, len(tops) + 1, 8))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    said = "; ".join(f"{name} moves {sum(a != b for a, b in pairwise(line))} times after the first tile"
                     for name, line in lines.items())
    figure.set_label(f"The largest score of each of {len(tops)} tiles of a row as dots, and stairs. {said}.")
    return figure
