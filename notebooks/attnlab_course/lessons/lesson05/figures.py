"""The figures of lesson 05, chunked attention."""

from collections.abc import Mapping

from attnlab_course.instruments.clock import Clock
from attnlab_course.plots.style import COLORS, GRAY, INK, band, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def moment(row: int = 1, chunk: int = 3) -> Figure:
    """Chunked attention at work: the tile in hand, the summaries that are kept, the rows of the output so far."""
    widths, heights = [5, 5, 5, 5, 5, 3], [3, 3, 3, 3]
    lefts, tops = np.cumsum([0, *widths]), np.cumsum([0, *heights])
    full, done = COLORS["chunked"], "#CFEBE2"
    figure, axes = canvas(9.0, 4.6)
    axes.set(xlim=(-6.5, 40.5), ylim=(19.6, -3.6), aspect="equal")
    axes.axis("off")

    def box(x: float, y: float, width: float, height: float, face: str, hatch: str = "") -> None:
        axes.add_patch(Rectangle((x, y), width, height, facecolor=face, edgecolor=GRAY, linewidth=0.9, hatch=hatch))

    def note(x: float, y: float, text: str, **how: str) -> None:
        axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": 9.5, "color": INK, **how})

    for c, (x, width) in enumerate(zip(lefts, widths)):
        box(x, -1.5, width, 0.9, full if c == chunk else "white")
        for r, (y, height) in enumerate(zip(tops, heights)):
            box(x, y, width, height, full if (r, c) == (row, chunk) else done if (r, c) < (row, chunk) else "white")
        box(x + width / 2 - 0.9, 13.8, 1.8, 3, full if c < chunk else "white", "////" if c == chunk else "")
    for r, (y, height) in enumerate(zip(tops, heights)):
        box(-1.5, y, 0.9, height, full if r == row else "white")
        box(31, y, 2.4, height, full if r < row else "white")
    note(14, -2.6, "keys and values, a chunk of $C_k$ at a time")
    note(-2.2, 6, "queries,\n$C_q$ at\na time", ha="right")
    note(lefts[chunk] + 2.5, tops[row] + 1.5, "scores\n$C_q × C_k$", color="white", weight="bold")
    note(14, 18.3, "summaries: $C_q (D_v + 2)$ numbers for each chunk read")
    note(34, tops[row] / 2, "output:\nwritten", ha="left")
    note(34, 7.5, "not yet", ha="left", color=GRAY)
    axes.annotate("", (32.2, 12.4), (28.6, 15.3), arrowprops={"arrowstyle": "->", "color": GRAY})
    note(31.4, 15.6, "after the last chunk:\ncombine, divide", ha="left", color=GRAY)
    return figure


def valley(measured: Mapping[str, Mapping[int, float]], dv: int, m: int, marks: Mapping[str, int]) -> Figure:
    """Numbers held per query against Ck for ``m`` keys: the closed form, its two terms, measured points, marked sizes.

    ``measured``: label → {Ck: numbers per query}; ``marks``: name → Ck.
    """
    figure, axes = canvas(7.6, 4.2)
    ck = np.unique(np.geomspace(64, m, 200).astype(int))
    axes.plot(ck, ck + m / ck * (dv + 2), color=COLORS["chunked"], zorder=1)
    axes.plot(ck, ck, ":", color=GRAY, linewidth=1.2, zorder=0)
    axes.plot(ck, m / ck * (dv + 2), "--", color=GRAY, linewidth=1.2, zorder=0)
    for marker, (name, held) in zip("os^", measured.items()):
        axes.plot(list(held), list(held.values()), marker, color=INK, fillstyle="none", label=name, zorder=5)
    for name, size in marks.items():
        held = size + m / size * (dv + 2)
        axes.plot(size, held, "D", color=COLORS["chunked"], markeredgecolor="white", markersize=9, zorder=3)
        axes.annotate(name, (size, held), (0, -16), textcoords="offset points", fontsize=10, ha="center", va="top",
                      color=darker(COLORS["chunked"]), arrowprops={"arrowstyle": "-", "color": COLORS["chunked"]})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="keys in a chunk, Ck", ylabel="numbers held per query", ylim=(2**7, 2**20))
    label = {"fontsize": 9, "color": GRAY, "textcoords": "offset points"}
    axes.annotate("one chunk of scores", (2**8, 2**8), (6, -10), va="top", **label)
    axes.annotate("summaries", (2**13, m / 2**13 * (dv + 2)), (6, 4), **label)
    axes.legend(title="measured", loc="upper center", fontsize=9, title_fontsize=9, frameon=False)
    figure.set_label(" ".join([
        f"Numbers held per query against the chunk size for {m:,} keys, both axes logarithmic: a valley between the "
        "falling line of the summaries and the rising line of the scores.",
        *(f"At {name}, {size:,} keys, it is {size + m / size * (dv + 2):,.0f}." for name, size in marks.items()),
        *(over_the_curve(name, held, dv, m) for name, held in measured.items()),
    ]))
    return figure


def over_the_curve(name: str, held: Mapping[int, float], dv: int, m: int) -> str:
    """By how much measured points are above (5.7), in words."""
    ratios = [numbers / (ck + -(-m // ck) * (dv + 2)) for ck, numbers in held.items()]
    return f"{name}: {min(ratios):.1f} to {max(ratios):.1f} times the curve."


def widths(clock: Clock, pairs: int) -> Figure:
    """Time per query and key against the number of keys taken at once, a line for each name of the clock."""
    figure, axes = canvas(7.6, 3.9)
    colors = {"summaries, combined at the end": COLORS["chunked"], "fold of chunks": COLORS["tiled"],
              "fold of single keys": COLORS["online"], "all keys at once (naive)": COLORS["naive"]}
    said = []
    for name, color in colors.items():
        band(axes, clock, name, color, 1e9 / pairs, markersize=9 if len(clock.seconds[name]) == 1 else 5, label=name)
        times = {size: f"{1e9 * seconds / pairs:.2g}" for size, seconds in clock.median(name).items()}
        said.append(f"{name}: " + ", ".join(f"{time} ns at {size:,}" for size, time in times.items()))
    axes.legend(loc="upper right", fontsize=10, frameon=False)
    axes.set_xscale("log", base=2)
    plain(axes)
    axes.set(xlabel="keys taken at once, Ck", ylabel="time per query and key (ns)")
    figure.set_label(f"Time per query and key against the number of keys taken at once. {'; '.join(said)}.")
    return figure


def plain(axes: Axes) -> None:
    """A vertical axis with logarithmic scale and plain numbers."""
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    step = 1 if high / low > 6 else 0.5
    ticks = [2.0**e for e in np.arange(-8, 24, step) if low <= 2.0**e <= high]
    axes.set_yticks(ticks, [f"{tick:g}" if tick in (2.0 ** np.arange(-8, 24)) else f"{tick:.3g}" for tick in ticks])
