"""Rotary positions: a vector is turned by angles that grow with its position, so that products see distances alone.

    (x_k, x_{k + D/2})  turned by  position · base^{−2k/D},   k < D/2
    rotary(q, i) · rotary(k, j)  depends on i − j, and on nothing else of i and j

The angle is a product of a large integer and an irrational number, taken modulo one turn; in float32 it would be wrong
by 0.01 at position 2²⁰. So it is reduced in integers: a frequency is a fraction of a turn in 64 bits, and a product
of integers that wraps is a product modulo one turn. Derived in notebook 16.
"""

import functools
from decimal import Decimal, localcontext
from typing import Any

from attnlab.arguments import check_float, check_kind, dtype_name, integer, kind_of, number
from attnlab.call import library_of, loaded
from attnlab.misnamed import hinted
from attnlab.signature import Array

__all__ = ["rotary"]

PI = Decimal("3.14159265358979323846264338327950288419716939937510582")


@hinted
def rotary(x: Array, positions: Any = None, *, base: float = 10000.0) -> Array:
    """Rotate queries or keys by their positions: rotary position embedding.

    ``x``: (..., N, D) with D even, float16 to float64, NumPy, JAX or PyTorch. ``positions``: integers, by default
    0 … N − 1; one integer, or an array of x's library that broadcasts to (..., N). An array of more than one axis must
    have as many as x without its last, so positions for a batch are (B, 1, N). Dimension k is paired with k + D/2, as
    in Llama's code (GPT-J pairs neighbors), and turned by position · base^(-2k/D) radians. Returns x's shape and dtype;
    differentiable by x. At every position that fits 32 bits an element errs by at most 2e-6 · max |x| in float32.
    In JAX x and positions may be traced. Extra memory: a few arrays of x's size.
    Raises TypeError (dtypes, libraries), ValueError (odd D, shapes, a base that is not positive).
    Source: Su et al. 2021, "RoFormer", section 3.
    """
    library = library_of("x", x)
    check_float("x", x)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; it must be (..., N, D) with D even")
    base = number("base", base)
    if base <= 0:
        raise ValueError(f"base is {base}; it must be positive")
    if positions is not None:
        _check_positions(positions, x)
    return loaded(f"{__name__}.{library}").rotary(x, positions, base)


def _check_positions(positions: Any, x: Any) -> None:
    """One integer, or integers in x's library that broadcast to x's rows."""
    if kind_of(positions) is None:
        integer("positions", positions, -(2**31))
        return
    check_kind("positions", positions, kind_of(x))
    if not dtype_name(positions).startswith(("int", "uint")):
        raise TypeError(f"positions has dtype {dtype_name(positions)}; positions are integers")
    shape, rows = tuple(positions.shape), tuple(x.shape[:-1])
    if len(shape) > 1 and len(shape) != len(rows):
        raise ValueError(
            f"positions has shape {shape}; with x of shape {tuple(x.shape)} it must have one axis or "
            f"{len(rows)}: for a batch (B, 1, N), the same for all heads"
        )
    if len(shape) > len(rows) or any(size not in (1, full) for size, full in zip(shape[::-1], rows[::-1])):
        raise ValueError(f"positions has shape {shape}, which does not broadcast to (..., N) = {rows}")


@functools.lru_cache
def frequencies(size: int, base: float) -> tuple[int, ...]:
    """base^{−2k/D} for k < D/2, as fractions of a turn in units of 2^{−64}, modulo one turn."""
    with localcontext(prec=50):
        exponents = (Decimal(-2 * k) / size for k in range(size // 2))
        return tuple(round(Decimal(base) ** e / (2 * PI) * 2**64) % 2**64 for e in exponents)
