"""What the six algorithms cost, one figure a meter: extra memory, bytes moved, place on the roofline, time."""

import functools
import math
from collections.abc import Mapping, Sequence

from attnlab import attention, costs
from attnlab.core.geometry import chunk_sizes, tile_sizes
from attnlab.measure import binary, many_bytes
from attnlab_course.instruments import machine
from attnlab_course.instruments.clock import Clock, Ratio, timed
from attnlab_course.instruments.hardware import ACCELERATORS, Accelerator, this_machine
from attnlab_course.ladder import LADDER
from attnlab_course.plots.roofline import roofline
from attnlab_course.plots.style import COLORS, GRAY, band, canvas, darker

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

D = 64
LONG = [2**e for e in range(8, 18)]
DASHED = (0, (5, 3))  # lies on another
Measured = Mapping[str, Mapping[int, float | int]]


def memory(measured: Measured) -> Figure:
    """Extra memory in bytes against N, float32: closed forms as lines, ``measured`` as points at lengths of LONG."""
    lines = {name: [4 * costs.extra_elements(name, n, n, D, D) for n in LONG] for name in LADDER}
    figure, axes = canvas(7.4, 4.4)
    _draw(axes, lines, measured)
    _bytes_axis(axes, range(10, 48, 5))
    axes.set(ylabel=f"extra memory (bytes)\none head, float32, D = {D}")
    ratios = {name: [x / lines[name][LONG.index(n)] for n, x in found.items()] for name, found in measured.items()}
    apart = ", ".join(f"{name} {min(found):.2f} to {max(found):.2f}" for name, found in ratios.items())
    slopes = ", ".join(f"{name} {math.log2(row[-1] / row[-2]):.1f}" for name, row in lines.items())
    figure.set_label("Extra memory against sequence length, both axes logarithmic. Lines are closed forms, with these "
                     f"slopes at their right end: {slopes}. Measured divided by closed form: {apart}.")
    return figure


def traffic(counted: Measured) -> Figure:
    """Bytes moved against N, float32: closed forms as lines, what the counting machine counted as points.

    In the package's blocks, whose scores stay in the cache of a CPU: 512 by 512, and chunks of 256 queries.
    """
    lines = {name: [costs.forward(name, n, n, D, D, itemsize=4).bytes for n in LONG] for name in LADDER}
    figure, axes = canvas(7.4, 4.4)
    _draw(axes, lines, counted)
    axes.plot(LONG, [16 * n * D for n in LONG], color=GRAY, linewidth=1, linestyle=":")
    axes.annotate("inputs and output once", (LONG[4], 16 * LONG[4] * D), (4, -14), textcoords="offset points",
                  fontsize=9, color=GRAY)
    _bytes_axis(axes, range(15, 50, 5))
    least, most = (chunk_sizes(n, D, None, None)[1] for n in (LONG[0], LONG[-1]))
    blocks = f"tiles of 512 × 512, chunks of 256 × {least} to 256 × {most:,}, kept in cache"
    axes.set_title(blocks, loc="left", fontsize=9)
    axes.set(ylabel=f"bytes moved, forward\none head, float32, D = {D}")
    return figure


def on_gpu(method: str, n: int, d: int, itemsize: int = 2) -> costs.PassCost:
    """The forward in blocks of GPUs: tiles of FlashAttention-2, 128 by 64, whose 113 KiB (D = 128) fit an A100.

    The chunks of Rabe & Staats, 1024 by 4096, fit no multiprocessor: their scores cross, as standard attention's do.
    """
    if method == "chunked":
        return costs.forward(method, n, n, d, d, itemsize=itemsize, block_q=1024, block_k=4096).spilled(n * n)
    blocks = {"block_q": 128, "block_k": 64} if method == "tiled" else {}
    return costs.forward(method, n, n, d, d, itemsize=itemsize, **blocks)


def place(n: int, d: int, name: str = "A100 40 GB", itemsize: int = 2) -> Figure:
    """The six on the roofline of a named accelerator, by closed form, in half precision unless itemsize says other."""
    forms = {method: on_gpu(method, n, d, itemsize) for method in LADDER}
    figure = roofline([ACCELERATORS[name]], {method: (form.intensity, None) for method, form in forms.items()})
    blocks = "tiles of 128 × 64; chunks of 1024 × 4096, scores through HBM"
    (axes,) = figure.axes
    setting = f"N = {n:,}, D = {d}, {8 * itemsize} bits per number"
    axes.annotate(f"{setting}\n{blocks}", (0.99, 0.12), xycoords="axes fraction", ha="right", fontsize=9, color=GRAY)
    balance = ACCELERATORS[name].balance
    places = ", ".join(
        f"{method} at {form.intensity:.3g}, {'memory' if form.intensity < balance else 'compute'}-bound"
        for method, form in forms.items()
    )
    figure.set_label(f"Roofline of {name}, balance {balance:.0f} FLOP per byte; {setting}: {places}.")
    return figure


