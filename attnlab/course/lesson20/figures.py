"""The figures of lesson 20, serving."""

from collections.abc import Mapping, Sequence

from attnlab.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

SHADES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
POLICIES = (COLORS["naive"], GRAY, COLORS["online"], COLORS["tiled"])

Bar = tuple[int, int, int, int]  # slot, first step, steps, number of the request


def timeline(plans: Mapping[str, Sequence[Bar]], slots: int) -> Figure:
    """Who has which slot at which step, a panel for each way of batching; what is empty is a slot that waits."""
    last = max(first + steps for bars in plans.values() for _, first, steps, _ in bars)
    figure, grid = canvas(9.6, 1.9 * len(plans) + 0.4, nrows=len(plans), sharex=True, squeeze=False)
    for axes, (name, bars) in zip(grid.flat, plans.items()):
        end = max(first + steps for _, first, steps, _ in bars)
        axes.barh(range(slots), [end] * slots, height=0.8, color=PALE, edgecolor="#DDDDDD", hatch="////")
        for slot, first, steps, number in bars:
            axes.barh(slot, steps, left=first, height=0.8, color=SHADES[number % len(SHADES)], edgecolor="white")
            axes.text(first + steps / 2, slot, str(number), ha="center", va="center", fontsize=9, color=INK,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8})
        axes.set(ylim=(slots - 0.45, -0.55), xlim=(0, last), yticks=range(slots), ylabel="slot")
        axes.set_title(f"{name}: {end} steps")
        axes.grid(False)
    grid.flat[-1].set_xlabel("step")
    return figure


def steps(policies: Mapping[str, Sequence[tuple[int, bool]]]) -> Figure:
    """Tokens of each step, a panel for each policy; a dot where the reader's own token is among them."""
    figure, grid = canvas(9.6, 3.1, ncols=len(policies), sharey=True, squeeze=False)
    for axes, (name, rows) in zip(grid.flat, policies.items()):
        axes.bar(range(len(rows)), [fed for fed, _ in rows], width=0.9, color=COLORS["online"])
        own = [step for step, (_, his) in enumerate(rows) if his]
        axes.plot(own, [0.7] * len(own), "o", markersize=4, color=COLORS["tiled"], clip_on=False)
        axes.set(xlabel="step", xlim=(-0.6, len(rows) - 0.4), yscale="log", ylim=(0.5, 4000))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.set_title(name)
    grid.flat[0].set_ylabel("tokens fed")
    grid.flat[0].annotate("dots: the reader's token", (0.97, 0.9), xycoords="axes fraction", ha="right", fontsize=9,
                          color=darker(COLORS["tiled"]))
    return figure


def pool(held: Mapping[str, Sequence[int]], blocks: int) -> Figure:
    """Blocks in use, and what is waiting, step by step; a line for each size of the pool."""
    figure, axes = canvas(9.6, 3.2)
    for (name, values), color in zip(held.items(), (COLORS["tiled"], COLORS["naive"])):
        axes.step(range(len(values)), values, color=color, where="mid")
        axes.annotate(name, (len(values) - 1, values[-1]), (6, 0), textcoords="offset points", va="center",
                      color=darker(color), fontsize=10)
    axes.axhline(blocks, color=GRAY, linestyle="--", linewidth=1)
    axes.annotate(f"the small pool: {blocks}", (0, blocks), (2, 3), textcoords="offset points", color=GRAY, fontsize=9)
    axes.set(xlabel="step", ylabel="blocks in use", ylim=(0, None))
    axes.margins(x=0.12)
    return figure


def load(
    rates: Sequence[float], latency: Mapping[str, Sequence[float]], pause: Mapping[str, Sequence[float]]
) -> Figure:
    """Milliseconds a token, and the longest pause within a text, against requests a second, a line for each policy."""
    figure, (left, right) = canvas(9.6, 3.8, ncols=2)
    for axes, curves in ((left, latency), (right, pause)):
        ends = sorted((values[-1], name, color) for (name, values), color in zip(curves.items(), POLICIES))
        free = 0.0
        for (_, values), color in zip(curves.items(), POLICIES):
            axes.plot(rates, values, "o-", color=color)
        for height, name, color in ends:
            free = max(height, free * 1.22)
            axes.annotate(name, (rates[-1], free), (8, 0), textcoords="offset points", va="center", fontsize=9,
                          color=darker(color))
        axes.set(yscale="log", xlabel="requests a second", xlim=(0, rates[-1] * 1.55), ylim=(10, 300))
        axes.set_yticks([10, 20, 50, 100, 200])
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
    left.set(ylabel="ms a token")
    left.set_title("from arrival to the last token, a token")
    right.set(ylabel="ms")
    right.set_title("longest pause between two tokens")
    return figure
