"""The figures of lesson 07, memory hierarchy and intensity."""

from attnlab.measure import binary
from attnlab_course.instruments.clock import Clock
from attnlab_course.instruments.hardware import ACCELERATORS, MULTIPROCESSORS
from attnlab_course.plots.style import COLORS, GRAY, INK, band, canvas, darker

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def hierarchy(chip: str = "A100", machine: str = "A100 40 GB") -> Figure:
    """The memories of an accelerator in a row, registers included; bars as high as the bandwidth between neighbors."""
    parts, whole = MULTIPROCESSORS[chip], ACCELERATORS[machine]
    sram = 19e12  # Dao et al. 2022
    boxes = [
        f"{parts.count} multi-\nprocessors,\nregisters of\n{parts.count * parts.registers / 2**20:.0f} MiB in all",
        f"SRAM\n{whole.on_chip / 2**20:.0f} MiB in all", f"L2 cache\n{binary(parts.l2)}",
        f"HBM\n{binary(whole.memory)}",
    ]
    figure, axes = canvas(9.0, 2.3)
    axes.set(xlim=(-0.2, 15.4), ylim=(-1.6, 1.7))
    axes.axis("off")
    for place, (text, height) in enumerate(zip(boxes, (1.9, 0.8, 1.1, 2.8))):
        axes.add_patch(Rectangle((4.2 * place, -height / 2), 2.3, height, facecolor="#EEEEEE" if place else "white",
                                 edgecolor=GRAY))
        axes.text(4.2 * place + 1.15, 0, text, ha="center", va="center", fontsize=10, color=INK)
    for place, rate in enumerate((sram, parts.l2_bandwidth, whole.bandwidth)):
        axes.add_patch(Rectangle((4.2 * place + 2.4, -rate / sram / 2), 1.7, rate / sram, color=COLORS["tiled"]))
        axes.text(4.2 * place + 3.25, 0.6, f"{rate / 1e12:.2g} TB/s", ha="center", va="bottom", fontsize=10, color=INK)
    said = [" ".join(text.replace("-\n", "").split()) for text in boxes]
    rates = [f", {rate / 1e12:.2g} TB/s; " for rate in (sram, parts.l2_bandwidth, whole.bandwidth)]
    row = "".join(text + rate for text, rate in zip(said, [*rates, "."]))
    figure.set_label(f"Four boxes in a row, joined by bars as high as the bandwidth between them: {row}")
    return figure


def regimes(clock: Clock) -> Figure:
    """Seconds of a call against the size of its array: flat where the call decides, then by bytes or products."""
    figure, axes = canvas(8.4, 4.2)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for name, color in zip(clock.seconds, (INK, COLORS["tiled"])):
        band(axes, clock, name, color, scale=1.0, markersize=4, linewidth=1.5)
        size, seconds = max(clock.median(name).items())
        axes.annotate(name, (size, seconds), (-8, 2), textcoords="offset points", ha="right", color=darker(color))
    sizes = sorted(clock.median("add 1"))
    axes.set_xticks(sizes[::2], [binary(size) for size in sizes[::2]])
    axes.set(xlabel="size of the array (bytes)", ylabel="time of a call (s)")
    found = "; ".join(
        f"{name}: {1e6 * row[min(row)]:.2g} µs for {binary(min(row))}, {1e6 * row[max(row)]:.3g} for {binary(max(row))}"
        for name, row in ((name, clock.median(name)) for name in clock.seconds)
    )
    figure.set_label(f"Time of a call against the size of its array, NumPy, one core, both axes logarithmic. {found}.")
    return figure
