"""The figures of lesson 10, tiled backward."""

from attnlab_course.plots.style import COLORS, GRAY, INK, PALE, canvas, darker

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
