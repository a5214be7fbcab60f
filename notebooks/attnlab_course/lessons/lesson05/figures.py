"""The figures of lesson 05, chunked attention."""

from collections.abc import Mapping, Sequence

from attnlab_course.instruments.clock import Clock
from attnlab_course.plots.style import COLORS, GRAY, INK, band, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

MIB = 2**20


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


def reads(chunks: Mapping[str, Sequence[Sequence[int]]], keys: int) -> Figure:
    """Which keys each chunk reads, one panel for each way to cut: cells of the chunk's number, repeats marked."""
    figure, panels = canvas(8.8, 2.5, ncols=len(chunks), squeeze=False)
    for axes, (title, rows) in zip(panels[0], chunks.items()):
        axes.set(xlim=(-0.5, keys - 0.5), ylim=(len(rows) - 0.5, -0.5), xticks=range(keys), yticks=range(len(rows)))
        axes.set(title=title, xlabel="key", ylabel="chunk")
        axes.grid(False)
        axes.tick_params(length=0)
        seen: set[int] = set()
        for c, row in enumerate(rows):
            for j in row:
                again = j in seen
                color = COLORS["naive"] if again else COLORS["chunked"]
                axes.add_patch(Rectangle((j - 0.44, c - 0.4), 0.88, 0.8, color=color, alpha=0.85))
                axes.text(j, c, "2nd" if again else str(j), ha="center", va="center", fontsize=9, color="white",
                          weight="bold")
            seen |= set(row)
    said = [f"{title}: {'; '.join(', '.join(map(str, row)) for row in rows)}" for title, rows in chunks.items()]
    figure.set_label(f"Grids of chunks by keys, with the keys that each chunk reads. {'. '.join(said)}. "
                     "A key that is read again is marked.")
    return figure


def evaluations(chunks: int = 8) -> Figure:
    """Three orders of combining the same summaries: a fold, all at once, a tree; a line joins what is combined."""
    figure, panels = canvas(9.6, 3.1, ncols=3)
    for axes in panels:
        axes.set(xlim=(-0.7, chunks - 0.3), ylim=(-0.6, chunks * 0.62 + 0.4))
        axes.axis("off")
        axes.plot(range(chunks), [0] * chunks, "s", color=COLORS["chunked"], markersize=9)
    fold, once, tree = panels
    fold.set_title(f"fold: 2 alive, {chunks - 1} steps in a row", fontsize=10)
    joint = (0.0, 0.0)  # the first summary as it is
    for c in range(1, chunks):
        top = (float(c), 0.62 * c)
        join(fold, [(c, 0.0), joint], top, COLORS["online"])
        joint = top
    once.set_title(f"all at once: {chunks} alive, 1 step", fontsize=10)
    join(once, [(c, 0.0) for c in range(chunks)], (chunks / 2 - 0.5, 2.6), COLORS["chunked"])
    deep = (chunks - 1).bit_length()
    tree.set_title(f"tree: at most {deep + 1} alive, {deep} steps in a row", fontsize=10)
    level = [(float(c), 0.0) for c in range(chunks)]
    while len(level) > 1:
        above = [((a[0] + b[0]) / 2, a[1] + 1.3) for a, b in zip(level[::2], level[1::2])]
        for a, b, top in zip(level[::2], level[1::2], above):
            join(tree, [a, b], top, INK)
        level = above
    for axes in panels:
        axes.text(chunks / 2 - 0.5, -0.5, f"summaries of {chunks} chunks", ha="center", va="top", fontsize=9,
                  color=GRAY)
    figure.set_label(f"Three ways to combine the summaries of {chunks} chunks, a line for what is combined. "
                     + "; ".join(axes.get_title() or axes.get_title(loc="left") for axes in panels))
    return figure


def join(axes: Axes, ends: Sequence[tuple[float, float]], top: tuple[float, float], color: str) -> None:
    """Lines from ``ends`` up to a dot at ``top``."""
    for x, y in ends:
        axes.plot([x, top[0]], [y, top[1]], color=color, linewidth=1.2, zorder=0)
    axes.plot(*top, "o", color=color, markersize=7)


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


