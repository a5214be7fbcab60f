"""The figures of lesson 15, sharing keys and splitting keys."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import NullFormatter

GROUPS = (COLORS["tiled"], COLORS["online"], COLORS["chunked"], COLORS["safe"], COLORS["lazy"], COLORS["naive"])
"""One color a key head."""

POWERS = (1, 10, 100, 1000)

LINES = {"mean": COLORS["tiled"], "first": COLORS["online"], "random": COLORS["safe"]}
"""One color for each way to begin pooled heads."""


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
    said = "; ".join(f"{name}: {many} key head{'s' * (many > 1)}, each read by {heads // many}"
                     for name, many in kv_heads.items())  # fmt: skip
    figure.set_label(f"{heads} query heads above and key heads below. {said}, consecutive ones.")
    return figure


def _box(axes: Axes, x: float, y: float, text: str, fill: str, edge: str, width: float = 0.72) -> None:
    """A head."""
    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - 0.25), width, 0.5, boxstyle=style, facecolor=fill,
                                  edgecolor=edge, linewidth=1.6))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color=INK)


def batches(
    sizes: Sequence[int], relative: Mapping[int, Sequence[float]], faster: Mapping[str, Sequence[float]],
    measured: float,
) -> Figure:
    """Left: time of a token against the batch, by number of key heads. Right: how much faster than many key heads.

    ``relative``: by key heads, a token's share of a step, relative to one sequence with the most key heads; ``faster``:
    named lines; ``measured``: a published ratio.
    """
    figure, (left, right) = canvas(10.4, 3.9, ncols=2)
    colors = dict(zip(relative, (COLORS["safe"], COLORS["online"], COLORS["tiled"])))
    for many, line in relative.items():
        left.plot(sizes, line, color=colors[many])
        left.annotate(f"{many} key head{'s' if many > 1 else ''}", (sizes[-1], line[-1]), (6, 0), fontsize=9,
                      textcoords="offset points", va="center", color=darker(colors[many]))
    left.set(xscale="log", yscale="log", xlabel="sequences in the batch B", ylabel="time per token, relative",
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
              xlim=(1, 12 * sizes[-1]))
    right.set_title("96 key heads against one", loc="left")
    for axis, ticks in ((left.xaxis, POWERS), (right.xaxis, POWERS), (left.yaxis, (0.001, 0.01, 0.1, 1)),
                        (right.yaxis, (1, 2, 5, 10, 20, 50))):
        axis.set_ticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_minor_formatter(NullFormatter())
    ends = ", ".join(f"{line[-1]:.2g} with {many}" for many, line in relative.items())
    gains = "; ".join(f"{name} {line[0]:.2f} for one sequence, {max(line):.1f} at most, {line[-1]:.1f} for "
                      f"{sizes[-1]:,}" for name, line in faster.items())  # fmt: skip
    figure.set_label(
        f"Left: time per token against the batch, relative to one sequence with {max(relative)} key heads, both axes "
        f"logarithmic; for {sizes[-1]:,} sequences it is {ends} key heads. Right: how many times faster one key head "
        f"is: {gains}. A dotted line: {measured:.1f}, published.")
    return figure


def pooled(runs: Mapping[tuple[int, str], Mapping], whole: int) -> Figure:
    """Bits per byte of pooled models, before and after tuning, by key heads and by how the heads were begun.

    ``whole``: the key heads of the model that was pooled; its run is the control.
    """
    figure, axes = canvas(8.6, 3.9)
    said, ticks, x = [], {}, 0.0
    for (many, how), run in sorted(runs.items(), reverse=True, key=lambda item: item[0][0]):
        color = INK if many == whole else LINES[how]
        before, after = run["before"], run["after"]
        axes.annotate("", (x, after), (x, before), arrowprops={"arrowstyle": "->", "color": color, "linewidth": 1.6})
        axes.plot(x, before, "o", color=color, fillstyle="none", markersize=8)
        axes.plot(x, after, "o", color=color, markersize=8)
        ticks[x] = f"{how}\n{many} key heads" if many > 1 else f"{how}\n1 key head"
        if many == whole:
            ticks[x] = f"not pooled\n{many} key heads"
        named = "not pooled" if many == whole else f"{many} from {how}"
        said.append(f"{named} {before:.2f} to {after:.2f}")
        x += 1
    for run in (run for (many, _), run in runs.items() if many == whole):
        axes.axhline(run["before"], color=GRAY, linewidth=1, linestyle=":")
    axes.plot([], [], "o", color=GRAY, fillstyle="none", label="pooled, not tuned")
    axes.plot([], [], "o", color=GRAY, label="after tuning")
    axes.legend(fontsize=9, loc="upper left")
    axes.set_xticks(list(ticks), list(ticks.values()), fontsize=9)
    axes.set(ylabel="bits per byte, held out", ylim=(0, None))
    figure.set_label(f"Bits per byte of held-out text, from before tuning to after: {'; '.join(said)}.")
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
    shares = {n: f"{100 * x:.0f} percent at {n}" for n, x in zip(splits, busy)}
    micro = {n: f"{x:.1f} at {n}" for n, x in zip(splits, time)}
    shown = [n for n in (1, 7, 16, 17, 33) if n in shares]
    figure.set_label(
        f"Left: busy share of the multiprocessors against the number of parts, {', '.join(shares[n] for n in shown)}. "
        f"Right: the time in microseconds, {', '.join(micro[n] for n in shown)}; a dashed line at {floor:.1f}: all "
        "bytes at HBM's full rate.")
    return figure
