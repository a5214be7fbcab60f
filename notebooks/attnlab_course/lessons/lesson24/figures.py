"""The figures of lesson 24, smaller caches."""

from collections.abc import Mapping, Sequence

from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, name_line_ends

from matplotlib.figure import Figure

WAYS = {"the last": GRAY, "evict by weight": COLORS["naive"], "pages by their bounds": COLORS["chunked"],
        "a learned index": COLORS["tiled"], "an oracle": INK}  # fmt: skip
"""One color for each way to find keys."""


def texts(rows: Sequence[tuple[str, float]]) -> Figure:
    """GiB that one text takes in the cache of each model, as bars from 0."""
    figure, axes = canvas(9.4, 0.5 * len(rows) + 0.9)
    for y, (_, size) in enumerate(rows):
        axes.barh(y, size, color=COLORS["tiled"] if y else GRAY, height=0.62)
        axes.text(size + 0.4, y, f"{size:.1f}", va="center", fontsize=10)
    axes.set(yticks=range(len(rows)), xlabel="GiB of cache for one text of 131,072 tokens, 16 bits per number")
    axes.set_yticklabels([name for name, _ in rows])
    axes.invert_yaxis()
    axes.grid(False)
    figure.set_label("Bars, GiB of cache for one text. " + "; ".join(f"{name} {size:.1f}" for name, size in rows) + ".")
    return figure


def found(prices: Mapping[str, Mapping[int, float]], whole: float) -> Figure:
    """Bits per byte of repeated text against how many keys a head reads, for each way to find them."""
    figure, axes = canvas(8.2, 4.2)
    for way, row in prices.items():
        axes.plot([*row], [*row.values()], "o-", color=WAYS[way])
    last = max(max(row) for row in prices.values())
    name_line_ends(axes, last, [(row[last], way, WAYS[way]) for way, row in prices.items()], 0.1)
    axes.axhline(whole, color=GRAY, linestyle="--", linewidth=1)
    axes.set(xscale="log", xlabel="keys read per head and step", ylabel="bits per byte, repeated text", xlim=(30, 260))
    axes.set_xticks([*row], [str(keys) for keys in row])
    axes.minorticks_off()
    said = "; ".join(f"{way} " + ", ".join(f"{x:.2f} with {keys}" for keys, x in row.items())
                     for way, row in prices.items())  # fmt: skip
    figure.set_label(f"Bits per byte of repeated text against the keys read. With all keys {whole:.2f}. {said}.")
    return figure
