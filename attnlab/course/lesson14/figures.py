"""The figures of lesson 14, decoding with a cache."""

from collections.abc import Mapping, Sequence

from attnlab.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

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


def chunks(length: int, sizes: Sequence[int]) -> Figure:
    """The scores of a prompt of ``length`` tokens in chunks of each size: a block a chunk, hidden ones dotted."""
    figure, panels = canvas(9.6, 3.5, ncols=len(sizes))
    for axes, size in zip(panels, sizes):
        axes.set(xlim=(-0.6, length - 0.3), ylim=(length - 0.3, -0.6))
        axes.set_aspect("equal")
        axes.axis("off")
        total = 0
        for start in range(0, length, size):
            stop = min(start + size, length)
            total += (stop - start) * stop
            for i in range(start, stop):
                for j in range(stop):
                    axes.add_patch(_cell(j, i, "white" if j > i else (NOW, WITH)[start // size % 2], j > i))
            outline = Rectangle((-0.5, start - 0.5), stop, stop - start, fill=False, edgecolor=INK, linewidth=1.6)
            axes.add_patch(outline)
        calls = -(-length // size)
        axes.set_title(f"C = {size}: {calls} call{'s' * (calls > 1)}, {total} scores", loc="left", fontsize=10.5)
    return figure


def step_bytes(
    lengths: Sequence[int], weights: float, caches: Mapping[int, Sequence[float]], meets: Mapping[int, float],
    bandwidth: float,
) -> Figure:
    """Bytes that a step of decoding reads against the length; for each batch its caches, and where they are as large as
    the weights. The axis at the right has the time at ``bandwidth``."""
    figure, axes = canvas(8.4, 4.3)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.axhline(weights, color=WITHOUT)
    axes.annotate("weights", (lengths[0], weights), (4, 5), textcoords="offset points", color=darker(WITHOUT))
    for (batch, sizes), style in zip(caches.items(), ("-", "--", ":")):
        axes.plot(lengths, sizes, color=KEPT, linestyle=style)
        axes.annotate(f"{batch} cache{'s' * (batch > 1)}", (lengths[-1], sizes[-1]), (6, 0), color=darker(KEPT),
                      textcoords="offset points", va="center")
        axes.plot(meets[batch], weights, "o", color=INK, markersize=7, zorder=5)
        axes.annotate(f"{meets[batch]:,.0f} tokens", (meets[batch], weights), (8, -16), textcoords="offset points",
                      fontsize=9.5, color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.set_xticks(lengths[::2], [f"{n // 1024}K" if n >= 1024 else str(n) for n in lengths[::2]])
    axes.set_xlim(lengths[0], 3.2 * lengths[-1])
    axes.set(xlabel="tokens in each sequence", ylabel="bytes read in a step")
    axes.set_yticks([1e8, 1e9, 1e10, 1e11, 1e12], ["100 MB", "1 GB", "10 GB", "100 GB", "1 TB"])
    right = axes.secondary_yaxis("right", functions=(lambda x: 1e3 * x / bandwidth, lambda x: x * bandwidth / 1e3))
    right.set_ylabel("milliseconds at the bandwidth")
    right.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    return figure


def times(lengths: Sequence[int], without: Sequence[float], cached: Sequence[float], context: int) -> Figure:
    """Seconds a byte of text against the length so far, without a cache and with one."""
    figure, axes = canvas(8.0, 4.0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.axvline(context, color=GRAY, linestyle=":", linewidth=1.2)
    axes.annotate("trained up to here", (context, 1), (-5, -4), xycoords=("data", "axes fraction"), ha="right",
                  va="top", textcoords="offset points", fontsize=9, color=GRAY)
    for name, seconds, color in (("all anew", without, WITHOUT), ("with a cache", cached, WITH)):
        axes.plot(lengths, [1e3 * x for x in seconds], "o-", color=color)
        axes.annotate(name, (lengths[-1], 1e3 * seconds[-1]), (9, 0), textcoords="offset points", va="center",
                      color=darker(color))
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.set_xlim(right=2.6 * lengths[-1])
    low, high = 1e3 * min(cached), 1e3 * max(without)
    ticks = [x for x in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low / 2 <= x <= 2 * high]
    axes.set_yticks(ticks, [f"{x:g}" for x in ticks])
    axes.set_yticks([], minor=True)
    axes.set(xlabel="tokens so far", ylabel="milliseconds for one byte")
    return figure
