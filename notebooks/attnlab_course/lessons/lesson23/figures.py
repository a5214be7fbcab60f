"""The figure of lesson 23, the capstone."""

from collections.abc import Mapping

from attnlab_course.plots.style import COLORS, INK, canvas, darker

from matplotlib.figure import Figure

KINDS = {"window": COLORS["tiled"], "state": COLORS["chunked"]}


def two_prices(points: Mapping[str, tuple[float, float, str]]) -> Figure:
    """What a cut costs: name -> (bits per byte of text, bits per byte of a span that returns, kind of the cut)."""
    figure, axes = canvas(9.6, 4.2)
    for name, (text, span, kind) in points.items():
        axes.plot(text, span, "o", color=KINDS[kind], markeredgecolor=INK, markeredgewidth=0.5, markersize=8)
        below = any(0 < other - span < 0.2 for _, other, _ in points.values())
        axes.annotate(name, (text, span), (8, -9 if below else 9), textcoords="offset points", va="center",
                      fontsize=9.5, color=darker(KINDS[kind]))
    axes.set(xlabel="bits per byte of text", ylabel="bits per byte of a repeated span", xlim=(1.1, 3.1), ylim=(0, 3.4))
    said = "; ".join(f"{name}: {text:.2f} and {span:.2f}" for name, (text, span, _) in points.items())
    figure.set_label(f"What each cut costs on ordinary text, and on a span that returns after 152 bytes, in bits per "
                     f"byte. {said}.")
    return figure
