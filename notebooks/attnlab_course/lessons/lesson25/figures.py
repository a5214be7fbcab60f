"""The figures of lesson 25, gates and the delta rule."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

RULES = {"add": COLORS["naive"], "decay": "#E69F00", "delta": "#009E73", "gated delta": "#CC79A7"}
"""One color a rule."""


def overwritten(names: Sequence[str], lines: Sequence[str], states: Mapping[str, Sequence[np.ndarray]]) -> Figure:
    """What a state holds under each name after each line of a program, a row of tables for each rule."""
    figure, grid = canvas(9.6, 3.4, nrows=len(states), ncols=len(lines), squeeze=False)
    last = len(lines) - 1
    for row, (rule, held) in zip(grid, states.items()):
        for step, (axes, values) in enumerate(zip(row, held)):
            axes.axis("off")
            axes.set(xlim=(-1.6, 2.2), ylim=(len(names) - 0.4, -0.9))
            for i, (name, value) in enumerate(zip(names, values)):
                written = lines[step].startswith(name)
                color = RULES[rule] if written else "#F3F3F3"
                axes.add_patch(Rectangle((0, i - 0.42), 1, 0.84, facecolor=color, edgecolor=GRAY, linewidth=0.8))
                axes.text(-0.15, i, name, ha="right", va="center", fontsize=12, color=INK)
                axes.text(0.5, i, f"{value:g}", ha="center", va="center", fontsize=12,
                          color="white" if written else INK)  # fmt: skip
            if rule == next(iter(states)):
                axes.set_title(lines[step], fontsize=12, family="monospace")
        row[0].text(-1.5, 0.5, rule, ha="left", va="center", fontsize=12, color=darker(RULES[rule]), rotation=90)
    ends = "; ".join(f"{rule}: " + ", ".join(f"{n} = {v:g}" for n, v in zip(names, held[last]))
                     for rule, held in states.items())  # fmt: skip
    figure.set_label(f"The table that a state is, after each of the lines {', '.join(lines)}. At the end, {ends}.")
    return figure


def recalled(room: Mapping[str, Mapping[int, float]], rates: Mapping[str, Mapping[float, float]]) -> Figure:
    """Left: answers that are right on fresh keys against the features, by rule. Right: against b, by task."""
    figure, (left, right) = canvas(10.2, 3.9, ncols=2, sharey=True)
    said, colors = [], (RULES["add"], RULES["delta"], RULES["gated delta"])
    for (rule, found), color in zip(room.items(), colors):
        left.plot([*found], [100 * x for x in found.values()], "o-", color=color, markersize=5)
        left.annotate(rule, (8, 100 * found[8]), (-6, 0), textcoords="offset points", fontsize=10, ha="right",
                      va="center", color=darker(color))  # fmt: skip
        said.append(f"{rule} {', '.join(f'{100 * x:.0f} at {f}' for f, x in found.items())}")
    ticks = [*next(iter(room.values()))]
    left.set(xlabel="features, for 16 fresh keys", ylabel="right answers (%)", xscale="log", xlim=(3.8, 70))
    left.set_ylim(0, 103)
    left.set_xticks(ticks, [f"{tick}" for tick in ticks])
    left.set_xticks([], minor=True)
    left.set_title("room in the state")
    dials = []
    for (task, found), line in zip(rates.items(), ("-", "--")):
        right.plot([*found], [100 * x for x in found.values()], f"o{line}", color=RULES["delta"], markersize=5)
        most = max(found, key=found.get)
        dials.append(f"{task} {', '.join(f'{100 * x:.0f} at {b:g}' for b, x in found.items())}, most at {most:g}")
        right.annotate(task, (1.25, 100 * found[1.25]), (4, 6), textcoords="offset points", fontsize=10,
                       color=darker(RULES["delta"]))  # fmt: skip
    right.set(xlabel="b, how much of the error is written", xlim=(0, 2.05))
    right.set_xticks([0, 0.5, 1, 1.5, 2])
    right.set_title("a dial from adding to overwriting, 16 features")
    figure.set_label(
        f"Percent of right answers without training. Left, 16 fresh keys against the features: {'; '.join(said)}. "
        f"Right, 16 features, against b: {'; '.join(dials)}.")
    return figure


def trained(best: Mapping[tuple[str, str], Mapping], chance: float) -> Figure:
    """Right answers of trained models at their best rate: a bar for the mean, a dot for each seed."""
    tasks = {"rebind": "24 writes to 8 keys", "fresh": "16 keys, each written once"}
    widths = [sum(key[0] == task for key in best) for task in tasks]
    figure, grid = canvas(10.2, 3.6, ncols=2, sharey=True, gridspec_kw={"width_ratios": widths})
    said = []
    for axes, (task, title) in zip(grid, tasks.items()):
        shown = {rule: found for (other, rule), found in best.items() if other == task}
        for x, (rule, found) in enumerate(shown.items()):
            axes.bar(x, 100 * found["right"], 0.6, color=RULES[rule], alpha=0.55)
            seeds = [100 * value for value in found["seeds"]]
            axes.plot(np.linspace(x - 0.15, x + 0.15, len(seeds)), seeds, "o", color=darker(RULES[rule]), markersize=6)
            values = ", ".join(f"{value:.0f}" for value in seeds)
            said.append(f"{title}, {rule}: {100 * found['right']:.0f} (seeds {values})")
        axes.axhline(100 * chance, color=GRAY, linewidth=1, linestyle=":")
        axes.set_xticks(range(len(shown)), list(shown))
        axes.set(ylim=(0, 103))
        axes.set_title(title)
        axes.grid(False, axis="x")
        axes.set_axisbelow(True)
    grid[0].set_ylabel("right answers (%)")
    grid[0].annotate("guessing", (-0.45, 100 * chance), (0, 3), textcoords="offset points", fontsize=9, color=GRAY)
    figure.set_label(f"Percent of right answers of trained models, bars for means, dots for seeds. {'; '.join(said)}.")
    return figure
