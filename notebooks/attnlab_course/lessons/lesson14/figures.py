"""The figures of lesson 14, decoding with a cache."""

from attnlab_course.instruments.hardware import Accelerator
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

NOW, KEPT = COLORS["online"], COLORS["safe"]
WITH, WITHOUT = COLORS["tiled"], COLORS["naive"]


def cells(prompt: int, t: int) -> Figure:
    """The scores of a causal attention when token t is computed, after a prompt: without a cache, and with one."""
    figure, (left, right) = canvas(9.6, 4.1, ncols=2)
    _triangle(left, t, first=0)
    _triangle(right, t, first=t)
    count = (t + 1) * (t + 2) // 2
    left.set_title(f"without a cache: {t + 1} keys, {count} scores", loc="left")
    right.set_title(f"with a cache: 1 key, {t + 1} scores", loc="left")
    right.text(t + 1.35, prompt / 2 - 0.5, "prompt,\none call", va="center", fontsize=9, color=GRAY)
    right.text(t + 1.35, (prompt + t) / 2 - 0.5, "one call\neach", va="center", fontsize=9, color=GRAY)
    right.text(t + 1.35, t, "this call", va="center", fontsize=9, color=INK)
    right.plot([-1.0, t + 1.2], [prompt - 0.5] * 2, color=INK, linewidth=1)
    figure.set_label(
        f"Two causal matrices of {t + 1} queries by {t + 1} keys. Without a cache all {t + 1} keys, all "
        f"{t + 1} queries and {count} scores are computed for the last token. With a cache only the last row is: "
        f"one query, one new key, and {t + 1} scores; the {t} older keys come from the cache.")
    return figure


def _triangle(axes: Axes, t: int, first: int) -> None:
    """One panel: queries from ``first`` on are computed now, with their keys; the others were, in earlier calls."""
    axes.set(xlim=(-2.0, t + 3.6), ylim=(t + 0.7, -3.0))
    axes.set_aspect("equal")
    axes.axis("off")
    for i in range(t + 1):
        axes.add_patch(_cell(-1.55, i, NOW if i >= first else "white", i < first))  # the queries
        axes.add_patch(_cell(i, -1.55, NOW if i >= first else KEPT))  # the keys
        for j in range(t + 1):
            shade = "white" if j > i else NOW if i >= first else PALE
            axes.add_patch(_cell(j, i, shade, j > i))
    axes.text(t / 2, -2.15, "keys and values", ha="center", va="bottom", fontsize=9, color=GRAY)
    axes.text(-2.15, t / 2, "queries", ha="right", va="center", fontsize=9, color=GRAY, rotation=90)


def _cell(j: float, i: float, color: str, dotted: bool = False) -> Rectangle:
    """A cell in row i and column j."""
    return Rectangle((j - 0.44, i - 0.44), 0.88, 0.88, facecolor=color, edgecolor=GRAY, linewidth=0.7,
                     linestyle=":" if dotted else "-")


def critical(chip: Accelerator, weights: float, token: float, group: int, length: int) -> Figure:
    """Left: milliseconds of the parts of a step against the batch, at ``length`` tokens. Right: from which batch on a
    step is compute-bound, against the tokens in each sequence, and the largest batch that fits into the memory."""
    figure, (left, right) = canvas(9.8, 4.0, ncols=2)
    batches, cache = np.geomspace(1, 4096, 49), length * token
    for name, color, read, computed in (("weights", WITHOUT, weights + 0 * batches, weights * batches),
                                        ("caches", KEPT, cache * batches, group * cache * batches)):
        left.plot(batches, 1e3 * read / chip.bandwidth, color=color, label=f"reading {name}")
        left.plot(batches, 1e3 * computed / chip.flops, "--", color=color, label=f"computing with {name}")
    left.set(xscale="log", yscale="log", xlabel="sequences in the batch", ylabel="milliseconds", ylim=(1e-3, 1e3),
             title=f"{length:,} tokens in each sequence")
    left.legend(fontsize=8.5)
    most = weights / token / (chip.balance - group)
    lengths = np.linspace(1, 1.6 * most, 161)
    below = lengths[lengths < 0.97 * most]
    right.plot(below, chip.balance / (1 - below / most), color=WITH)
    right.plot(lengths, (chip.memory - weights) / (lengths * token), color=GRAY)
    right.axvline(most, color=WITH, linestyle=":", linewidth=1.2)
    right.text(most + 8, 250, f"beyond {most:.0f} tokens\nnever", color=darker(WITH), fontsize=9.5, va="top")
    right.text(15, 900, "compute-bound above", color=darker(WITH), fontsize=9.5)
    right.text(30, 2600, "fits below", color=GRAY, fontsize=9.5)
    right.set(yscale="log", ylim=(100, 3e4), xlabel="tokens in each sequence", ylabel="sequences in the batch")
    figure.set_label(
        f"Left, at {length:,} tokens: reading the weights takes {1e3 * weights / chip.bandwidth:.1f} milliseconds, and "
        f"computing with them as long at {chip.balance:.0f} sequences; reading caches takes {chip.balance / group:.0f} "
        f"times as long as computing with them. Right: the batch from which a step is compute-bound begins at "
        f"{chip.balance:.0f} and grows without bound toward {most:.0f} tokens.")
    return figure
