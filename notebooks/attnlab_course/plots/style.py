"""One style for every figure of the course, one color per algorithm, and a text for those who cannot see it."""

import base64
import html
import io
import re
from collections.abc import Sequence
from typing import Any

from attnlab_course.ladder import LADDER
from attnlab_course.plots.tables import remarks

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {name: rung.color for name, rung in LADDER.items()}
"""One color per algorithm through the whole course."""
GROUPS = (COLORS["tiled"], "#B59B00", "#4B4B9F", COLORS["chunked"])
"""Groups of one thing: heads, warps, kinds of tiles."""
DEVICES = (COLORS["safe"], COLORS["tiled"], COLORS["chunked"], COLORS["online"])
"""Devices, and blocks by the device they began on."""
SHADES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Requests and users."""

INK, GRAY, PALE = "#222222", "#767676", "#F3F3F3"
MARKERS = {"numpy": "o", "jax": "s", "torch": "^"}

STYLE = {
    "figure.dpi": 100,
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.edgecolor": GRAY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "lines.linewidth": 2,
    "legend.frameon": False,
    "svg.hashsalt": "attnlab",
}
DARK = '<style>[data-jp-theme-light="false"] .attnlab-figure { filter: invert(0.925) hue-rotate(180deg); }</style>'
"""In JupyterLab's dark themes a figure turns around, and colors keep their hue: but for one described by shades."""
SHADES_IN_WORDS = re.compile(r"\b(?:dark|darker|white|black)\b")
SANS = "'DejaVu Sans', Verdana, sans-serif"


def canvas(width: float, height: float, **grid: Any) -> tuple[Figure, Any]:
    """A figure of ``width`` by ``height`` inches in the course's style, and its axes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(**grid)


def show(figure: Figure, alt: str = "", clock: Any = None) -> None:
    """Display a figure in a notebook, with ``alt`` for screen readers.

    A function that draws data makes the text from that data and leaves it with ``figure.set_label(text)``; ``alt`` is
    for figures that show no data. ``clock``: the measurement that is drawn (instruments.clock), stored with it.
    """
    from IPython.display import display

    if not (alt := alt or figure.get_label()):
        raise ValueError("a figure needs a text for those who can't see it: figure.set_label(text), or alt=")
    width = round(figure.get_figwidth() * 100)
    # JupyterLab and nbconvert keep no alternative text for an image output; in HTML they do.
    said = html.escape(alt.replace("$", ""))  # a label's formula is drawn, and read aloud as it stands
    turns = "" if SHADES_IN_WORDS.search(alt) else ' class="attnlab-figure"'
    shown = f'<img alt="{said}"{turns} width="{width}" src="data:{picture(figure)}">{DARK if turns else ""}'
    data = {"text/plain": "<IPython.core.display.HTML object>", "text/html": shown + (remarks(clock) if clock else "")}
    display(data, raw=True, metadata=clock.metadata() if clock else {})


def picture(figure: Figure) -> str:
    """A figure as the content of a data URI: an SVG whose words are text, with points as pixels where they are many."""
    svg, pixels = render(figure, "svg"), render(figure, "png")
    if len(svg) > len(pixels):
        for axes in figure.axes:
            for part in (*axes.lines, *axes.collections, *axes.images, *axes.patches):
                part.set_rasterized(True)
        svg = render(figure, "svg")
    words = svg[svg.index(b"<svg") :].replace(b"'DejaVu Sans'", SANS.encode())
    return f"image/svg+xml;base64,{base64.b64encode(words).decode()}"


def render(figure: Figure, kind: str) -> bytes:
    """A figure as a file, without the names and dates that Matplotlib writes into it."""
    file, nobody = io.BytesIO(), ("Software",) if kind == "png" else ("Creator", "Date", "Format", "Type")
    with matplotlib.rc_context({**STYLE, "svg.fonttype": "none"}):
        figure.savefig(file, format=kind, dpi=150, metadata=dict.fromkeys(nobody))
    return file.getvalue()


def band(axes: Any, clock: Any, name: str, color: str, scale: float = 1e3, **line: Any) -> None:
    """Draw the median of the rounds against size, in milliseconds, and the band of their middle half."""
    rows = clock.seconds[name]
    low, middle, high = ([scale * row[at] for row in rows.values()] for at in range(3))
    axes.fill_between(list(rows), low, high, color=color, alpha=0.25, linewidth=0)
    axes.plot(list(rows), middle, **{"color": color, "marker": "o", **line})


def darker(color: str) -> tuple[float, ...]:
    """The color for text: dark enough to read on white."""
    return tuple(0.72 * c for c in matplotlib.colors.to_rgb(color))


def name_line_ends(axes: Axes, x: float, ends: Sequence[tuple[float, str, str]], apart: float) -> None:
    """Name lines beside their last points, (height, name, color), at least ``apart`` from each other."""
    free = -np.inf
    for height, name, color in sorted(ends):
        free = max(height, free + apart)
        axes.annotate(name, (x, free), (10, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(color), bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
