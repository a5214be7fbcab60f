"""The figures of lesson 17, linear attention.

The forms have the colors of their likes among the algorithms of softmax attention: all weights as naive, token by token
as online, chunks as chunked; softmax itself is tiled.
"""

from collections.abc import Mapping, Sequence

from attnlab.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

FORMS = {
    "quadratic": COLORS["naive"], "all states": COLORS["safe"], "chunked": COLORS["chunked"],
    "recurrent": COLORS["online"], "softmax": COLORS["tiled"],
}  # fmt: skip


def box(axes: Axes, x: float, y: float, width: float, height: float, color: str, text: str = "") -> None:
    """A rectangle with its upper left corner at (x, y), y downward, and a text in it."""
    axes.add_patch(Rectangle((x, y), width, height, facecolor=color, edgecolor=GRAY, linewidth=0.8))
    shade = "white" if color in FORMS.values() else INK
    size = 8 if 4 * width < height else 10
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, color=shade)


def brackets(n: int, f: int, dv: int) -> Figure:
    """The two ways to bracket φ(Q) φ(K)ᵀ V: every matrix with its true sides, what lies between in color."""
    figure, axes = canvas(10.2, 5.4)
    q, k, v = ("φ(Q)", f, n, PALE), ("φ(K)ᵀ", n, f, PALE), ("V", dv, n, PALE)
    rows = [["(", q, k, ")", v, "→", (f"{n} × {n}\nweights", n, n, FORMS["quadratic"]), "→  times V"],
            [q, "(", k, v, ")", "→", ("U", dv, f, FORMS["chunked"]), "→  φ(Q) times U"]]  # fmt: skip
    for y, row in zip((0, 1.14 * n), rows):
        x = 0.0
        for part in row:
            if isinstance(part, str):
                wide, side = (0.1 * n, "center") if part in "()" else (0.2 * n, "left")
                size = 30 if part in "()" else 12
                at = x + wide / 2 if side == "center" else x + 0.05 * n
                axes.text(at, y + n / 2, part, ha=side, va="center", fontsize=size, color=INK)
                x += wide
            else:
                text, width, height, color = part
                box(axes, x, y + (n - height) / 2, width, height, color, text)
                x += width + 0.03 * n
    axes.set(xlim=(-0.03 * n, 3.3 * n), ylim=(2.17 * n, -0.03 * n), aspect="equal")
    axes.axis("off")
    return figure


def moment(chunks: int, now: int, size: int) -> Figure:
    """What the chunked form holds in chunk ``now`` of so many: the weights of the chunk, and one state for the rest."""
    figure, axes = canvas(8.8, 4.2)
    n = chunks * size
    for i in range(chunks):
        line = "-" if i <= now else ":"
        held = Rectangle((0, i * size), i * size, size, facecolor=FORMS["recurrent"] if i == now else "white",
                         edgecolor=GRAY, linewidth=0.7, linestyle=line)  # fmt: skip
        axes.add_patch(held)
        for row in range(size):  # the chunk's own keys, j ≤ i
            color = FORMS["chunked"] if i == now else PALE if i < now else "white"
            axes.add_patch(Rectangle((i * size, i * size + row), row + 1, 1, facecolor=color, edgecolor=GRAY,
                                     linewidth=0.5, linestyle=line))  # fmt: skip
    axes.text(now * size / 2, (now + 0.5) * size, "one state (U, Z):\nthese weights are\nnever computed", ha="center",
              va="center", fontsize=10, color="white")
    for row, text, color in ((now / 2, "outputs written, weights forgotten", GRAY),
                             (now + 0.5, "the queries of this chunk: held are\na state and C × C weights", INK),
                             ((chunks + now + 1) / 2, "to come", GRAY)):  # fmt: skip
        axes.text(n + 0.6, row * size, text, va="center", fontsize=10, color=color)
    axes.text(-0.5, n / 2, "queries", rotation=90, ha="right", va="center", fontsize=10, color=GRAY)
    axes.text(n / 2, -0.4, "keys", ha="center", va="bottom", fontsize=10, color=GRAY)
    axes.set(xlim=(-1.6, n + 11), ylim=(n + 0.3, -1.6), aspect="equal")
    axes.axis("off")
    return figure