def live(counts: Mapping[str, Sequence[int]]) -> Figure:
    """Summaries alive while chunk after chunk arrives; ``counts``: name → number after 1, 2, 3 … chunks."""
    figure, axes = canvas(7.6, 3.4)
    colors = {"all at once": COLORS["chunked"], "tree": INK, "fold": COLORS["online"]}
    for name, values in counts.items():
        x = np.arange(1, len(values) + 1)
        axes.step(x, values, where="mid", color=colors[name])
        axes.annotate(name, (x[-1], values[-1]), (6, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(colors[name]))
    n = np.arange(1, max(map(len, counts.values())) + 1)
    axes.plot(n, np.floor(np.log2(n)) + 1, ":", color=GRAY)
    axes.annotate("⌊log₂ n⌋ + 1", (n[-1] * 0.62, 6), (0, 5), textcoords="offset points", fontsize=9, color=GRAY)
    axes.set_yscale("log", base=2)
    ticks = [2**e for e in range(int(np.log2(n[-1])) + 1)]
    axes.set_yticks(ticks, [str(t) for t in ticks])
    axes.set(xlabel="chunks summarized so far, n", ylabel="summaries alive")
    axes.margins(x=0.1)
    said = [f"{name}: {values[-1]} after the last, at most {max(values)}" for name, values in counts.items()]
    figure.set_label(f"Summaries alive against chunks summarized so far, up to {n[-1]}, on a logarithmic axis. "
                     f"{'; '.join(said)}.")
    return figure


def table2(
    at: Sequence[int], published: Mapping[str, Sequence[float]], formula: Mapping[int, float],
    run: Mapping[int, float],
) -> Figure:
    """Extra memory against n: published values, the closed form, and what was run.

    ``published``: row → bytes at each of ``at``; ``formula`` and ``run``: n → bytes.
    """
    figure, axes = canvas(8.4, 4.8)
    colors = {"standard": COLORS["naive"], "chunked": COLORS["chunked"]}
    n = np.array(list(formula))
    axes.plot(n, np.array(list(formula.values())) / MIB, color=COLORS["chunked"], zorder=1)
    short = n[n <= 2**17]
    axes.plot(short, 4 * short.astype(float) ** 2 / MIB, color=COLORS["naive"], zorder=1)
    for name, values in published.items():
        axes.plot(at, np.array(values) / MIB, "D", color=colors[name], markersize=8, markeredgecolor="white", zorder=3)
    axes.plot(list(run), [size / MIB for size in run.values()], "o", color=INK, fillstyle="none", markersize=13,
              zorder=4, label="run, NumPy")
    axes.plot([], [], "D", color=GRAY, label="published, Table 2")
    axes.plot([], [], "-", color=GRAY, label="closed form")
    for name, place, text in (
        ("standard", (2**15, 4 * 2**30 / MIB), "standard, 4n² bytes"),
        ("chunked", (2**13, formula[2**13] / MIB), "chunked, Ck = 4096"),
    ):
        offset = (10, 0) if name == "standard" else (0, -16)
        axes.annotate(text, place, offset, textcoords="offset points", fontsize=10, va="center",
                      color=darker(colors[name]))
    guide = np.array([2.0**20, 2.0**24])
    axes.plot(guide, 20 * guide / guide[0], ":", color=GRAY)
    axes.annotate("slope 1", (2**22, 20 * 4), (4, -12), textcoords="offset points", fontsize=9, color=GRAY)
    axes.plot(guide, 9 * (guide / guide[0]) ** 0.5, ":", color=GRAY)
    axes.annotate("slope ½", (2**22, 18), (4, -12), textcoords="offset points", fontsize=9, color=GRAY)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="sequence length n (tokens)", ylabel="extra memory (MiB)", ylim=(0.15, 2**14))
    ticks = [0.25, 1, 4, 16, 64, 256, 1024, 4096, 16384]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.legend(loc="upper left", fontsize=9, frameon=False)
    both = [f"{n:,} tokens: {formula[n] / MIB:.1f} and {size / MIB:.1f}" for n, size in zip(at, published["chunked"])]
    ours = [f"{n:,} tokens: {size / MIB:.0f}" for n, size in run.items()]
    figure.set_label("Extra memory in MiB against sequence length, both axes logarithmic. Standard attention has slope "
                     f"2. Chunked attention by the closed form, and as published: {'; '.join(both)}. Run in "
                     f"NumPy: {'; '.join(ours)}.")
    return figure
