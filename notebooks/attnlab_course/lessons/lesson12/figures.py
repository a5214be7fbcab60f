"""The figure of lesson 12, real kernels."""

from attnlab_course.instruments.hardware import Multiprocessors
from attnlab_course.plots.style import GRAY, GROUPS, INK, PALE, canvas

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def multiprocessor(chip: Multiprocessors, block_q: int, block_k: int, d: int) -> Figure:
    """One multiprocessor with one program in it: what is in shared memory, what in registers, heights in bytes.

    Tiles of Q, K and V in half precision, two each of K and V; results of products in float32.
    """
    tiles = {"$Q_i$": 2 * block_q * d} | {f"${x}_{j}$": 2 * block_k * d for j in ("j", "{j+1}") for x in "KV"}
    results = {"$S$, then $P$": 4 * block_q * block_k, "$o$, $m$, $l$": 4 * block_q * (d + 2)}
    tall = chip.registers
    figure, axes = canvas(9.6, 4.6)
    axes.axis("off")
    axes.set(xlim=(0, 10), ylim=(-0.1 * tall, 1.24 * tall))
    axes.add_patch(Rectangle((2.4, -0.08 * tall), 7.5, 1.3 * tall, facecolor="none", edgecolor=INK))
    for x, bottom, width, height, name in (
        (0.1, 0, 1.5, 1, "L2 and HBM\n\nQ, K, V\noutput"), (5.6, 0.1, 1.4, 0.5, "tensor\ncores"),
    ):
        axes.add_patch(Rectangle((x, bottom * tall), width, height * tall, facecolor="white", edgecolor=GRAY))
        axes.text(x + width / 2, (bottom + height / 2) * tall, name, ha="center", va="center", fontsize=10)
    shared = column(axes, 2.7, "shared memory", chip.shared, tiles, GROUPS[0])
    registers = column(axes, 7.8, "registers", chip.registers, results, GROUPS[1])
    for x, end, y, name in (
        (1.6, 2.7, 0.25, "copies"), (4.7, 7.8, 0.03, "Q, K, V"), (7.0, 7.8, 0.45, "S, o"),
        (7.8, 7.0, 0.25, "Q, K, V, P"), (7.8, 1.6, 0.85, "o / l, once"),
    ):
        axes.annotate("", (end, y * tall), (x, y * tall), arrowprops=dict(arrowstyle="-|>", color=INK, shrinkA=0))
        axes.text((x + end) / 2, (y + 0.02) * tall, name, ha="center", va="bottom", fontsize=9)
    figure.set_label(
        f"A multiprocessor with two memories. Shared memory, {chip.shared // 1024} KiB, holds {shared}. Registers, "
        f"{chip.registers // 1024} KiB, hold {registers}. Tiles are copied from L2 to shared memory, and go from there "
        "to registers; the tensor cores read them and P from registers and write S and o there; the output leaves once."
    )
    return figure


def column(axes: Axes, x: float, title: str, size: int, parts: dict[str, int], color: str) -> str:
    """One memory, its parts from the bottom up; returns their names and sizes."""
    axes.add_patch(Rectangle((x, 0), 2, size, facecolor=PALE, edgecolor=GRAY))
    axes.text(x + 1, size, f"{title}, {size // 1024} KiB", ha="center", va="bottom", fontsize=10)
    bottom, told = 0, []
    for name, part in parts.items():
        axes.add_patch(Rectangle((x, bottom), 2, part, facecolor=color, edgecolor="white", alpha=0.75))
        told.append(f"{name}: {part // 1024} KiB")
        axes.text(x + 1, bottom + part / 2, told[-1], ha="center", va="center", fontsize=9)
        bottom += part
    return ", ".join(told).replace("$", "")
