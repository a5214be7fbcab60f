"""The figures of lesson 03, online softmax."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnlab.arguments import LIBRARIES
from attnlab.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ONLINE = COLORS["online"]


def running(x: Sequence[float], m: Sequence[float], l: Sequence[float]) -> Figure:
    """Maximum m and sum l after each element of x; where the maximum moves, l is rescaled by the factor written."""
    figure, (top, bottom) = canvas(9.4, 5.0, nrows=2, sharex=True)
    k = np.arange(1, len(x) + 1)
    moved = [i for i in range(1, len(m)) if m[i] > m[i - 1]]
    for axes in (top, bottom):
        for i in moved:
            axes.axvline(k[i], color=GRAY, linewidth=1, linestyle=":")
    top.plot(k, x, "o", color=GRAY, markersize=4)
    top.step(k, m, where="post", color=ONLINE)
    top.annotate("running\nmaximum m", (k[-1], m[-1]), (8, 0), textcoords="offset points", va="center", fontsize=10,
                 color=darker(ONLINE))
    top.annotate("elements x", (k[-1], min(x[-9:])), (8, 0), textcoords="offset points", va="center", fontsize=10,
                 color=GRAY)
    top.set(ylabel="score", xlim=(0, 1.16 * len(x)), ylim=(min(x) - 0.5, max(x) + 1))
    bottom.plot(k, l, "o-", color=ONLINE, markersize=4)
    bottom.annotate("running\nsum l", (k[-1], l[-1]), (8, 0), textcoords="offset points", va="center", fontsize=10,
                    color=darker(ONLINE))
    bottom.set(xlabel="elements read, k", ylabel="l", ylim=(0, 1.35 * max(l)))
    for place, i in enumerate(moved):  # at two heights, as neighbors may be close
        bottom.annotate(f"× {np.exp(m[i - 1] - m[i]):.2f}", (k[i], 1.35 * max(l)), (2, -11 - 12 * (place % 2)),
                        textcoords="offset points", fontsize=9, color=INK)
    return figure


def steps(x: Sequence[float], ks: Sequence[int]) -> Figure:
    """The terms of l after k elements, one panel for each k: every term is shifted by the maximum so far."""
    figure, grid = canvas(max(2.5 * len(ks), 4.6), 2.9, ncols=len(ks), sharey=True, squeeze=False)
    x = np.asarray(x, float)
    for axes, k in zip(grid[0], ks):
        m, before = x[:k].max(), x[: k - 1].max(initial=-np.inf)
        terms, factor = np.exp(x[:k] - m), np.exp(before - m)
        places = np.arange(1, k + 1)
        if factor < 1 and k > 1:
            axes.bar(places[:-1], np.minimum(terms[:-1] / factor, 1), width=0.7, facecolor="none", edgecolor=GRAY,
                     linestyle=":", linewidth=1.2)
        axes.bar(places[:-1], terms[:-1], width=0.7, color=ONLINE)
        axes.bar(places[-1:], terms[-1:], width=0.7, color=GRAY)
        axes.set_axisbelow(True)
        axes.grid(False, axis="x")
        axes.set_xticks(range(1, len(x) + 1), [f"{value:g}" for value in x], fontsize=9)
        axes.set(xlim=(0.4, len(x) + 0.6), ylim=(0, 1.28), yticks=[0, 0.5, 1], xlabel="element x")
        change = "first element" if k == 1 else f"old terms × {factor:.2f}"
        axes.set_title(f"k = {k}:  m = {m:g},  l = {terms.sum():.2f}\n{change}", fontsize=10, loc="left")
    grid[0, 0].set_ylabel("term of l")
    return figure


@dataclass(frozen=True)
class Node:
    """A pair (m, l) as a drawing has it: which elements it summarizes, how many ⊕ deep it is, and what it joins."""

    first: int
    last: int
    depth: int = 0
    of: tuple["Node", ...] = ()


def join(a: Node, b: Node) -> Node:
    """Stands for a ⊕ b and records it."""
    return Node(a.first, b.last, 1 + max(a.depth, b.depth), (a, b))


def ancestry(roots: Sequence[Node]) -> list[Node]:
    """Every node that the results were made of, each once."""
    found: dict[int, Node] = {}
    todo = list(roots)
    while todo:
        node = todo.pop()
        if id(node) not in found:
            found[id(node)] = node
            todo += node.of
    return list(found.values())


def network(named: Mapping[str, Sequence[Node]]) -> Figure:
    """The ⊕ of each recorded evaluation: elements at the top, one row for each level of depth, results outlined."""
    figure, grid = canvas(4.9 * len(named) + (0 if len(named) > 1 else 1.2), 3.9, ncols=len(named), sharey=True,
                          squeeze=False)
    for axes, (name, results) in zip(grid[0], named.items()):
        nodes = ancestry(results)
        depth = max(node.depth for node in nodes)
        operations = sum(node.depth > 0 for node in nodes)
        for node in nodes:
            for part in node.of:
                axes.plot([part.last, node.last], [part.depth, node.depth], color="#B8B8B8", linewidth=1.3, zorder=1)
        done = {id(node) for node in results}
        for node in nodes:
            text = f"{node.first}" if node.first == node.last else f"{node.first}–{node.last}"
            box = {"boxstyle": "round,pad=0.25", "facecolor": PALE if not node.depth else "white",
                   "edgecolor": ONLINE if id(node) in done else GRAY, "linewidth": 2.2 if id(node) in done else 1}
            axes.text(node.last, node.depth, text, ha="center", va="center", fontsize=9, color=INK, bbox=box, zorder=2)
        axes.set_title(f"{name}: {operations} ⊕, depth {depth}", loc="left")
        axes.set(xticks=[], xlim=(0.4, max(n.last for n in nodes) + 0.6))
        axes.grid(False)
        for side in ("bottom", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0)
    grid[0, 0].set_ylabel("depth (⊕ one after another)")
    deepest = max(n.depth for results in named.values() for n in results)
    grid[0, 0].set(ylim=(deepest + 0.5, -0.5), yticks=range(deepest + 1))
    return figure


def times(seconds: Mapping[str, Mapping[str, Mapping[int, float]]], caches: Mapping[str, int]) -> Figure:
    """Time per element against length: one panel a library, ``seconds[library][way][n]``; ``caches``: elements each."""
    figure, panels = canvas(10.4, 3.9, ncols=len(seconds), sharey=True)
    for axes, (library, ways) in zip(panels, seconds.items()):
        for way, measured in ways.items():
            lengths = np.array(list(measured))
            axes.loglog(lengths, np.array(list(measured.values())) / lengths * 1e9, "o" + dash(way),
                        color=COLORS[way.split(",")[0]], markersize=4, label=way)
        for name, size in caches.items():
            axes.axvline(size, color=GRAY, linewidth=1, linestyle=":")
            axes.annotate(name, (size, 0.01), (-3, 3), xycoords=("data", "axes fraction"), textcoords="offset points",
                          fontsize=8, color=GRAY, rotation=90, ha="right")
        axes.set_title(LIBRARIES[library], loc="left")
        axes.set_xlabel("elements n")
    panels[0].set_ylabel("time per element (ns)")
    legend(panels[-1], seconds)
    return figure


def dash(way: str) -> str:
    """The line of a variant: the plain way is solid, one with a comment after a comma is dashed."""
    return "--" if "," in way else "-"


def legend(axes: Axes, seconds: Mapping[str, Mapping[str, Mapping[int, float]]]) -> None:
    """One legend for all panels, of every way that some library has."""
    handles = {}
    for panel in axes.figure.axes:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels())))
    axes.figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=10,
                       frameon=False)


def relative(groups: Mapping[str, Mapping[str, float]]) -> Figure:
    """Times divided by the naive one's, grouped bars: ``groups[machine][way]`` in seconds."""
    figure, axes = canvas(8.8, 3.2)
    width = 0.26
    for place, ways in enumerate(groups.values()):
        for i, (way, seconds) in enumerate(ways.items()):
            ratio = seconds / ways["naive"]
            axes.bar(place + (i - 1) * width, ratio, width=0.9 * width, color=COLORS[way])
            axes.annotate(f"{way}\n{ratio:.2f}", (place + (i - 1) * width, ratio), (0, 2), ha="center",
                          textcoords="offset points", fontsize=8.5, color=darker(COLORS[way]))
    axes.axhline(1, color=GRAY, linewidth=1, linestyle=":")
    axes.set_axisbelow(True)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0, colors=INK)
    axes.grid(False, axis="x")
    axes.margins(y=0.22)
    axes.set_ylabel("time ÷ naive")
    return figure
