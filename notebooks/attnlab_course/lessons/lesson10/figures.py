"""The figures of lesson 10, tiled backward."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

STYLES = {
    "slow": dict(facecolor="#DADADA", edgecolor=GRAY, linestyle="-"),
    "matrix": dict(facecolor="#F3C9A9", edgecolor=COLORS["naive"], linestyle="-"),
    "chip": dict(facecolor="white", edgecolor=COLORS["tiled"], linestyle="--"),
    "result": dict(facecolor=PALE, edgecolor=INK, linestyle="-"),
}
TOP = {"Q": 0.06, "K": 0.20, "lse": 0.36, "V": 0.54, "dO": 0.72, "O": 0.90}
WIDE, NARROW, TALL = 0.27, 0.11, 0.12


def products(width: float = 11.0) -> Figure:
    """The backward pass as a graph, twice: with P stored by the forward pass, and with P computed again."""
    figure, (left, right) = canvas(width, 5.0, ncols=2)
    draw(left, "standard: P is stored, four products", stored=True)
    draw(right, "tiled: P is computed again, five products", stored=False)
    return figure


def draw(axes: Axes, title: str, stored: bool) -> None:
    """One graph: what lies in slow memory on top, the results at the bottom, boxes of N × M numbers between."""
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.1, 1.06), title=title)
    axes.axis("off")
    inner = "matrix" if stored else "chip"
    names = [name for name in TOP if not stored or name not in ("lse", "O")]
    spots = {name: (TOP[name], 0.96, NARROW, "slow", name) for name in names}
    spots["dP"] = (0.57, 0.70, WIDE, inner, "dP = dO Vᵀ")
    spots["dS"] = (0.50, 0.24, 0.32, inner, "dS = P ∘ (dP − Δ)")
    spots["dV"] = (0.14, 0.0, WIDE, "result", "dV += Pᵀ dO")
    spots["dQ"] = (0.50, 0.0, WIDE, "result", "dQ += τ dS K")
    spots["dK"] = (0.86, 0.0, WIDE, "result", "dK += τ dSᵀ Q")
    arrows = [("V", "dP"), ("dO", "dP"), ("P", "dV"), ("P", "dS"), ("dP", "dS"), ("Δ", "dS"), ("dS", "dQ")]
    arrows += [("dS", "dK")]
    if stored:
        spots["P"] = (0.36, 0.96, NARROW, "matrix", "P")
        spots["Δ"] = (0.85, 0.47, 0.33, "slow", "Δ = rowsum(P ∘ dP)")
        arrows += [("dP", "Δ")]
        numbers = {"dV": 1, "dP": 2, "dQ": 3, "dK": 4}
    else:
        spots["S"] = (0.13, 0.70, WIDE, inner, "S = τ Q Kᵀ")
        spots["P"] = (0.25, 0.47, WIDE, inner, "P = exp(S − lse)")
        spots["Δ"] = (0.85, 0.47, 0.33, "slow", "Δ = rowsum(dO ∘ O)")
        arrows += [("Q", "S"), ("K", "S"), ("S", "P"), ("lse", "P"), ("dO", "Δ"), ("O", "Δ")]
        numbers = {"S": 1, "dV": 2, "dP": 3, "dQ": 4, "dK": 5}
    for start, end in arrows:
        arrow(axes, spots[start], spots[end])
    for name, spot in spots.items():
        box(axes, spot, numbers.get(name))


def arrow(axes: Axes, start: tuple, end: tuple) -> None:
    """From the lower edge of one box to the upper edge of another."""
    (x, y, *_), (u, v, *_) = start, end
    axes.annotate("", (u + 0.22 * (x - u), v + TALL / 2), (x, y - TALL / 2),
                  arrowprops=dict(arrowstyle="-|>", color=GRAY, linewidth=1, shrinkA=0, shrinkB=0))


def box(axes: Axes, spot: tuple, number: int | None) -> None:
    """One box and, where it is a matrix product, its number."""
    x, y, width, style, text = spot
    axes.add_patch(FancyBboxPatch(
        (x - width / 2, y - TALL / 2), width, TALL, boxstyle="round,pad=0,rounding_size=0.02", linewidth=1.4,
        **STYLES[style], zorder=2,
    ))
    axes.text(x, y, text, ha="center", va="center", fontsize=9, zorder=3)
    if number is not None:
        axes.text(x - width / 2, y + TALL / 2, str(number), ha="center", va="center", fontsize=8, weight="bold",
                  color="white", zorder=4, bbox=dict(boxstyle="circle,pad=0.18", color=darker(COLORS["tiled"])))


def traffic(
    lengths: Sequence[int], by_length: Mapping[str, Sequence[int]], at_lengths: Mapping[str, Mapping[int, int]],
    sizes: Sequence[int], by_size: Mapping[str, Sequence[int]], at_sizes: Mapping[str, Mapping[int, int]],
    titles: tuple[str, str],
) -> Figure:
    """Bytes moved against the sequence length and against the size of fast memory: closed forms, counted points.

    Names: "standard forward", "standard backward", "tiled forward", "tiled backward".
    """
    figure, (left, right) = canvas(11.0, 4.8, ncols=2)
    for axes, x, forms, points in ((left, lengths, by_length, at_lengths), (right, sizes, by_size, at_sizes)):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        for name, row in forms.items():
            color = COLORS["safe" if "standard" in name else "tiled"]
            axes.plot(x, row, color=color, linestyle="-" if "backward" in name else "--", linewidth=1.6)
            counted = points.get(name, {})
            axes.plot(list(counted), list(counted.values()), "o", color=INK, fillstyle="none", markersize=5)
            axes.annotate(name, (x[-1], row[-1]), (5, 0), textcoords="offset points", va="center", fontsize=9,
                          color=darker(color))
        low, high = axes.get_ylim()
        ticks = [2**e for e in range(10, 60, 2) if low <= 2**e <= high]
        axes.set_yticks(ticks, [binary(tick) for tick in ticks])
        axes.set_xlim(x[0] * 0.8, x[-1] * (x[-1] / x[0]) ** 0.42)
    left.set(title=titles[0], xlabel="sequence length N = M (tokens)", ylabel="moved between HBM and chip (bytes)")
    right.set(title=titles[1], xlabel="fast memory (bytes)", ylabel="moved between HBM and chip (bytes)")
    kept = list(sizes)[::2]
    right.set_xticks(kept, [binary(size) for size in kept])
    left.plot([], [], "o", color=INK, fillstyle="none", label="counted by the machine")
    left.legend(loc="upper left", fontsize=9)
    ends = [", ".join(f"{name} {binary(row[-1], 3)}" for name, row in forms.items()) for forms in (by_length, by_size)]
    first = ", ".join(f"{name} {binary(row[0], 3)}" for name, row in by_size.items())
    figure.set_label(
        f"Bytes moved, two panels, both axes logarithmic; counted points lie on closed forms. Left, at {lengths[-1]:,} "
        f"tokens: {ends[0]}; tiled rises in steps. Right, from {binary(sizes[0])} of fast memory: {first}; to "
        f"{binary(sizes[-1])}: {ends[1]}."
    )
    return figure


def meters(
    measured: Mapping[str, Mapping[int, int]], forms: Mapping[str, tuple[Sequence[int], Sequence[int]]],
    products: Mapping[str, tuple[int, int, int]], colors: Mapping[str, str],
) -> Figure:
    """Extra memory of value and gradient against length, and matrix products: forward, recomputed, backward."""
    figure, (left, right) = canvas(11.0, 4.4, ncols=2, width_ratios=[6, 5])
    left.set_xscale("log", base=2)
    left.set_yscale("log", base=2)
    for name, sizes in measured.items():
        left.plot(list(sizes), list(sizes.values()), "o", color=colors[name], markersize=6)
        ends = dict(zip(*forms[name])) if name in forms else sizes
        last = max(ends)
        left.annotate(name, (last, ends[last]), (8, 0), textcoords="offset points", va="center", fontsize=9,
                      color=darker(colors[name]))
    for name, (lengths, row) in forms.items():
        left.plot(lengths, row, color=colors[name], linewidth=1.4)
    low, high = left.get_ylim()
    ticks = [2**e for e in range(18, 40, 2) if low <= 2**e <= high]
    left.set_yticks(ticks, [binary(tick) for tick in ticks])
    every = {n for sizes in measured.values() for n in sizes} | {n for lengths, _ in forms.values() for n in lengths}
    left.set_xlim(min(every) * 0.8, max(every) * 2)
    left.set(title="extra memory, value and gradient", xlabel="sequence length N = M (tokens)", ylabel="bytes")

    shades = {"forward": 0.35, "again": 1.0, "backward": 0.65}
    for row, (name, counts) in enumerate(products.items()):
        start = 0
        for (part, shade), count in zip(shades.items(), counts):
            if count:
                right.barh(row, count, left=start, height=0.62, color=colors[name], alpha=shade, edgecolor="white")
                text = f"{part}\n{count}"
                right.text(start + count / 2, row, text, ha="center", va="center", fontsize=7.5, color=INK)
            start += count
        right.text(start + 0.15, row, str(start), va="center", fontsize=10, weight="bold")
    right.set_yticks(range(len(products)), list(products))
    right.invert_yaxis()
    right.grid(False)
    right.set_xlim(0, max(map(sum, products.values())) * 1.1)
    right.set(title="matrix products", xlabel="products of 2·N·M·D operations")
    sizes = ", ".join(f"{name} {binary(held[max(held)], 3)} at {max(held):,} tokens" for name, held in measured.items())
    counts = ", ".join(f"{name} {sum(parts)}" for name, parts in products.items())
    figure.set_label(
        f"Left: extra memory of value and gradient, both axes logarithmic: {sizes}. Right: matrix products: {counts}."
    )
    return figure


def ratios(
    published: Mapping[str, tuple[Sequence[int], np.ndarray]], laws: Mapping[str, float], colors: Mapping[str, str],
) -> Figure:
    """Published time of forward and backward over the forward alone; ``laws`` are the ratios of the products."""
    figure, axes = canvas(8.6, 3.9)
    axes.set_xscale("log", base=2)
    for name, law in laws.items():
        axes.axhline(law, color=colors[name], linewidth=1, linestyle="--")
        axes.annotate(f"products alone: {law:g}", (1, law), (4, 0), xycoords=("axes fraction", "data"), va="center",
                      textcoords="offset points", fontsize=9, color=darker(colors[name]))
    for name, (lengths, row) in published.items():
        axes.plot(lengths, row, "o-", color=colors[name], linewidth=1.2, label=f"{name}, published, A100")
    top = 1.25 * max(np.nanmax(row) for _, row in published.values())
    axes.set(xlabel="sequence length N (tokens)", ylabel="time, both passes ÷ forward", ylim=(1.8, top))
    axes.legend(fontsize=8, loc="upper right")
    shown = [[f"{x:.2f} at {n:,}" for n, x in zip(lengths, row) if x == x] for lengths, row in published.values()]
    rows = "; ".join(f"{name} {row[0]} to {row[-1]}, dashed {laws[name]:g}" for name, row in zip(published, shown))
    figure.set_label(f"Time of both passes over that of the forward, published for an A100, against N: {rows}.")
    return figure
