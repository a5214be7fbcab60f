"""Arrays in NumPy: the annotations of every core, the accumulation dtype, products of grouped heads."""

import math

import numpy as np
from numpy import ndarray as Array

from attnlab.core.bundle import Inputs
from attnlab.core.shapes import Bool, Float

Query = Float[Array, "*batch Hk G N D"]
Key = Float[Array, "*batch Hk M D"]
Value = Float[Array, "*batch Hk M Dv"]
Mask = Bool[Array, "*#batch #Hk #G #N #M"] | None
Seed = int | np.integer | None
Out = Float[Array, "*batch Hk G N Dv"]
Lse = Float[Array, "*batch Hk G N"]

Rows = Float[Array, "*batch Hk G R D"]
Keys = Float[Array, "*batch Hk C D"]
Values = Float[Array, "*batch Hk C Dv"]
Tile = Float[Array, "*batch Hk G R C"]
Shift = Float[Array, "*#batch #Hk #G #R #C"] | None

quiet = np.errstate(all="ignore")
"""As a decorator: −∞ scores, subnormal weights and NaN in padding are no reason to warn."""


def accumulator(x: Array) -> type:
    """The dtype of m, l and o: float64 for float64, float32 for everything else."""
    return np.float64 if x.dtype == np.float64 else np.float32


def empty(x: Inputs) -> tuple[Out, Lse]:
    """out and lse, not yet written."""
    shape = x.query.shape[:-1]
    return np.empty((*shape, x.value.shape[-1]), x.query.dtype), np.empty(shape, accumulator(x.query))


def matmul(
    a: Float[Array, "*batch Hk G R X"], b: Float[Array, "*batch Hk X Y"], buffer: Array | None = None
) -> Float[Array, "*batch Hk G R Y"]:
    """a @ b for every query head: the G heads of a group are rows of one product, so K is never repeated.

    It's written to the front of ``buffer``, if there is one: memory that a CPU hasn't touched before is slow.
    """
    *heads, g, r, x = a.shape
    shape = (*heads, g * r, b.shape[-1])
    out = None if buffer is None else buffer.reshape(-1)[: math.prod(shape)].reshape(shape)
    return np.matmul(a.reshape((*heads, g * r, x)), b, out=out).reshape((*heads, g, r, b.shape[-1]))
