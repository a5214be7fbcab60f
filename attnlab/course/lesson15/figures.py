"""The figures of lesson 15, sharing keys and splitting keys."""

from collections.abc import Mapping, Sequence

from attnlab.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import NullFormatter

GROUPS = (COLORS["tiled"], COLORS["online"], COLORS["chunked"], COLORS["safe"], COLORS["lazy"], COLORS["naive"])
"""One color a key head."""

POWERS = (1, 10, 100, 1000)

LINES = {"mean": ("o-", COLORS["tiled"]), "first": ("s--", COLORS["online"]), "random": ("^:", COLORS["safe"])}
"""How the beginnings of pooled heads are drawn."""


def sharing(heads: int, kv_heads: Mapping[str, int]) -> Figure:
    """Query heads above, key heads below, each query joined to the key head that it reads; one panel a model."""
    figure, grid = canvas(10.4, 2.7, ncols=len(kv_heads), squeeze=False)
    for axes, (name, many) in zip(grid[0], kv_heads.items()):
        axes.set(xlim=(-0.7, heads - 0.3), ylim=(-0.75, 1.75))
        axes.axis("off")
        axes.set_title(f"{name}\n{many} key head{'s' if many > 1 else ''}, G = {heads // many}", fontsize=10)
        group = heads // many
        for h in range(heads):
            g = h // group
            middle = g * group + (group - 1) / 2
            axes.plot([h, middle], [0.8, 0.2], color=GROUPS[g], linewidth=1.4)
            _box(axes, h, 1.05, f"$q_{h}$", "white", GROUPS[g])
            if h % group == 0:
                _box(axes, middle, -0.05, f"$k_{g}, v_{g}$", PALE, GROUPS[g], width=0.88)
    grid[0][0].text(-0.7, 1.55, "queries of the new token", fontsize=9, color=GRAY)
    grid[0][0].text(-0.7, -0.7, "cache: all keys and values", fontsize=9, color=GRAY)
    return figure


def _box(axes: Axes, x: float, y: float, text: str, fill: str, edge: str, width: float = 0.72) -> None:
    """A head."""
    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - 0.25), width, 0.5, boxstyle=style, facecolor=fill,
                                  edgecolor=edge, linewidth=1.6))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color=INK)


def batches(
    sizes: Sequence[int], seconds: Mapping[int, Sequence[float]], faster: Mapping[str, Sequence[float]], measured: float
) -> Figure:
    """Left: seconds a token against the batch, by number of key heads. Right: how much faster than many key heads.

    ``seconds``: by key heads, a token's share of a step; ``faster``: named lines; ``measured``: a published ratio.
    """
    figure, (left, right) = canvas(10.4, 3.9, ncols=2)
    colors = dict(zip(seconds, (COLORS["safe"], COLORS["online"], COLORS["tiled"])))
    for many, line in seconds.items():
        left.plot(sizes, [1e3 * x for x in line], color=colors[many])
        left.annotate(f"{many} key head{'s' if many > 1 else ''}", (sizes[-1], 1e3 * line[-1]), (6, 0), fontsize=9,
                      textcoords="offset points", va="center", color=darker(colors[many]))
    left.set(xscale="log", yscale="log", xlabel="sequences in the batch B", ylabel="ms for each token, by bytes",
             xlim=(1, 9 * sizes[-1]))
    left.set_title("weights are shared, caches are not", loc="left")
    styles = {"by bytes": (COLORS["tiled"], "-"), "and by arithmetic": (darker(COLORS["tiled"]), "--")}
    for name, line in faster.items():
        color, style = styles[name]
        right.plot(sizes, line, style, color=color)
        right.annotate(name, (sizes[-1], line[-1]), (6, 0), textcoords="offset points", va="center", fontsize=9,
                       color=color)
    right.axhline(measured, color=GRAY, linewidth=1, linestyle=":")
    right.annotate(f"{measured:.1f}, measured with\nanother model (GQA)", (1.1, measured), (0, 4), fontsize=9,
                   textcoords="offset points", color=GRAY)
    right.set(xscale="log", yscale="log", xlabel="sequences in the batch B", ylabel="times faster with 1 key head",
              xlim=(1, 14 * sizes[-1]))
    right.set_title("96 key heads against one", loc="left")
    for axis, ticks in ((left.xaxis, POWERS), (right.xaxis, POWERS), (left.yaxis, (0.1, *POWERS[:3])),
                        (right.yaxis, (1, 2, 5, 10, 20, 50))):
        axis.set_ticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_minor_formatter(NullFormatter())
    return figure


def pooled(base: float, cache: Mapping[int, int], before: Mapping[str, Mapping[int, float]],
           after: Mapping[str, Mapping[int, float]], control: float) -> Figure:
    """Bits per byte against the bytes of a token's cache, before and after tuning, by how the heads were begun.

    ``cache``: bytes by key heads, the unpooled model's last; ``base``, ``control``: it, as trained and tuned as long.
    """
    figure, panels = canvas(10.4, 3.9, ncols=2)
    titles = ("pooled, not tuned", "after tuning")
    for axes, title, found, whole in zip(panels, titles, (before, after), (base, control)):
        for how, bits in found.items():
            mark, color = LINES[how]
            at = [cache[many] for many in bits]
            axes.plot(at, list(bits.values()), mark, color=color, label=how, fillstyle="none")
        axes.plot([max(cache.values())], [whole], "D", color=INK)
        says = "as trained" if title == titles[0] else "not pooled,\ntuned as long"
        axes.annotate(says, (max(cache.values()), whole), (-8, 8), textcoords="offset points", ha="right", fontsize=9,
                      color=INK)
        axes.set_xscale("log", base=2)
        names = [f"{size // 1024} KiB\n{many}" if size >= 1024 else f"{size} B\n{many}" for many, size in cache.items()]
        axes.set_xticks(list(cache.values()), names)
        axes.set_title(title, loc="left")
        axes.set(xlabel="cache of a token; key heads", ylabel="bits per byte, held out")
    panels[0].legend(fontsize=9, frameon=False)
    return figure


def parts(splits: Sequence[int], busy: Sequence[float], time: Sequence[float], floor: float) -> Figure:
    """Left: busy share of the multiprocessors against the number of parts. Right: µs, and those of memory alone."""
    figure, (left, right) = canvas(10.4, 3.7, ncols=2)
    color = COLORS["chunked"]
    left.bar(splits, [100 * x for x in busy], color=color, width=0.7)
    left.set_axisbelow(True)
    left.set(xlabel="parts of the keys", ylabel="busy multiprocessors (%)", ylim=(0, 109))
    left.set_title("how full the waves are", loc="left")
    right.plot(splits, time, "o-", color=color, markersize=4)
    right.axhline(floor, color=INK, linewidth=1, linestyle="--")
    right.annotate("all bytes at HBM's full rate", (max(splits), floor), (0, -14), textcoords="offset points",
                   fontsize=9, ha="right", color=INK)
    right.set(xlabel="parts of the keys", ylabel="time (µs)", ylim=(0, 1.08 * max(time)))
    right.set_title("the time of a step's reading", loc="left")
    for axes in (left, right):
        axes.set_xticks([1, *range(4, max(splits) + 1, 4)])
    return figure
