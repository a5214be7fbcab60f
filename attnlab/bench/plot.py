"""Times relative to PyTorch's own against N: a row a setting and pass, a column a library, a color an algorithm."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.arguments import LIBRARIES
from attnlab.bench.setting import Setting
from attnlab.bench.table import Row
from attnlab.plots.style import COLORS, GRAY, INK, MARKERS, STYLE, canvas, darker

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator


def ratios(found: Sequence[Row]) -> Figure:
    """The figure. Gray, dashed: scaled_dot_product_attention. Dotted: the products alone at the library's own rate."""
    found = [row for row in found if row.ratio is not None]
    settings = list(dict.fromkeys(family(row) for row in found))
    libraries = [name for name in LIBRARIES if any(row.contestant.library == name for row in found)]
    figure, grid = canvas(
        3.7 * len(libraries) + 0.8, 3.4 * len(settings), nrows=len(settings), ncols=len(libraries), sharex=True,
        sharey="row", squeeze=False,
    )  # fmt: skip
    for line, setting in zip(grid, settings):
        rows = [row for row in found if family(row) == setting]
        ends = [_draw_panel(axes, [row for row in rows if row.contestant.library == library])
                for axes, library in zip(line, libraries)]
        for axes, library, names in zip(line, libraries, ends):
            _label_ends(axes, names)  # only now, when all panels agree on the height of their axis
            axes.set_title(f"{LIBRARIES[library]}, {setting.work}", loc="left")
        line[0].set_ylabel(f"time ÷ sdpa\n{describe(setting)}")
    for axes in grid[-1]:
        axes.set_xlabel("sequence length N (tokens)")
    return figure


def family(row: Row) -> Setting:
    """The setting of a row without its length: that of the keys, where their number is given."""
    return dataclasses.replace(row.setting, **({"n": 1} if row.setting.m is None else {"m": 1}))


def describe(setting: Setting) -> str:
    """A setting without length and pass, in two lines."""
    return str(setting).replace(f"{setting.work}, {setting.lengths}, ", "").replace(", ", "\n", 1)


def _draw_panel(axes: Axes, found: Sequence[Row]) -> dict[str, tuple[int, float]]:
    """Draw the contestants of one library in one setting; returns where their lines end."""
    ends = {}
    for method in dict.fromkeys(row.contestant.method for row in found):
        line = {row.setting.keys: row.ratio for row in found if row.contestant.method == method}
        style = {"color": COLORS.get(method, INK), "linestyle": "-" if method in COLORS else "--"}
        axes.plot(list(line), list(line.values()), marker=MARKERS[found[0].contestant.library], markersize=5, **style)
        ends[method] = max(line), line[max(line)]
    roof = {row.setting.keys: row.ratio * row.fraction for row in found if row.fraction is not None}
    axes.plot(list(roof), list(roof.values()), ":", color=GRAY, linewidth=1.2)
    ends |= {"products": (max(roof), roof[max(roof)])} if roof else {}
    axes.axhline(1, color=GRAY, linestyle="--", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(roof), [f"{n:,}" for n in roof])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    return ends


def _label_ends(axes: Axes, ends: Mapping[str, tuple[int, float]]) -> None:
    """Names at the ends of lines, kept apart where the lines end together."""
    low, high = axes.get_ylim()
    apart, height = (high / low) ** (1 / 18), 0.0
    for name, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        height = max(y, height * apart)
        axes.annotate(name, (x, height), (7, 0), textcoords="offset points", va="center", fontsize=9,
                      color=darker(COLORS.get(name, INK)), annotation_clip=False)


def save(figure: Figure, path: Path) -> None:
    """Write an image of the kind that the name ends in."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
