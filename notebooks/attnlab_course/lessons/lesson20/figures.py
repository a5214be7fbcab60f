"""The figures of lesson 20, serving."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, SHADES, canvas, darker

from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

POLICIES = (GRAY, COLORS["online"], COLORS["tiled"], COLORS["chunked"], COLORS["naive"])

Bar = tuple[int, int, int, int]  # slot, first step, steps, number of the request


def answers(ways: Mapping[str, Sequence[Sequence[int]]]) -> Figure:
    """When each user's tokens come, in steps of the model; a panel for each way of serving."""
    last = max(step for rows in ways.values() for row in rows for step in row)
    figure, grid = canvas(9.6, 1.7 * len(ways) + 0.4, nrows=len(ways), sharex=True, squeeze=False)
    for axes, (name, rows) in zip(grid.flat, ways.items()):
        for user, row in enumerate(rows):
            axes.plot(row, [user] * len(row), "|", markersize=8, color=SHADES[user % len(SHADES)])
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, last + 1), yticks=range(len(rows)), ylabel="user")
        axes.set_title(f"{name}: {max(map(max, rows))} steps")
        axes.grid(False)
    grid.flat[-1].set_xlabel("step of the model")
    said = "; ".join(f"{name}: all have their texts after {max(map(max, rows))} steps" for name, rows in ways.items())
    figure.set_label(f"A mark for each token of each user, at the step that brought it. {said}.")
    return figure


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
    ends = {name: max(first + steps for _, first, steps, _ in bars) for name, bars in plans.items()}
    work = sum(steps for _, _, steps, _ in next(iter(plans.values())))
    said = (f"{name}: {end} steps, of {slots * end} places {slots * end - work} empty" for name, end in ends.items())
    figure.set_label(f"A timeline of {slots} slots for each way of batching. {'; '.join(said)}.")
    return figure


def steps(policies: Mapping[str, Sequence[tuple[int, bool]]]) -> Figure:
    """Tokens of each step, a panel for each policy; a filled dot where the user's own token is among them."""
    figure, grid = canvas(9.6, 3.1, ncols=len(policies), sharey=True, squeeze=False)
    said = []
    for axes, (name, rows) in zip(grid.flat, policies.items()):
        for own, face in ((True, COLORS["tiled"]), (False, "white")):
            found = [(step, fed) for step, (fed, theirs) in enumerate(rows) if theirs == own]
            axes.plot(*zip(*found or [((), ())]), "o", markersize=5, color=COLORS["tiled"], markerfacecolor=face)
        axes.set(xlabel="step", xlim=(-0.6, len(rows) - 0.4), yscale="log", ylim=(0.6, 40_000))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.set_title(name)
        without = sum(not theirs for _, theirs in rows)
        said.append(f"{name}: the largest step has {max(fed for fed, _ in rows)} tokens, and {without} steps leave "
                    f"the user out")
    grid.flat[0].set_ylabel("tokens fed")
    grid.flat[0].annotate("filled: with the user's token", (0.97, 0.9), xycoords="axes fraction", ha="right",
                          fontsize=9, color=darker(COLORS["tiled"]))
    figure.set_label(f"Tokens fed in each step, logarithmic. {'; '.join(said)}.")
    return figure


def load(rates: Sequence[float], waits: Mapping[str, Mapping[str, Sequence[float]]],
         steady: Mapping[str, Sequence[bool]]) -> Figure:
    """Waits in seconds against requests per second, a line for each policy; hollow where the queue keeps growing.

    ``waits``: a title for each panel → policy → seconds at each rate. ``steady``: whether the queue is stable there.
    """
    figure, grid = canvas(10.4, 3.9, ncols=len(waits), sharey=True)
    for axes, (title, curves) in zip(grid, waits.items()):
        for (name, values), color in zip(curves.items(), POLICIES):
            axes.plot(rates, values, "-", color=color)
            for rate, value, stable in zip(rates, values, steady[name]):
                axes.plot(rate, value, "o", color=color, markerfacecolor=color if stable else "white")
        axes.set(yscale="log", xlabel="requests per second", xlim=(0, rates[-1] * 1.06), ylim=(0.003, 30))
        axes.set_title(title, fontsize=10)
    free = 0.0
    for height, name, color in sorted((values[-1], name, c) for (name, values), c in zip(curves.items(), POLICIES)):
        free = max(height, free * 1.8)
        grid[-1].annotate(name, (rates[-1], free), (10, 0), textcoords="offset points", va="center", fontsize=9,
                          color=darker(color), annotation_clip=False)
    grid[0].set_yticks([0.01, 0.1, 1, 10], ["10 ms", "100 ms", "1 s", "10 s"])
    last = {name: max((rate for rate, stable in zip(rates, steady[name]) if stable), default=0) for name in steady}
    limits = ", ".join(f"{name} up to {rate:g} per second" for name, rate in last.items())
    ends = "; ".join(
        f"{title}, at {rates[-1]:g} per second: " + ", ".join(f"{name} {v[-1]:.2g} s" for name, v in curves.items())
        for title, curves in waits.items()
    )
    figure.set_label(f"Waits against requests per second, logarithmic. The queue is stable for {limits}. {ends}.")
    return figure
