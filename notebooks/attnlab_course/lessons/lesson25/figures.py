"""The figures of lesson 25, gates and the delta rule."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import name_line_ends
from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

import numpy as np
from matplotlib.axes import Axes
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


def recalled(writes: Mapping[str, Mapping[int, float]], rates: Mapping[str, Mapping[float, float]]) -> Figure:
    """Left: answers that are right against the writes to eight keys, by rule. Right: against b, by task."""
    figure, (left, right) = canvas(10.2, 3.9, ncols=2, sharey=True)
    said = []
    for rule, found in writes.items():
        left.plot([*found], [100 * x for x in found.values()], "o-", color=RULES[rule], markersize=5)
        said.append(f"{rule} {', '.join(f'{100 * x:.0f} at {n}' for n, x in found.items())}")
    last = max(next(iter(writes.values())))
    name_line_ends(left, last, [(100 * found[last], rule, RULES[rule]) for rule, found in writes.items()], 6)
    ticks = [*next(iter(writes.values()))]
    left.set(xlabel="writes to 8 keys", ylabel="right answers (%)", ylim=(0, 103), xscale="log", xlim=(7.5, last * 2))
    left.set_xticks(ticks, [f"{tick}" for tick in ticks])
    left.set_xticks([], minor=True)
    left.set_title("keys that are bound again")
    dials = []
    for (task, found), line in zip(rates.items(), ("-", "--")):
        right.plot([*found], [100 * x for x in found.values()], f"o{line}", color=RULES["delta"], markersize=5)
        most = max(found, key=found.get)
        dials.append(f"{task} {', '.join(f'{100 * x:.0f} at {b:g}' for b, x in found.items())}, most at {most:g}")
        right.annotate(task, (1.25, 100 * found[1.25]), (4, 6), textcoords="offset points", fontsize=10,
                       color=darker(RULES["delta"]))  # fmt: skip
    right.set(xlabel="b, how much of the error is written", xlim=(0, 2.05))
    right.set_xticks([0, 0.5, 1, 1.5, 2])
    right.set_title("a dial from adding to overwriting")
    figure.set_label(
        f"Percent of right answers without training, 16 features. Left, against the writes to 8 keys: "
        f"{'; '.join(said)}. Right, against b: {'; '.join(dials)}.")
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


def systems(shown: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """A and the inverse of I + A for several kinds of keys, as squares."""
    figure, grid = canvas(9.6, 5.6, nrows=2, ncols=len(shown))
    said = []
    for column, (name, pair) in enumerate(shown.items()):
        for axes, matrix, what in zip(grid[:, column], pair, ("A", "(I + A)⁻¹")):
            largest = abs(matrix).max()
            image = axes.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            figure.colorbar(image, ax=axes, shrink=0.75)
            axes.set_title(f"{what}, {name}" if what == "A" else what)
        said.append(f"{name}: A up to {abs(pair[0]).max():.3g}, the inverse up to {abs(pair[1]).max():.3g}")
    figure.set_label(f"A and the inverse of I + A as squares, for three kinds of keys. Largest: {'; '.join(said)}.")
    return figure


def regions(decays: Sequence[float], sizes: Sequence[int], errors: Mapping[str, np.ndarray]) -> Figure:
    """The error of each way to compute G, (decays, sizes), as a map; where it isn't a number, a cross."""
    figure, grid = canvas(10.2, 3.9, ncols=len(errors), sharey=True)
    said = []
    for axes, (name, found) in zip(grid, errors.items()):
        image = axes.imshow(np.log10(np.maximum(found, 1e-8)).T, origin="lower", cmap="YlOrRd", vmin=-8, vmax=0,
                            aspect="auto", interpolation="nearest")  # fmt: skip
        for i, j in np.argwhere(~np.isfinite(found)):
            axes.text(i, j, "×", ha="center", va="center", fontsize=9, color=INK)
        _ticks(axes, decays, sizes)
        axes.set_title(name)
        broken = (~np.isfinite(found)).sum()
        said.append(f"{name}: {broken} of {found.size} not a number, else at most {np.nanmax(found):.0e}")
    grid[0].set_ylabel("tokens in a chunk")
    bar = figure.colorbar(image, ax=grid, shrink=0.9)
    bar.set_label("largest error of a weight")
    bar.set_ticks([-8, -6, -4, -2, 0], labels=["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1"])
    figure.set_label(
        "Largest error of a weight in float32 against the mean log decay of a token and the size of the chunk. "
        f"{'; '.join(said)}.")
    return figure


def _ticks(axes: Axes, decays: Sequence[float], sizes: Sequence[int]) -> None:
    axes.grid(False)
    axes.set_xticks(range(len(decays)), [f"{x:g}" for x in decays])
    axes.set_yticks(range(len(sizes)), [str(n) for n in sizes])
    axes.set_xlabel("mean of log a")