def times(clock: Clock, machine: Accelerator) -> Figure:
    """Seconds against N, measured; dotted, tiled attention's least time on the roofline of ``machine``."""
    figure, axes = canvas(7.4, 4.4)
    lengths = sorted({n for found in clock.seconds.values() for n in found})
    forms = [costs.forward("tiled", n, n, D, D, itemsize=4) for n in lengths]
    least = [machine.time(form.products, form.bytes) for form in forms]
    for name in clock.seconds:
        band(axes, clock, name, COLORS[name], scale=1.0, markersize=5, linewidth=1.5)
    axes.plot(lengths, least, color=GRAY, linewidth=1.2, linestyle=":")
    axes.annotate("the two products alone,\nat this core's peak", (lengths[1], least[1]), (14, -6), va="top",
                  textcoords="offset points", fontsize=9, color=GRAY)
    _both_logarithmic(axes, lengths)
    ends = {name: max(clock.median(name).items()) for name in clock.seconds}
    _label_ends(axes, ends)
    axes.set(ylabel=f"time (s)\none head, float32, D = {D}")
    return figure


def _draw(axes: Axes, lines: Mapping[str, Sequence[float | int]], points: Measured) -> None:
    """Lines over LONG with their names at the end, points on them."""
    groups = alike()
    for name, values in lines.items():
        axes.plot(LONG, values, color=COLORS[name], linestyle="-" if name in groups else DASHED)
    for name, found in points.items():
        axes.plot(list(found), list(found.values()), "o", color=COLORS[name], fillstyle="none", markersize=6)
    _both_logarithmic(axes, LONG)
    _label_ends(axes, {name: (LONG[-1], lines[name][-1]) for name in groups}, groups)


def alike() -> dict[str, list[str]]:
    """Algorithms whose lines coincide, by the first of them."""
    groups: dict[str, list[str]] = {}
    for name, method in LADDER.items():
        groups.setdefault(method.memory, []).append(name)
    return {group[0]: group for group in groups.values()}


def _both_logarithmic(axes: Axes, lengths: Sequence[int]) -> None:
    """Logarithmic axes, powers of two below."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = lengths[::2] if len(lengths) > 6 else lengths
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.minorticks_off()
    axes.set(xlabel="sequence length N (tokens)")


def _label_ends(
    axes: Axes, ends: Mapping[str, tuple[float | int, float | int]], groups: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Names at the ends of lines, with those of their group, kept apart where the lines end together."""
    low, high = axes.get_ylim()
    apart, height = (high / low) ** (1 / 18), 0.0
    for name, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        height = max(y, height * apart) if height else y
        text = ", ".join((groups or {}).get(name, [name]))
        axes.annotate(text, (x, height), (7, 0), textcoords="offset points", va="center", fontsize=10,
                      color=darker(COLORS[name]), annotation_clip=False)


def _bytes_axis(axes: Axes, exponents: range) -> None:
    """Ticks of the y axis in binary units."""
    low, high = axes.get_ylim()
    ticks = [2**e for e in exponents if low <= 2**e <= high]
    axes.set_yticks(ticks, [binary(tick) for tick in ticks])


def measure_memory(lengths: Sequence[int] = (512, 1024, 2048, 4096)) -> dict[str, dict[int, int]]:
    """Extra bytes of every algorithm in NumPy, one head."""
    task = {"library": "numpy", "d": D, "gradient": False, "options": {}}
    tasks = [{**task, "method": name, "lengths": _affordable(name, lengths, 1024)} for name in LADDER]
    return dict(zip(LADDER, many_bytes(tasks)))


def _affordable(name: str, lengths: Sequence[int], longest: int) -> list[int]:
    """The lengths, up to ``longest`` for an algorithm that takes a key at a time."""
    return [n for n in lengths if LADDER[name].at_once != "key" or n <= longest]


def count_traffic(lengths: Sequence[int] = (256, 512, 1024)) -> dict[str, dict[int, int]]:
    """Bytes that the machine counts, float32; what takes a key at a time runs at the first length alone."""
    counted: dict[str, dict[int, int]] = {}
    for name, method in LADDER.items():
        program = getattr(machine, f"{method.program}_forward")
        blocks = dict(zip(method.blocks, tile_sizes((1, 1), None, None))) if method.at_once == "tile" else {}
        counted[name] = {}
        for n in _affordable(name, lengths, lengths[0]):
            on = machine.Machine(itemsize=4)
            arrays = np.random.default_rng(n).standard_normal((3, n, D), dtype=np.float32)
            program(on, *(on.put(x, array) for x, array in zip("QKV", arrays)), **blocks)
            counted[name][n] = on.bytes
    return counted


def measure_times(lengths: Sequence[int] = (256, 512, 1024, 2048, 4096)) -> Clock:
    """Seconds of every algorithm in PyTorch on one core, one head, float32; a key at a time up to 1024.

    It claims what README says of the figure.
    """
    import torch

    arrays = {n: [torch.randn(1, n, D) for _ in range(3)] for n in lengths}
    calls = {
        name: {n: functools.partial(attention, *arrays[n], method=name) for n in _affordable(name, lengths, 1024)}
        for name in LADDER
    }
    slow = [Ratio((name, 1024), ("safe", 1024), low=2) for name in ("lazy", "online")]
    fast = [Ratio((name, 4096), ("safe", 4096), high=0.9) for name in ("chunked", "tiled")]
    return timed(calls, slow + fast, seconds=60)


def one_core() -> Accelerator:
    """This machine, as PyTorch uses one core of it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    machine = this_machine("torch")
    torch.set_num_threads(threads)
    return machine
