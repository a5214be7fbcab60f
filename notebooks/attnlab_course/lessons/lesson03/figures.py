"""The figures of lesson 03, online softmax."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnlab_course.instruments.clock import Clock
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, band, canvas, darker

import numpy as np
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
    factors = [np.exp(m[i - 1] - m[i]) for i in moved]
    figure.set_label(
        f"Above, {len(x)} elements and their running maximum, a staircase of {len(moved)} steps. Below, the running "
        "sum: it grows a little with each element, and where the maximum moves, it shrinks by a factor between "
        f"{min(factors):.2f} and {max(factors):.2f}.")
    return figure


def steps(x: Sequence[float], ks: Sequence[int]) -> Figure:
    """The terms of l after k elements, one panel for each k: every term is shifted by the maximum so far."""
    figure, grid = canvas(max(2.5 * len(ks), 4.6), 2.9, ncols=len(ks), sharey=True, squeeze=False)
    x, told = np.asarray(x, float), []
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
        told.append(f"k = {k}, m = {m:g}, l = {terms.sum():.2f}, {change}")
        axes.set_title(f"k = {k}:  m = {m:g},  l = {terms.sum():.2f}\n{change}", fontsize=10, loc="left")
    grid[0, 0].set_ylabel("term of l")
    figure.set_label(f"The terms of l as bars, after each of several elements of {x.tolist()}. {'; '.join(told)}.")
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
    told = []
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
        told.append(f"the {name} needs {operations} operations and has depth {depth}")
        axes.set(xticks=[], xlim=(0.4, max(n.last for n in nodes) + 0.6))
        axes.grid(False)
        for side in ("bottom", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0)
    grid[0, 0].set_ylabel("depth (⊕ one after another)")
    deepest = max(n.depth for results in named.values() for n in results)
    grid[0, 0].set(ylim=(deepest + 0.5, -0.5), yticks=range(deepest + 1))
    elements = max(node.last for results in named.values() for node in results)
    figure.set_label(f"Which ⊕ joins what, over {elements} elements: {'; '.join(told)}. Results are outlined.")
    return figure


def widths(clock: Clock) -> Figure:
    """Milliseconds of online softmax against the width of its chunks, beside safe softmax in one chunk."""
    figure, axes = canvas(7.4, 3.9)
    chunked = clock.median("online")
    n = max(chunked)
    axes.set_xscale("log")
    axes.set_yscale("log")
    band(axes, clock, "online", ONLINE)
    axes.annotate("online", (min(chunked), 1e3 * chunked[min(chunked)]), (10, 0), textcoords="offset points",
                  va="center", fontsize=10, color=darker(ONLINE))
    told = [f"{1e3 * t:.3g} ms in chunks of {width:,}" for width, t in chunked.items()]
    for name, below, style in (("safe", True, "-"), ("safe, exponentials twice", False, (0, (4, 3)))):
        (low, middle, high), = clock.seconds[name].values()
        axes.axhspan(1e3 * low, 1e3 * high, color=COLORS["safe"], alpha=0.25, linewidth=0)
        axes.axhline(1e3 * middle, color=COLORS["safe"], linewidth=1.5, linestyle=style)
        axes.annotate(name, (min(chunked), 1e3 * middle), (0, -4 if below else 4), textcoords="offset points",
                      va="top" if below else "bottom", fontsize=10, color=darker(COLORS["safe"]))
        told.append(f"{name} {1e3 * middle:.3g} ms")
    axes.set_ylim(bottom=axes.get_ylim()[0] / 1.5)
    axes.set(xlabel="elements per chunk", ylabel=f"time of {n:,} elements (ms)")
    figure.set_label(f"Time against the size of the chunks, both axes logarithmic. Online softmax: {'; '.join(told)}.")
    return figure
