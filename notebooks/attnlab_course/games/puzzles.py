"""Attention puzzles: twelve exercises, each with one picture and at most five lines for its function."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from attnlab_course import check
from attnlab_course.checker.exercise import Function
from attnlab_course.checker.results import parameters
from attnlab_course.plots.style import GRAY, INK, canvas

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

BUDGET = 5
PUZZLES = {
    "average": "EYE",
    "attention_row": "EYE",
    "log_sum_exp": "three scores",
    "oplus_arrays": "UP",
    "summarize": "EYE",
    "softmax_vjp": "EYE",
    "tile_step": "UP",
    "row_deltas": "two queries",
    "recompute_weights": "PARTIAL",
    "merge_parts": "EYE",
    "decay_weights": "three tokens",
    "delta_step": "F = 3, Dv = 2, a key",
}
"""The exercises, and how the label of the input begins that the picture shows."""


def lines(function: Function) -> int:
    """Lines of a function's body as Python would write it: a wrapped line is one, and semicolons hide nothing."""
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value is not ...
    return sum(len(ast.unparse(statement).split("\n")) for statement in body[documented:])


def solve(function: Function) -> None:
    """Check an answer, which earns the stars of its exercise, and show how much of the budget it uses."""
    check.answer(function)
    if check._verdicts[function.__name__].state != "not attempted":
        used = lines(function)
        over = f": {used - BUDGET} over the budget" if used > BUDGET else ""
        print(f"{'■' * used}{'□' * (BUDGET - used)}  {used} of {BUDGET} lines{over}")


def picture(name: str) -> Figure:
    """What goes into a puzzle's function, and what comes out, on one small input."""
    exercise = check.find(name)
    case = next(case for case in exercise.cases() if case.label.startswith(PUZZLES[name]))
    with np.errstate(all="ignore"):
        result = exercise.reference(*case.args)
    arguments = zip(parameters(exercise), case.args)
    given = [part for argument, x in arguments for part in flat(argument, x)]
    return draw(given, [*flat("result", result)], f"{name}: {case.label}.")


def flat(name: str, x: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays with their names; those of a tuple are numbered."""
    if isinstance(x, tuple):
        for i, part in enumerate(x):
            yield from flat(f"{name}[{i}]", part)
    else:
        yield f"{name} {np.shape(x) or ''}".strip(), np.asarray(x)


def draw(given: list[tuple[str, np.ndarray]], made: list[tuple[str, np.ndarray]], title: str) -> Figure:
    """Grids of numbers in a row: what is given, an arrow, what is made of it."""
    parts = [*given, ("→", None), *made]
    widths = [1 if x is None else max(1, np.atleast_2d(x).shape[1]) + 0.6 for _, x in parts]
    tall = max(np.atleast_2d(x).shape[0] for _, x in parts if x is not None)
    figure, axes = canvas(0.62 * sum(widths) + 0.3, 0.5 * tall + 0.9, ncols=len(parts), width_ratios=widths)
    for ax, (name, x) in zip(axes, parts, strict=True):
        ax.set_axis_off()
        if x is None:
            ax.text(0.5, 0.5, name, ha="center", va="center", size=18, color=GRAY, transform=ax.transAxes)
        else:
            grid(ax, name, np.atleast_2d(x))
    figure.set_label(f"{title} Given {spoken(given)}. It returns {spoken(made)}.")
    return figure


def spoken(parts: list[tuple[str, np.ndarray]]) -> str:
    """The numbers, for those who can't see the figure."""
    return "; ".join(f"{name}: {np.round(x, 2).tolist()}" for name, x in parts)


def grid(ax: Any, name: str, x: np.ndarray) -> None:
    """One array, a number in each cell, the larger the darker."""
    shade = np.where(np.isfinite(x), np.abs(x), 0)
    ax.imshow(shade, cmap="Blues", vmin=0, vmax=3 * max(shade.max(), 1e-9), aspect="equal")
    ax.add_patch(Rectangle((-0.5, -0.5), x.shape[1], x.shape[0], fill=False, edgecolor=GRAY, linewidth=1))
    ax.set_title(name, size=9, loc="center")
    for (row, column), number in np.ndenumerate(x):
        text = f"{number:.3g}".replace("-", "−").replace("inf", "∞")
        ax.text(column, row, text, ha="center", va="center", size=8, color=INK)
