"""The figures of lesson 13, fast kernels."""

import math
from collections.abc import Mapping, Sequence

from attnlab_course.instruments.hardware import Multiprocessors
from attnlab_course.plots.style import COLORS, GRAY, INK, canvas

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def staircase(steps: Mapping[str, Sequence[float]], peak: float) -> Figure:
    """TFLOP/s of one kernel after another: a step for the best of its lengths, a dot for each; the chip's peak."""
    figure, axes = canvas(8.6, 3.6)
    for x, (name, rates) in enumerate(steps.items()):
        best = max(rates)
        axes.fill_between([x, x + 1], best, color=COLORS["tiled"], alpha=0.25 + 0.25 * x, linewidth=0)
        places = [x + (i + 1) / (len(rates) + 1) for i in range(len(rates))]
        axes.plot(places, rates, "o", color=INK, markersize=5)
        axes.text(x + 0.5, best + 14, f"{best:.0f}", ha="center", fontsize=12, color=INK)
        axes.text(x + 0.5, 40, name, ha="center", fontsize=10, color=INK)
    axes.axhline(peak, color=GRAY, linestyle="--", linewidth=1.5)
    axes.text(0.02, peak - 20, f"peak of the datasheet, {peak:.0f}", va="top", fontsize=10, color=GRAY)
    axes.set(xticks=[], xlim=(0, len(steps)), ylim=(0, 1.08 * peak), ylabel="TFLOP/s")
    said = ", ".join(f"{name} {max(rates):.0f} ({max(rates) / peak:.0%})" for name, rates in steps.items())
    figure.set_label(f"The best rates of {len(steps)} kernels below a peak of {peak:.0f} TFLOP/s: {said}. On each step "
                     "a dot for each length.")
    return figure


def multiprocessor(unit: Multiprocessors, flops: float) -> Figure:
    """One multiprocessor of a chip of so many FLOP/s: its units, its memories, and FlashAttention-4's warps at each."""
    rate = 2 ** round(math.log2(flops / unit.count / unit.clock))
    boxes = (  # left edge, bottom, width, text, warps
        (0, 2.2, 2.2, "TMA\ncopies tiles", "1 warp loads,\n1 stores"),
        (3.0, 2.2, 2.5, f"tensor cores\n{rate:,} FLOP/cycle", "1 warp\nstarts products"),
        (6.2, 2.2, 2.6, f"special functions\n{unit.special} exponentials/cycle", "2 × 4 warps: softmax,\na tile each"),
        (9.1, 2.2, 2.6, "ordinary units\n128 instructions/cycle", "the same 8 warps, and\n4 that rescale o"),
        (0, 0, 3.3, f"shared memory, {unit.shared // 1024} KiB\nQ, K, V; 128 bytes/cycle", ""),
        (4.1, 0, 3.1, f"tensor memory, {128 * 512 * 4 // 1024} KiB\nS, P, o", ""),
        (8.0, 0, 3.7, f"registers, {unit.registers // 1024} KiB\na row of S per thread", ""),
    )
    arrows = (("->", (1, 2.2), (1, 1.1)), ("->", (2.7, 1.1), (3.5, 2.2)), ("<->", (4.9, 2.2), (5.2, 1.1)),
              ("<->", (7.2, 0.55), (8.0, 0.55)), ("<->", (8.7, 1.1), (7.7, 2.2)), ("<->", (10.3, 1.1), (10.4, 2.2)))
    figure, axes = canvas(9.0, 3.2)
    axes.set(xlim=(-0.2, 11.9), ylim=(-0.1, 4.3))
    axes.axis("off")
    for left, bottom, width, text, warps in boxes:
        color = COLORS["tiled"] if warps else "#EEEEEE"
        axes.add_patch(Rectangle((left, bottom), width, 1.1, facecolor=color, alpha=0.45, edgecolor=GRAY))
        axes.text(left + width / 2, bottom + 0.55, text, ha="center", va="center", fontsize=9.5, color=INK)
        axes.text(left + width / 2, bottom + 1.25, warps, ha="center", va="bottom", fontsize=9, color=INK)
    for style, start, end in arrows:
        axes.annotate("", end, start, arrowprops={"arrowstyle": style, "color": GRAY, "linewidth": 1.5})
    said = "; ".join(" ".join(f"{text}, {warps}".split()).rstrip(", ") for *_, text, warps in boxes)
    figure.set_label(f"Units above, memories below, joined by arrows: {said}.")
    return figure
