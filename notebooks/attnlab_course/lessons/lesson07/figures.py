"""The figures of lesson 07, memory hierarchy and intensity."""

from collections.abc import Mapping, Sequence

from attnlab.measure import binary
from attnlab_course.instruments.clock import Clock
from attnlab_course.instruments.hardware import ACCELERATORS, MULTIPROCESSORS
from attnlab_course.plots.style import COLORS, GRAY, INK, canvas, darker

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def hierarchy(chip: str = "A100", machine: str = "A100 40 GB") -> Figure:
    """The memories of an accelerator in a row, with sizes; bars as high as the bandwidth between neighbors."""
    parts, whole = MULTIPROCESSORS[chip], ACCELERATORS[machine]
    sram = 19e12  # Dao et al. 2022
    boxes = [
        f"{parts.count} multi-\nprocessors\n{whole.flops / 1e12:.0f} TFLOP/s",
        f"SRAM\n{whole.on_chip / 2**20:.0f} MiB in all", f"L2 cache\n{binary(parts.l2)}",
        f"HBM\n{binary(whole.memory)}",
    ]
    figure, axes = canvas(9.0, 2.3)
    axes.set(xlim=(-0.2, 15.4), ylim=(-1.6, 1.7))
    axes.axis("off")
    for place, (text, height) in enumerate(zip(boxes, (1.5, 0.8, 1.1, 2.8))):
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


def steps(clock: Clock) -> Figure:
    """Bandwidth against the size of the array to which 1 is added again and again: read and written at each call."""
    figure, axes = canvas(8.4, 3.9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ((name, rows),) = clock.seconds.items()
    sizes = list(rows)
    slow, rates, fast = ([2e-9 * size / row[at] for size, row in rows.items()] for at in (2, 1, 0))
    axes.fill_between(sizes, slow, fast, color=INK, alpha=0.2, linewidth=0)
    axes.plot(sizes, rates, color=INK, marker="o", markersize=4, linewidth=1.5)
    axes.set(xlabel="size of the array (bytes)", ylabel="bandwidth (GB/s), read and write",
             ylim=(0.7 * min(rates), 1.6 * max(rates)))
    ticks = sizes[::2]
    axes.set_xticks(ticks, [binary(tick) for tick in ticks])
    plain_ticks(axes)
    best = max(sizes, key=lambda size: rates[sizes.index(size)])
    figure.set_label(
        f"Bandwidth against the size of an array, NumPy, one core, {name}: {rates[0]:.0f} GB/s for {binary(sizes[0])}, "
        f"at most {max(rates):.0f} for {binary(best)}, {rates[-1]:.0f} for {binary(sizes[-1])}, which no cache holds."
    )
    return figure


def plain_ticks(axes: Axes) -> None:
    """1, 2, 5, 10 … on a logarithmic y axis, written out."""
    low, high = axes.get_ylim()
    ticks = [a * 10.0**e for e in range(-4, 8) for a in (1, 2, 5) if low <= a * 10.0**e <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def intensities(
    lengths: Sequence[int], curves: Mapping[str, tuple[Sequence[float], str, str]], counted: Mapping[int, tuple],
    balances: Mapping[str, float],
) -> Figure:
    """Intensity against sequence length.

    ``curves``: label → (values, color, line style); ``counted``: N → intensities counted on the machine;
    ``balances``: machine → FLOP/B, as horizontal lines.
    """
    figure, axes = canvas(8.8, 5.6)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for balance in balances.values():
        axes.axhline(balance, color=GRAY, linewidth=1, linestyle="--", zorder=1)
    for values, color, style in curves.values():
        axes.plot(lengths, values, color=color, linestyle=style, zorder=2)
    ends = [(values[-1], label, darker(color)) for label, (values, color, _) in curves.items()]
    ends += [(balance, f"balance of {name}", GRAY) for name, balance in balances.items()]
    height = 0.0
    for value, label, color in sorted(ends):  # labels keep a distance from each other
        height = max(value, height * 1.31)
        axes.annotate(label, (lengths[-1], height), (6, 0), textcoords="offset points", va="center", fontsize=10,
                      color=color, annotation_clip=False)
    for n, values in counted.items():
        axes.plot([n] * len(values), values, "o", color=INK, fillstyle="none", zorder=3)
    axes.set(xlabel="sequence length N (tokens)", ylabel="intensity (FLOP per byte)", ylim=(0.6, 800),
             xlim=(0.8 * lengths[0], lengths[-1]))
    ticks = [2**e for e in range(7, 18, 2)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    plain_ticks(axes)
    reached = ", ".join(f"{label.replace('$', '')}: {values[-1]:.3g}" for label, (values, _, _) in curves.items())
    dashed = " and ".join(f"{balance:.0f} ({name})" for name, balance in balances.items())
    figure.set_label(
        f"Intensity against sequence length, both axes logarithmic. At {lengths[-1]:,} tokens, in FLOP per byte, "
        f"{reached}. All curves have flattened. Dashed lines, the balances: {dashed}. Rings, counted on the machine, "
        "lie on the curves."
    )
    return figure
