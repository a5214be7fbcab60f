"""The figures of lesson 06, gradients and checkpointing."""

from collections.abc import Callable, Mapping

from attnlab.measure import result_bytes
from attnlab_course.plots.style import COLORS, INK, canvas

from matplotlib.figure import Figure
from torch import Tensor
from torch.autograd.profiler import profile


def sawtooth(ways: Mapping[str, Callable], *arrays: Tensor) -> Figure:
    """What each way holds beyond ``arrays``, after each allocation and release; ``ways`` record "backward" midway."""
    figure, panels = canvas(9.0, 4.4, ncols=2, nrows=-(-len(ways) // 2), sharey=True)
    said = []
    for axes, (name, way) in zip(panels.flat, ways.items()):
        with profile(profile_memory=True) as watched:
            results = way(*arrays)  # named, so that they're held to the end
        held, steps = 0, [0.0]
        for event in sorted(watched.kineto_results.events(), key=lambda event: event.start_ns()):
            if event.name() == "backward":
                axes.axvline(len(steps), color=INK, linestyle="--", linewidth=0.8)
            elif event.name() == "[memory]":
                held += event.nbytes()
                steps.append(held / 2**20)
        axes.fill_between(range(len(steps)), steps, step="post", color=COLORS["chunked"])
        axes.set(title=name, xticks=[], ylabel="MiB", ylim=0)
        said.append(f"{name}, at most {max(steps):.1f} MiB, {result_bytes(results) / 2**20:.1f} of it results")
    figure.supxlabel("allocations and releases in order; dashed: the backward pass begins", fontsize=9)
    figure.set_label(f"Memory held during value and gradient, step by step. {'; '.join(said)}.")
    return figure
