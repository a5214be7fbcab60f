"""Which probabilities dropout keeps, in NumPy."""

from typing import Any

import numpy as np
from numpy import ndarray as Array

from attnlab.core.arguments import check_probability, check_seed, integer
from attnlab.core.arrays.numpy import Seed, Tile
from attnlab.core.bundle import Rules
from attnlab.core.dropout import PARITY, ROTATIONS
from attnlab.core.geometry import blocks
from attnlab.core.other_names import ends_at_call
from attnlab.core.shapes import Bool, UInt32


def drop(p: Tile, seed: Seed, rules: Rules, rows: slice, cols: slice) -> Tile:
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout."""
    if rules.dropout == 0:
        return p
    factor = p.dtype.type(0 if rules.dropout == 1 else 1 / (1 - rules.dropout))
    z = np.empty_like(p)
    for strip in blocks(p.shape[-2], max(2**14 // max(p.shape[-1], 1), 1)):  # the generator needs scratch
        i = slice(rows.start + strip.start, rows.start + strip.stop)
        z[..., strip, :] = np.where(kept(seed, rules.heads, i, cols, rules.dropout), factor * p[..., strip, :], 0)
    return z


def kept(seed: Seed, heads: tuple[int, ...], rows: slice, cols: slice, p: float) -> Bool[Array, "*heads R C"]:
    """True where dropout keeps: a pure function of seed, flat head index and (i, j)."""
    h = np.arange(np.prod(heads, dtype=int), dtype=np.uint32).reshape((*heads, 1, 1))
    i = np.arange(rows.start, rows.stop, dtype=np.uint32)[:, None]
    j = np.arange(cols.start, cols.stop, dtype=np.uint32)
    threshold = round(p * 2**32)
    return threefry(np.uint32(seed), h, i, j) >= np.uint64(threshold)


def threefry(
    seed: np.uint32 | UInt32[Array, "..."], h: UInt32[Array, "..."], i: UInt32[Array, "..."], j: UInt32[Array, "..."]
) -> UInt32[Array, "..."]:
    """First word of Threefry-2x32 with 20 rounds, key (seed, h), counter (i, j), which broadcast in any way."""
    seed = np.atleast_1d(seed)  # a scalar would warn of overflow
    key = (seed, h, h ^ seed ^ np.uint32(PARITY))
    shape = np.broadcast_shapes(seed.shape, h.shape, i.shape, j.shape)
    x, y = np.broadcast_to(i + key[0], shape).copy(), np.broadcast_to(j + key[1], shape).copy()
    high = np.empty_like(y)
    for r in range(20):
        x += y
        np.left_shift(y, ROTATIONS[r % 8], out=high)
        y >>= 32 - ROTATIONS[r % 8]
        y |= high
        y ^= x
        if r % 4 == 3:
            n = r // 4 + 1
            x += key[n % 3]
            y += key[(n + 1) % 3] + np.uint32(n)
    return x


@ends_at_call
def dropout_mask(seed: Any, shape: Any, p: Any) -> Bool[Array, "*heads N M"]:
    """Which attention probabilities a call with ``dropout=p`` and this ``seed`` keeps: a boolean array, True = kept.

    ``seed``: an integer in [0, 2**32); ``shape``: (..., Hq, N, M), or (N, M) for one head; ``p`` in [0, 1].
    The same in every algorithm, tiling and library. Raises TypeError or ValueError, naming the argument.
    """
    p = check_probability("p", p)
    check_seed(seed, "numpy")
    if not isinstance(shape, tuple | list) or len(shape) < 2:
        raise ValueError(f"shape is {shape}; it needs at least 2 axes, (..., Hq, N, M)")
    *heads, n, m = (integer("a size in shape", size, 0) for size in shape)
    return kept(seed, tuple(heads), slice(0, n), slice(0, m), p)
