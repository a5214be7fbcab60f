"""The figures of lesson 12, real kernels."""

from attnlab_course.plots.style import GRAY, GROUPS, INK, PALE, canvas

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def grid(heads: int, blocks: int, sms: int) -> Figure:
    """Left: the programs of a grid, one for each block of queries of each head. Right: on which multiprocessor, when.

    The programs are handed out in order and take equally long, so that the n-th runs on multiprocessor n mod sms.
    """
    programs = heads * blocks
    waves = -(-programs // sms)
    figure, (left, right) = canvas(9.6, 0.42 * max(heads, sms) + 1.5, ncols=2, width_ratios=[blocks + 2, waves + 2.5])
    for pid in range(programs):
        head, i = divmod(pid, blocks)
        box(left, i, head, f"{pid}", GROUPS[head % len(GROUPS)])
    for slot in range(waves * sms):
        wave, sm = divmod(slot, sms)
        busy = slot < programs
        box(right, wave, sm, f"{slot}" if busy else "idle", GROUPS[slot // blocks % len(GROUPS)] if busy else PALE,
            ink=INK if busy else GRAY)
    left.set(xticks=range(blocks), yticks=range(heads), xlabel="block of queries i", ylabel="head h")
    left.set_title("programs, numbered h · $T_r$ + i", loc="left")
    right.set(xticks=range(waves), xlabel="wave", ylabel="multiprocessor", yticks=range(sms))
    right.set_title(f"{waves} waves on {sms} multiprocessors", loc="left")
    for axes, columns, rows in ((left, blocks, heads), (right, waves, sms)):
        axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
        axes.grid(False)
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
    return figure


def stairs(n: int, m: int, block_q: int, block_k: int, program: int) -> Figure:
    """Causal attention in tiles, one row of them for each program: full, with a mask, or hidden; one row is framed."""
    rows, columns = -(-n // block_q), -(-m // block_k)
    figure, axes = canvas(0.72 * columns + 1.6, 0.4 * rows + 1.2)
    counted = {"full": 0, "mask": 0, "hidden": 0}
    for i in range(rows):
        full = (i * block_q + m - n + 1) // block_k
        loaded = -(-min((i + 1) * block_q + m - n, m) // block_k)
        kinds = ["full"] * full + ["mask"] * (loaded - full) + ["hidden"] * (columns - loaded)
        for j, kind in enumerate(kinds):
            counted[kind] += 1
            color = {"full": GROUPS[0], "mask": GROUPS[1], "hidden": PALE}[kind]
            box(axes, j, i, "" if kind == "hidden" else kind, color)
    axes.add_patch(Rectangle((-0.5, program - 0.48), columns, 0.96, fill=False, edgecolor=INK, linewidth=1.5))
    axes.set(xticks=range(columns), yticks=range(rows), xlabel=f"tile of {block_k} keys", xlim=(-0.6, columns - 0.4),
             ylabel=f"program: {block_q} queries", ylim=(rows - 0.4, -0.6))
    axes.grid(False)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    figure.set_label(f"A staircase of {rows} by {columns} tiles: {counted['full']} full ones below the diagonal, "
                     f"{counted['mask']} on it with a mask, {counted['hidden']} hidden ones above. "
                     f"Program {program} is framed.")
    return figure


def box(axes: Axes, x: float, y: float, label: str, color: str, ink: str = INK, width: float = 0.92) -> None:
    """A rectangle around (x, y) with a label."""
    left = (x - width / 2, y - 0.4)
    axes.add_patch(Rectangle(left, width, 0.8, facecolor=color, edgecolor="white", alpha=0.75))
    axes.text(x, y, label, ha="center", va="center", fontsize=9, color=ink)
