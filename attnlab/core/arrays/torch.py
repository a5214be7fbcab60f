"""Arrays in PyTorch: the annotations of every core, the accumulation dtype, products of grouped heads."""

import functools
import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

from attnlab.core.bundle import Inputs
from attnlab.core.dispatch import library_missing
from attnlab.core.shapes import Bool, Float

try:
    import torch
    from torch import Tensor as Array
except ModuleNotFoundError as error:
    raise library_missing("torch") from error

Query = Float[Array, "*batch Hk G N D"]
Key = Float[Array, "*batch Hk M D"]
Value = Float[Array, "*batch Hk M Dv"]
Mask = Bool[Array, "*#batch #Hk #G #N #M"] | None
Seed = Integral | None
Out = Float[Array, "*batch Hk G N Dv"]
Lse = Float[Array, "*batch Hk G N"]

Rows = Float[Array, "*batch Hk G R D"]
Keys = Float[Array, "*batch Hk C D"]
Values = Float[Array, "*batch Hk C Dv"]
Tile = Float[Array, "*batch Hk G R C"]
Shift = Float[Array, "*#batch #Hk #G #R #C"] | None


def uncompiled(function: Callable) -> Callable:
    """Decorator: torch.compile doesn't trace this function, whose loops it would unroll.

    ``torch.compiler.disable`` alone would import the compiler with the module, which takes more than a second.
    """

    @functools.wraps(function)
    def wrapped(*args: Any) -> tuple[Array, ...]:
        return torch.compiler.disable(function)(*args) if torch.compiler.is_compiling() else function(*args)

    return wrapped


def accumulator(x: Array) -> torch.dtype:
    """The dtype of m, l and o: float64 for float64, float32 for everything else."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def empty(x: Inputs) -> tuple[Out, Lse]:
    """out and lse, not yet written."""
    shape = x.query.shape[:-1]
    return x.query.new_empty((*shape, x.value.shape[-1])), x.query.new_empty(shape, dtype=accumulator(x.query))


def anywhere(x: Bool[Array, "..."], axes: int | tuple[int, ...] = ()) -> Bool[Array, "..."]:
    """`x.any(axes)`, of all axes by default, as a maximum of bytes: five times as fast on a CPU.

    Empty x falls back to any(): amax of nothing raises.
    """
    return x.to(torch.uint8).amax(axes).bool() if x.numel() else x.any(axes)


WIDENED = 512  # keys of half precision that are widened at a time, so that they stay in a cache


def matmul(
    a: Float[Array, "*batch Hk G R X"], b: Float[Array, "*batch Hk X Y"], buffer: Array | None = None
) -> Float[Array, "*batch Hk G R Y"]:
    """a @ b for every query head: the G heads of a group are rows of one product, so K is never repeated.

    If ``buffer`` has the shape, the product is written into it: memory that a CPU hasn't touched before is slow.
    Where b is of half precision and a isn't, b is widened as it is read: see ``product``.
    """
    *heads, g, r, x = a.shape
    n, shape = math.prod(heads), (*heads, g, r, b.shape[-1])
    if a.dtype != b.dtype:
        return product(a.reshape((n, g * r, x)), b.reshape((n, *b.shape[-2:]))).reshape(shape)
    if buffer is None or buffer.shape != shape:
        return (a.reshape((*heads, g * r, x)) @ b).reshape(shape)
    torch.bmm(a.reshape((n, g * r, x)), b.reshape((n, x, b.shape[-1])), out=buffer.view((n, g * r, b.shape[-1])))
    return buffer


def product(a: Float[Array, "batch R X"], b: Float[Array, "batch X Y"]) -> Float[Array, "batch R Y"]:
    """a @ b in a's dtype. If b is of another, it's widened as it is read, some keys (X or Y, the longer) at a time."""
    if a.dtype == b.dtype:
        return torch.bmm(a, b)
    axis = -1 if b.shape[-1] > b.shape[-2] else -2
    parts = b.split(WIDENED, axis)
    room = torch.empty_like(parts[0], dtype=a.dtype)  # one for all: memory that a CPU hasn't touched before is slow
    wide = (room.narrow(axis, 0, part.shape[axis]).copy_(part) for part in parts)
    if axis == -1:
        return torch.cat([torch.bmm(a, part) for part in wide], -1)
    return functools.reduce(Array.add_, [torch.bmm(p, part) for p, part in zip(a.split(WIDENED, -1), wide)])


def add_matmul(x: Rows, a: Tile, b: Keys) -> Rows:
    """x += a @ b for every query head, in place and in one pass over x, which is contiguous."""
    if a.dtype != b.dtype:
        return x.add_(matmul(a, b))
    *heads, g, r, y = x.shape
    n, c = math.prod(heads), a.shape[-1]
    x.view((n, g * r, y)).baddbmm_(a.reshape((n, g * r, c)), b.reshape((n, c, y)))
    return x
