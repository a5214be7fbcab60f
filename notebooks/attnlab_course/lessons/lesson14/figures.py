"""The figures of lesson 14, decoding with a cache."""

from collections.abc import Mapping, Sequence

from attnlab_course.instruments.clock import Clock
from attnlab_course.instruments.hardware import Accelerator
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, band, canvas, darker

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


def chunks(length: int, sizes: Sequence[int]) -> Figure:
    """The scores of a prompt of ``length`` tokens in chunks of each size: a block a chunk, hidden ones dotted."""
    figure, panels = canvas(9.6, 3.5, ncols=len(sizes))
    said = [f"The causal matrix of {length} tokens, in chunks."]
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
        title = f"C = {size}: {calls} call{'s' * (calls > 1)}, {total} scores"
        axes.set_title(title, loc="left", fontsize=10.5)
        said.append(f"{title}, of which {total - length * (length + 1) // 2} are hidden.")
    figure.set_label(" ".join(said))
    return figure


def step_bytes(
    lengths: Sequence[int], weights: float, caches: Mapping[int, Sequence[float]], meets: Mapping[int, float],
    chip: Accelerator,
) -> Figure:
    """Bytes that a step of decoding reads against the length, for each batch: weights and caches together, its caches
    alone dotted, and where they are as large as the weights. The axis at the right has the time on ``chip``."""
    figure, axes = canvas(8.6, 4.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.axhline(weights, color=WITHOUT, linewidth=1.2, linestyle="--")
    axes.annotate("weights", (lengths[0], weights), (4, -13), textcoords="offset points", color=darker(WITHOUT))
    for batch, sizes in caches.items():
        axes.plot(lengths, sizes, color=KEPT, linestyle=":", linewidth=1.2)
        axes.plot(lengths, [weights + size for size in sizes], color=KEPT)
        axes.annotate(f"{batch} sequence{'s' * (batch > 1)}", (lengths[-1], weights + sizes[-1]), (6, 0),
                      color=darker(KEPT), textcoords="offset points", va="center")
        axes.plot(meets[batch], 2 * weights, "o", color=INK, markersize=6, zorder=5)
        axes.annotate(f"{meets[batch]:,.0f} tokens", (meets[batch], 2 * weights), (-6, 5), textcoords="offset points",
                      fontsize=9, color=INK, ha="right", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.plot([lengths[0], lengths[-1]], [chip.memory] * 2, color=GRAY, linewidth=1.2)
    axes.annotate(f"memory of one {chip.name}", (lengths[0], chip.memory), (4, 4), textcoords="offset points",
                  fontsize=9, color=GRAY)
    axes.set_xticks(lengths[::2], [f"{n // 1024}K" if n >= 1024 else str(n) for n in lengths[::2]])
    axes.set_xlim(lengths[0], 3.6 * lengths[-1])
    axes.set_ylim(bottom=weights / 20)
    axes.set(xlabel="tokens in each sequence", ylabel="bytes read in a step")
    axes.set_yticks([1e9, 1e10, 1e11, 1e12], ["1 GB", "10 GB", "100 GB", "1 TB"])
    right = axes.secondary_yaxis(
        "right", functions=(lambda x: 1e3 * x / chip.bandwidth, lambda x: x * chip.bandwidth / 1e3))
    right.set_ylabel(f"milliseconds, {chip.name}")
    right.set_yticks([1, 10, 100], ["1", "10", "100"])
    met = ", ".join(f"{meets[batch]:,.0f} for {batch}" for batch in caches)
    figure.set_label(
        f"Bytes read in a step against the tokens in each sequence, both axes logarithmic. The weights, "
        f"{weights / 1e9:g} GB, are a horizontal line. Caches are lines of slope 1; with them the sum begins to rise "
        f"where both weigh the same: at {met} sequences. A second horizontal line is the memory of one {chip.name}, "
        f"{chip.memory / 1e9:.0f} GB.")
    return figure


def times(clock: Clock, context: int) -> Figure:
    """Milliseconds per byte of text against the length so far, from scratch and with a cache; bands: middle halves."""
    figure, axes = canvas(8.0, 4.0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.axvline(context, color=GRAY, linestyle=":", linewidth=1.2)
    axes.annotate("trained up to here", (context, 1), (-5, -4), xycoords=("data", "axes fraction"), ha="right",
                  va="top", textcoords="offset points", fontsize=9, color=GRAY)
    said = []
    for (name, rows), color in zip(clock.seconds.items(), (WITHOUT, WITH)):
        band(axes, clock, name, color)
        (first, low), (last, high) = ((n, 1e3 * middle) for n, (_, middle, _) in (list(rows.items())[0::len(rows) - 1]))
        axes.annotate(name, (last, high), (9, 0), textcoords="offset points", va="center", color=darker(color))
        said.append(f"{name} {low:.2g} at {first} and {high:.2g} at {last}")
    lengths = list(rows)
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.set_xlim(right=2.8 * lengths[-1])
    low, high = (1e3 * end(row[1] for rows in clock.seconds.values() for row in rows.values()) for end in (min, max))
    ticks = [x for x in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low / 2 <= x <= 2 * high]
    axes.set_yticks(ticks, [f"{x:g}" for x in ticks])
    axes.set_yticks([], minor=True)
    axes.set(xlabel="tokens so far", ylabel="milliseconds for one byte")
    figure.set_label(
        "Milliseconds for one byte against the tokens so far, both axes logarithmic, on the computer that built this "
        f"page: {'; '.join(said)}.")
    return figure
