"""One tile of scores, in NumPy."""

import functools
from typing import Any

import numpy as np
from numpy import ndarray as Array

from attnlab.checks import check_probability, check_seed, integer
from attnlab.contract import Rules
from attnlab.scores import PARITY, ROTATIONS
from attnlab.tiles import Band, blocks
from attnlab.typing import Bool, Float, UInt32

Query = Float[Array, "*batch Hk G N D"]
Key = Float[Array, "*batch Hk M D"]
Value = Float[Array, "*batch Hk M Dv"]
Mask = Bool[Array, "*#batch #Hk #G #N #M"] | None
Bias = Float[Array, "*#batch #Hk #G #N #M"] | None
Seed = int | np.integer | None
Out = Float[Array, "*batch Hk G N Dv"]
Lse = Float[Array, "*batch Hk G N"]

Rows = Float[Array, "*batch Hk G R D"]
Keys = Float[Array, "*batch Hk C D"]
Tile = Float[Array, "*batch Hk G R C"]
Visible = Bool[Array, "*#batch #Hk #G #R #C"] | None

quiet = np.errstate(all="ignore")
"""As a decorator: −∞ scores, subnormal weights and NaN in padding are no reason to warn."""


def accumulator(x: Array) -> type:
    """The dtype of m, l and o: float64 for float64, float32 for everything else."""
    return np.float64 if x.dtype == np.float64 else np.float32


def cut(x: Array, rows: slice, cols: slice) -> Array:
    """The part of a mask or bias over one tile; an axis of size 1 stays 1."""
    return x[..., rows if x.shape[-2] > 1 else slice(None), cols if x.shape[-1] > 1 else slice(None)]


def visibility(mask: Mask, bias: Bias, band: Band, rows: slice, cols: slice) -> Visible:
    """True where query i sees key j; None if the whole tile is visible. No axis is expanded."""
    rules = []
    if not band.full(rows, cols):
        i, j = np.arange(rows.start, rows.stop)[:, None] + band.offset, np.arange(cols.start, cols.stop)
        rules += [j >= i - band.left] if band.left is not None else []
        rules += [j <= i + band.right] if band.right is not None else []
        rules = [functools.reduce(np.logical_and, rules)[(None,) * 2]]
    if mask is not None:
        rules.append(cut(mask, rows, cols))
    if bias is not None:
        rules.append(cut(bias, rows, cols) != -np.inf)
    return functools.reduce(np.logical_and, rules) if rules else None


def take(x: Key, cols: slice, visible: Visible) -> Keys:
    """A tile of K or V in the accumulation dtype; keys that no query of the tile sees become 0.

    A hidden key may hold NaN, and 0 · NaN is NaN: a weight of 0 alone would not keep it out.
    """
    x = x[..., cols, :].astype(accumulator(x), copy=False)
    if visible is None or (seen := visible.any(axis=(-3, -2))).all():
        return x
    return np.where(seen[..., None], x, 0)


def sees(visible: Visible, cols: slice) -> Bool[Array, "*#batch #Hk #G #R"] | bool:
    """True where a query sees any key of the tile."""
    return cols.stop > cols.start if visible is None else visible.any(axis=-1)


def scores(q: Rows, k: Keys, visible: Visible, bias: Bias, rows: slice, cols: slice) -> Tile:
    """s = q kᵀ + bias of one tile, −∞ where invisible; q (or k) comes already scaled."""
    s = matmul(q, k.swapaxes(-1, -2))
    if bias is not None:
        s += narrow(cut(bias, rows, cols), s.dtype)
    if visible is not None:
        np.copyto(s, -np.inf, where=~visible)
    return s


def narrow(bias: Array, dtype: np.dtype) -> Array:
    """The bias in the accumulation dtype; a finite number too large for it stays finite, a shift."""
    if bias.dtype == np.float64 and dtype != np.float64:
        largest = np.finfo(dtype).max
        bias = np.where(np.isfinite(bias), np.clip(bias, -largest, largest), bias)
    return bias.astype(dtype, copy=False)


def matmul(a: Float[Array, "*batch Hk G R X"], b: Float[Array, "*batch Hk X Y"]) -> Float[Array, "*batch Hk G R Y"]:
    """a @ b for every query head: the G heads of a group are rows of one product, so K is never repeated."""
    *heads, g, r, x = a.shape
    return (a.reshape((*heads, g * r, x)) @ b).reshape((*heads, g, r, b.shape[-1]))


def drop(p: Tile, seed: Seed, rules: Rules, rows: slice, cols: slice) -> Tile:
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout, in place."""
    if rules.dropout == 0:
        return p
    p *= 0 if rules.dropout == 1 else 1 / (1 - rules.dropout)
    r, c = p.shape[-2:]
    for strip in blocks(r, max(2**14 // max(c, 1), 1)):  # a strip at a time: the generator needs scratch
        i = slice(rows.start + strip.start, rows.start + strip.stop)
        p[..., strip, :] *= kept(seed, rules.heads, i, cols, rules.dropout)
    return p


def kept(seed: Seed, heads: tuple[int, ...], rows: slice, cols: slice, p: float) -> Bool[Array, "*heads R C"]:
    """True where dropout keeps: a pure function of seed, flat head index and (i, j)."""
    h = np.arange(np.prod(heads, dtype=int), dtype=np.uint32).reshape((*heads, 1, 1))
    i = np.arange(rows.start, rows.stop, dtype=np.uint32)[:, None]
    j = np.arange(cols.start, cols.stop, dtype=np.uint32)
    threshold = round(p * 2**32)
    return threefry(np.uint32(seed), h, i, j) >= np.uint64(threshold)


def threefry(
    seed: np.uint32, h: UInt32[Array, "*heads 1 1"], i: UInt32[Array, "R 1"], j: UInt32[Array, " C"]
) -> UInt32[Array, "*heads R C"]:
    """First word of Threefry-2x32 with 20 rounds, key (seed, h), counter (i, j)."""
    key = (np.full_like(h, seed), h, h ^ seed ^ np.uint32(PARITY))
    shape = np.broadcast_shapes(h.shape, i.shape, j.shape)
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


def dropout_mask(seed: Any, shape: Any, p: Any) -> Bool[Array, "*heads N M"]:
    """Which attention probabilities a call with ``dropout=p`` and this ``seed`` keeps: a boolean array, True = kept.

    ``seed``: an integer in [0, 2**32); ``shape``: (..., Hq, N, M), or (N, M) for one head; ``p`` in [0, 1].
    The same in every algorithm, tiling and library. Raises TypeError or ValueError, naming the argument.
    """
    p = check_probability("p", p)
    check_seed(seed)
    if len(shape) < 2:
        raise ValueError(f"shape is {shape}; it needs at least 2 axes, (..., Hq, N, M)")
    *heads, n, m = (integer("shape", size, 0) for size in shape)
    return kept(seed, tuple(heads), slice(0, n), slice(0, m), p)
