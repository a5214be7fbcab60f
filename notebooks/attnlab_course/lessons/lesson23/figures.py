"""The figures of lesson 23, the capstone."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

LAYERS = {
    "softmax": (COLORS["naive"], "-"), "window": (GRAY, "-"), "elu": (COLORS["chunked"], "-"),
    "taylor": (COLORS["lazy"], "-"), "window + softmax": (COLORS["naive"], "--"), "window + elu":
    (COLORS["chunked"], "--"), "window + window": (GRAY, "--"),
}  # fmt: skip
"""Color and line of each model of recall: dashed where a windowed layer lies below."""


def pipeline(stages: Sequence[tuple[str, str, str, str]]) -> Figure:
    """The steps from nothing to a served model: (name, what is chosen, what is held, what must stay the same)."""
    figure, axes = canvas(10.4, 3.5)
    axes.set(xlim=(-0.75, len(stages)), ylim=(0.0, 3.55))
    axes.axis("off")
    for y, label in ((2.45, "you choose"), (1.45, "held"), (0.45, "must stay\nthe same")):
        axes.text(-0.08, y, label, ha="right", va="center", fontsize=10, color=GRAY)
    for x, (name, *cells) in enumerate(stages):
        axes.text(x + 0.46, 3.2, name, ha="center", va="center", fontsize=12, weight="bold",
                  color=darker(COLORS["tiled"]))
        for y, text in zip((2.45, 1.45, 0.45), cells):
            last = y == 0.45
            axes.add_patch(FancyBboxPatch((x + 0.04, y - 0.38), 0.84, 0.76, boxstyle="round,pad=0,rounding_size=0.04",
                                          facecolor="white" if last else PALE,
                                          edgecolor=COLORS["tiled"] if last else GRAY, linewidth=1.8 if last else 0.8))
            axes.text(x + 0.46, y, text, ha="center", va="center", fontsize=9, color=INK)
        if x:
            axes.add_patch(FancyArrowPatch((x - 0.14, 3.2), (x + 0.1, 3.2), arrowstyle="-|>", mutation_scale=14,
                                           color=GRAY))
    return figure


def curves(short: Mapping[str, Sequence[float]], whole: Sequence[float]) -> Figure:
    """Bits per byte against the step: left, the first steps by every method; right, the whole run, every 20 steps."""
    figure, (left, right) = canvas(9.6, 3.4, ncols=2)
    for (name, curve), width in zip(short.items(), (9, 7, 5, 3, 1.2)):
        color = COLORS.get(name, INK)
        left.plot(range(1, len(curve) + 1), curve, color=color, linewidth=width, label=name)
    left.legend(fontsize=9)
    left.set_xticks(range(1, 1 + len(next(iter(short.values())))))
    left.set(xlabel="step", ylabel="bits per byte of the batch", title="five programs, one curve")
    right.plot(range(10, 20 * len(whole), 20), whole, color=COLORS["tiled"], linewidth=1.2)
    right.set(xlabel="step", title="the whole run", ylim=(0, None))
    ends = {f"{curve[-1]:.1f}" for curve in short.values()}
    first = len(next(iter(short.values())))
    figure.set_label(f"Left: bits per byte of {len(short)} programs in the first {first} steps; "
                     f"the lines are on top of each other and end at {' or '.join(sorted(ends))}. Right: a run of "
                     f"{20 * len(whole):,} steps, which falls from {whole[0]:.1f} to {whole[-1]:.1f}.")
    return figure


def shrunk(plans: Mapping[str, tuple[float, float, str]], whole: float) -> Figure:
    """Bits per byte against the cache in KiB: name -> (KiB, bits, kind); ``whole``: bits of the whole model."""
    kinds = {"whole": COLORS["naive"], "window": GRAY, "one global layer": COLORS["tiled"], "key heads": COLORS["lazy"],
             "state": COLORS["chunked"]}  # fmt: skip
    figure, axes = canvas(9.6, 4.2)
    axes.axhline(whole, color=GRAY, linewidth=1, linestyle=":")
    for name, (size, bits, kind) in plans.items():
        axes.plot(size, bits, "o", color=kinds[kind], markeredgecolor=INK, markeredgewidth=0.5, markersize=8)
        above = kind in ("key heads", "state")
        axes.annotate(name, (size, bits), (0, 9 if above or kind == "window" else -15), textcoords="offset points",
                      ha="right" if kind == "window" else "center",
                      fontsize=9, color=darker(kinds[kind]))
    axes.set_xscale("log", base=2)
    sizes = [2**n for n in range(7, 15)]
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.set(xlabel="cache of a text of 4,096 tokens, in KiB", ylabel="bits per byte", xlim=(90, 34_000),
             ylim=(1.05, 2.75))
    said = "; ".join(f"{name} {size:,.0f} KiB and {bits:.1f} bits" for name, (size, bits, _) in plans.items())
    figure.set_label(f"Bits per byte against the cache of 4,096 tokens in KiB. {said}.")
    return figure


def lengths(
    tests: Mapping[str, Mapping[int, Mapping[str, float]]], laws: Mapping[str, Sequence[float]], share: Sequence[float]
) -> Figure:
    """Against the length of a row: percent of right answers; and the weight on the pair, with what a law predicts.

    ``laws``: by model the weight that the law gives at each length. ``share``: what a window must give, in percent.
    """
    figure, (left, right) = canvas(10.4, 4.4, ncols=2, width_ratios=[1.35, 1])
    for name, (color, line) in LAYERS.items():
        if name not in tests:
            continue
        x = list(tests[name])
        left.plot(x, [100 * tests[name][n]["right"] for n in x], color=color, linestyle=line, marker="o")
        if name in laws:
            right.plot(x, [tests[name][n]["weight"] for n in x], color=color, marker="o", linewidth=0)
            right.plot(x, laws[name], color=color, linewidth=1.4)
            right.annotate(name, (x[-1], tests[name][x[-1]]["weight"]), (8, 0), textcoords="offset points",
                           va="center", fontsize=9, color=darker(color))
    left.plot(x, share, "x", color=INK, markersize=9, label="window, counted")
    left.axhline(100 / 64, color=GRAY, linewidth=1, linestyle=":")
    _name(left, x[-1], {name: 100 * each[x[-1]]["right"] for name, each in tests.items()})
    left.legend(fontsize=9, loc="upper right", bbox_to_anchor=(0.82, 0.75))
    left.set(xlabel="tokens in the row", ylabel="percent right", ylim=(0, 105))
    right.set(xlabel="tokens in the row", ylabel="mean weight on the pair", yscale="log")
    for axes in (left, right):
        _ticks(axes, x)
        axes.set_xlim(80, 20_000)
    ends = ", ".join(f"{name} {100 * each[x[-1]]['right']:.0f}" for name, each in tests.items())
    weights = ", ".join(f"{name} {tests[name][x[-1]]['weight']:.3f} (law {law[-1]:.3f})" for name, law in laws.items())
    figure.set_label(f"Left: percent of right answers against the length of the row, {x[0]} to {x[-1]:,}, where they "
                     f"are {ends}. Right: the mean weight on the right pair, which falls with the length, beside the "
                     f"curves of a law; at {x[-1]:,} tokens {weights}.")
    return figure


def _name(axes: Axes, x: float, ends: Mapping[str, float], apart: float = 6.0) -> None:
    """Name lines beside their last points, at least ``apart`` from each other."""
    free = -np.inf
    for name, height in sorted(ends.items(), key=lambda end: end[1]):
        free = max(height, free + apart)
        axes.annotate(name, (x, free), (8, 0), textcoords="offset points", va="center", fontsize=9,
                      color=darker(LAYERS[name][0]))


def _ticks(axes: Axes, lengths: Sequence[int]) -> None:
    """A logarithmic axis of lengths."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.minorticks_off()
    axes.axvline(np.min(lengths), color=GRAY, linewidth=1, linestyle="--")