def memory(lengths: Sequence[int], forms: Mapping[str, Sequence[int]], measured: Mapping[str, Mapping[int, int]],
           cross: tuple[int, int]) -> Figure:
    """Extra bytes of the forms against the length: lines are the closed forms, dots were measured.

    ``cross``: the length from which on all states are smaller than all weights, and the bytes there.
    """
    figure, axes = canvas(8.8, 4.3)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for name, values in forms.items():
        axes.plot(lengths, values, color=FORMS[name])
        axes.plot([*measured[name]], [*measured[name].values()], "o", color=FORMS[name], markersize=6)
        axes.annotate(name, (lengths[-1], values[-1]), (8, 0), textcoords="offset points", va="center",
                      color=darker(FORMS[name]))
    axes.plot(*cross, "o", markersize=12, markerfacecolor="none", markeredgecolor=INK)
    axes.annotate(f"{cross[0]:,} tokens", cross, (12, -14), textcoords="offset points", fontsize=9.5, color=INK)
    axes.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
    axes.set_xlim(right=3.4 * lengths[-1])
    axes.set_yticks([2.0**e for e in (14, 17, 20, 23, 26)], ["16 KiB", "128 KiB", "1 MiB", "8 MiB", "64 MiB"])
    axes.set(xlabel="length of the text (tokens)", ylabel="extra memory of a head")
    return figure


def sizes(lengths: Sequence[int], cache: Sequence[int], states: Mapping[str, tuple[int, float]]) -> Figure:
    """Numbers in a cache against the length, and the states of some maps: (numbers, length at which both are equal)."""
    figure, axes = canvas(8.8, 3.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.plot(lengths, cache, color=FORMS["softmax"])
    axes.annotate("keys and values", (lengths[-1], cache[-1]), (-8, 4), textcoords="offset points", ha="right",
                  color=darker(FORMS["softmax"]))
    for name, (numbers, length) in states.items():
        axes.plot([lengths[0], lengths[-1]], [numbers] * 2, color=FORMS["recurrent"])
        axes.annotate(name, (lengths[-1], numbers), (8, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(FORMS["recurrent"]))
        axes.plot(length, numbers, "o", color=INK, markersize=7, zorder=5)
        axes.annotate(f"{length:,.0f} tokens", (length, numbers), (8, -15), textcoords="offset points", fontsize=9.5)
    axes.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
    axes.set_xlim(right=8 * lengths[-1])
    axes.set_yticks([2.0**e for e in (10, 13, 16, 19)], ["1 Ki", "8 Ki", "64 Ki", "512 Ki"])
    axes.set(xlabel="tokens so far", ylabel="numbers held, a head")
    return figure


def times(steps: Mapping[str, Mapping[int, float]], passes: Mapping[str, Mapping[int, float]]) -> Figure:
    """Seconds against the length: left a token of text, right a whole sequence; a ring where chunks overtake."""
    figure, panels = canvas(10.6, 4.2, ncols=2)
    for axes, curves in zip(panels, (steps, passes)):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        longest = max(max(found) for found in curves.values())
        for name, found in curves.items():
            lengths, values = [*found], [1e3 * x for x in found.values()]
            axes.plot(lengths, values, "o-", color=FORMS[name], markersize=5)
            side, shift = ("left", (7, 0)) if lengths[-1] == longest else ("right", (-7, 3))
            axes.annotate(name, (lengths[-1], values[-1]), shift, textcoords="offset points", va="center", ha=side,
                          fontsize=10, color=darker(FORMS[name]))
        ticks = sorted({n for found in curves.values() for n in found})[::2]
        axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axes.set_xlim(right=5.5 * longest)
        axes.set_yticks([], minor=True)
        values = [1e3 * x for found in curves.values() for x in found.values()]
        marks = [x for x in 10.0 ** np.arange(-3, 6) if min(values) / 3 < x < 3 * max(values)]
        axes.set_yticks(marks, [f"{x:g}" for x in marks])
    panels[0].set(xlabel="tokens so far", ylabel="milliseconds for a token")
    panels[1].set(xlabel="length of the text (tokens)", ylabel="milliseconds for all of it")
    panels[0].set_title("one token more")
    panels[1].set_title("a whole text at once")
    for axes, slow, fast in ((panels[0], steps["softmax"], steps["recurrent"]),
                             (panels[1], passes["softmax"], passes["chunked"])):  # fmt: skip
        overtaken = [n for n in slow if n in fast and slow[n] > fast[n]]
        if overtaken and overtaken[0] != min(slow):
            at = overtaken[0]
            axes.plot(at, 1e3 * fast[at], "o", markersize=13, markerfacecolor="none", markeredgecolor=INK)
            axes.annotate("first below", (at, 1e3 * fast[at]), (8, -20), textcoords="offset points", fontsize=9.5,
                          color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    return figure
