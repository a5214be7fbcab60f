"""What a call of ring or tree attention accepts: checks, options, where it runs. Array-free."""

import math
from typing import Any, Literal, get_args

from attnlab.core.arguments import (
    LIBRARIES, boolean, check_choice, check_static, dtype_name, integer, number, window_sides,
)
from attnlab.core.bundle import Inputs, Rules, group
from attnlab.ring.schedule import LAYOUTS, Part, Schedule

Form = Literal["allreduce", "doubling"]
FORMS = get_args(Form)


def check_layout(length: Any, devices: Any, layout: Any) -> Schedule:
    """Check the layout. Returns the schedule of ``length`` tokens on ``devices`` devices, without a mask."""
    check_choice("layout", layout, LAYOUTS)
    return Schedule(integer("length", length, 0), integer("devices", devices, 1), layout)


def check_ring(
    query: Any, key: Any, value: Any, *, devices: int, length: Any, causal: Any, layout: Any, window: Any, scale: Any
) -> tuple[Schedule, float, Inputs]:
    """Check one rank's part of a call. Returns the schedule, the scale and the arrays with grouped heads."""
    x = Inputs(*group(query, key, value))
    check_static(length=length, causal=causal, window=window, scale=scale)
    slots, d = x.query.shape[-2:]
    if x.key.shape[-2] != slots:
        raise ValueError(f"key has length {x.key.shape[-2]}, query has {slots}; in a ring both are equal")
    ring = check_layout(devices * slots if length is None else length, devices, layout)
    if ring.size != slots:
        raise ValueError(
            f"query has length {slots}; {ring.length} tokens on {devices} devices, {layout}, make shards of {ring.size}"
        )
    left, right = window_sides(window)
    if boolean("causal", causal):
        right = 0 if right is None else min(right, 0)
    scale = 1 / math.sqrt(max(d, 1)) if scale is None else number("scale", scale)
    return Schedule(ring.length, devices, layout, left, right), scale, x


def check_place(kind: str, group: Any, axis_name: Any) -> Any:
    """Where the ranks meet: ``axis_name`` in JAX, ``group`` elsewhere; the other one is not given."""
    given, other, name = (axis_name, group, "group") if kind == "jax" else (group, axis_name, "axis_name")
    if other is not None:
        takes = "axis_name, an axis of the mesh" if kind == "jax" else "group"
        raise TypeError(f"{name} is {other!r}; with {LIBRARIES[kind]} arrays the ranks are named by {takes}")
    return given


def part_of_step(part: Part, scale: float, x: Inputs) -> tuple[Rules, Inputs]:
    """The rules of one part of a step, and its queries, keys and values, which are views except in JAX."""
    x = Inputs(x.query[..., part.rows, :], x.key[..., part.cols, :], x.value[..., part.cols, :])
    return Rules(scale, part.band, tuple(x.query.shape[:-2])), x


def agreement(ring: Schedule, scale: float, x: Inputs) -> str:
    """All that must be equal on the ranks of a ring, in words that they compare before the first exchange."""
    *heads, slots, d = x.query.shape
    return (
        f"{dtype_name(x.query)}, heads {tuple(heads)}, {slots} slots a rank, sizes {d} and {x.value.shape[-1]}, "
        f"scale {scale}, {ring}"
    )


def tree_agreement(form: str, rules: Rules, x: Inputs) -> str:
    """All that must be equal on the ranks of a tree; how many keys each has is its own affair."""
    rows, dv = tuple(x.query.shape), x.value.shape[-1]
    return f"{dtype_name(x.query)}, query {rows}, values of size {dv}, scale {rules.scale}, {form}"
