"""The figures of lesson 21, ring and striped attention."""

from collections.abc import Mapping, Sequence

from attnlab.ring import Cluster
from attnlab_course.plots.style import COLORS, DEVICES, GRAY, INK, PALE, canvas

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def cell(axes: Axes, x: float, y: float, color: str, text: str = "", size: float = 0.94, dotted: bool = False) -> None:
    """A square with a text in it."""
    line = ":" if dotted else "-"
    axes.add_patch(Rectangle((x, y), size, size, facecolor=color, edgecolor=GRAY, linewidth=0.7, linestyle=line))
    ink = "white" if color == DEVICES[-1] else INK
    axes.text(x + size / 2, y + size / 2, text, ha="center", va="center", fontsize=10, color=ink)


def bare(axes: Axes) -> None:
    """No frame, no ticks."""
    axes.grid(False)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal")


def holders(table: Sequence[Sequence[int]]) -> Figure:
    """Whose block each device holds, a row a step; arrows to the next device. Dotted: hidden by a causal mask."""
    devices = len(table[0])
    figure, axes = canvas(8.6, 4.6)
    for step, row in enumerate(table):
        for r, block in enumerate(row):
            x, y = 2.4 * r, 1.75 * step
            seen = block <= r
            cell(axes, x, y, DEVICES[block] if seen else PALE, f"$K_{block}, V_{block}$", 1.2, not seen)
            if step + 1 < len(table):
                end = (1.24, y + 1.72) if r + 1 == devices else (x + 2.36, y + 1.95)  # the last one's makes it a ring
                start = (x, y + 1.22) if r + 1 == devices else (x + 1.24, y + 1.0)
                line = {"linestyle": "--" if r + 1 == devices else "-", "color": GRAY, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", end, start, arrowprops={"arrowstyle": "->", **line})
        axes.text(-0.5, 1.75 * step + 0.6, f"step {step}", ha="right", va="center", fontsize=10)
    for r in range(devices):
        axes.text(2.4 * r + 0.6, -0.35, f"device {r}: $Q_{r}$", ha="center", va="bottom", fontsize=10)
    axes.text(2.4 * devices - 1.2, 1.75 * len(table) - 0.25, "dotted: a causal mask hides it", ha="right", va="top",
              fontsize=9, color=GRAY)
    axes.set(xlim=(-1.9, 2.4 * devices), ylim=(1.75 * len(table) + 0.1, -1.0))
    bare(axes)
    said = "; ".join(f"device {r} has the blocks {', '.join(str(row[r]) for row in table)}" for r in range(devices))
    figure.set_label(f"{devices} devices, {len(table)} steps; arrows to the next device, from the last to device 0. "
                     f"In order of the steps {said}. Dotted are blocks that a causal mask hides.")
    return figure


def layouts(places: Mapping[str, Sequence[Sequence[int]]]) -> Figure:
    """Which device each token of a text is on: a row of squares per layout. ``places``: each device's tokens."""
    figure, axes = canvas(9.2, 0.62 * len(places) + 0.6)
    said, bottom = [], 1.35 * len(places) + 0.1
    for y, (name, held) in enumerate(places.items()):
        device_of = dict(sorted((x, device) for device, tokens in enumerate(held) for x in tokens))
        for x, device in device_of.items():
            cell(axes, x, 1.35 * y, DEVICES[device], str(device))
        axes.text(-0.4, 1.35 * y + 0.47, name, ha="right", va="center", fontsize=10)
        said.append(f"{name}: {', '.join(map(str, device_of.values()))}")
    for x in device_of:
        axes.text(x + 0.47, bottom, str(x), ha="center", va="center", fontsize=8, color=GRAY)
    axes.text(-0.4, bottom, "token", ha="right", va="center", fontsize=8, color=GRAY)
    axes.set(xlim=(-3.4, len(device_of)), ylim=(bottom + 0.4, -0.2))
    bare(axes)
    figure.set_label(f"{len(device_of)} tokens, and the device of each, in {len(places)} layouts. {'; '.join(said)}.")
    return figure


def timeline(runs: Mapping[str, Cluster]) -> Figure:
    """When rank 0 computes, and when its link to rank 1 carries keys and values, and sums, in two programs or more."""
    figure, axes = canvas(9.2, 0.95 * len(runs) + 0.9)
    said = []
    for row, (name, run) in enumerate(runs.items()):
        spans_of = {"computes": [(x.start, x.end) for x in run.work if x.rank == 0],
                    "sends": [(x.start, x.end) for x in run.messages if x.source == 0]}
        for place, (label, spans) in enumerate(spans_of.items()):
            y = 2.6 * row + place
            color = COLORS["online" if place else "tiled"]
            for start, end in spans:
                axes.add_patch(Rectangle((start, y), end - start, 0.86, facecolor=color, edgecolor="white"))
            axes.text(-0.2, y + 0.43, label, ha="right", va="center", fontsize=9)
        axes.text(0, 2.6 * row - 0.12, f"{name}: {run.time:.1f} s", ha="left", va="bottom", fontsize=10)
        said.append(f"{name} {run.time:.1f} s")
    axes.set(xlim=(-2.2, 1.02 * max(run.time for run in runs.values())), ylim=(2.6 * len(runs) - 0.5, -0.9))
    axes.set(xlabel="seconds on the model clock", yticks=[])
    axes.grid(False)
    axes.spines[["left", "right", "top"]].set_visible(False)
    figure.set_label(f"When rank 0 computes, and when its link sends, on the model clock: {', '.join(said)} in all.")
    return figure
