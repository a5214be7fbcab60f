"""One tile of scores, and which tiles to visit, in NumPy."""

import functools
from collections.abc import Iterator

import numpy as np
from numpy import ndarray as Array

from attnlab.core.arrays.numpy import Keys, Rows, Shift, Tile, Values
from attnlab.core.arrays.numpy import accumulator, matmul
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import Band
from attnlab.core.scores import Visible
from attnlab.core.shapes import Bool, Float


def tile(rules: Rules, x: Inputs, rows: slice, cols: slice) -> tuple[Keys, Values, Shift, Visible]:
    """What one tile reads from memory besides its queries: k, v and bias, and what is visible."""
    visible = visibility(rules, x, rows, cols)
    return *read(x, rows, cols, visible), visible


def read(x: Inputs, rows: slice, cols: slice, visible: Visible) -> tuple[Keys, Values, Shift]:
    """k, v and bias of a tile; ``visible`` says what its queries see."""
    dtype = accumulator(x.key)
    k, v = (zero_unless(visible.keys, y[..., cols, :].astype(dtype, copy=False)) for y in (x.key, x.value))
    return k, v, None if x.bias is None else bias_in(over_tile(x.bias, rows, cols), k.dtype)


def visibility(rules: Rules, x: Inputs, rows: slice, cols: slice) -> Visible:
    """What the rules leave visible of a tile. No axis is expanded."""
    inside, given = in_band(rules.band, rows, cols), []
    if x.mask is not None:
        given.append(over_tile(x.mask, rows, cols))
    if x.bias is not None:
        given.append(over_tile(x.bias, rows, cols) != -np.inf)
    if x.query_segments is not None:
        given.append(over_tile(x.query_segments, rows, cols) == over_tile(x.key_segments, rows, cols))
    if not given and (inside is None or rules.band.meets_all(rows, cols)):
        return Visible(inside)
    pairs = functools.reduce(np.logical_and, given if inside is None else [inside, *given])
    return Visible(pairs, pairs.any(axis=-1), pairs.any(axis=(-3, -2)))


def in_band(band: Band, rows: slice, cols: slice) -> Bool[Array, "1 1 R C"] | None:
    """True where causal and window let query i see key j; None where they hide nothing of the tile."""
    if band.full(rows, cols):
        return None
    i, j = np.arange(rows.start, rows.stop)[:, None], np.arange(cols.start, cols.stop)
    rules = [j >= i + band.low] if band.low is not None else []
    rules += [j <= i + band.high] if band.high is not None else []
    return functools.reduce(np.logical_and, rules)[(None,) * 2]


def over_tile(x: Array, rows: slice, cols: slice) -> Array:
    """The part of a mask or bias over one tile; an axis of size 1 stays 1."""
    return x[..., rows if x.shape[-2] > 1 else slice(None), cols if x.shape[-1] > 1 else slice(None)]


def zero_unless(seen: Bool[Array, "*#rows"] | bool, x: Float[Array, "*rows X"]) -> Float[Array, "*rows X"]:
    """x with 0 for the queries that see nothing, or the keys that nobody sees.

    They may hold NaN, and 0 · NaN is NaN: a weight of 0 alone would not keep it out.
    """
    return x if seen is True or seen.all() else np.where(seen[..., None], x, 0)


def scores(q: Rows, k: Keys, bias: Shift, visible: Visible, buffer: Array | None = None) -> Tile:
    """s = q kᵀ + bias of one tile, −∞ where invisible; q (or k) comes already scaled, the bias already cut."""
    s = matmul(q, k.swapaxes(-1, -2), buffer)
    if bias is not None:
        s += bias
    if visible.pairs is not None:
        np.copyto(s, -np.inf, where=~visible.pairs)
    return s


def bias_in(bias: Array, dtype: np.dtype) -> Array:
    """The bias in the accumulation dtype; a finite number too large for it stays finite, a shift."""
    if bias.dtype == np.float64 and dtype != np.float64:
        largest = np.finfo(dtype).max
        bias = np.where(np.isfinite(bias), np.clip(bias, -largest, largest), bias)
    return bias.astype(dtype, copy=False)


def visible_tiles(rules: Rules, x: Inputs, part: slice, size: int, axis: int = -1) -> Iterator[tuple[slice, Visible]]:
    """The tiles of keys (axis −1) that a part of the queries sees, or of queries (−2) that see a part of the keys.

    Each begins and ends with a key (a query) that the arrays given may show, and comes with what is visible.
    """
    tiles = rules.band.key_blocks if axis == -1 else rules.band.query_blocks
    shown = shown_positions(x, part, axis)
    for found in tiles(part, size, shown):
        visible = visibility(rules, x, *((part, found) if axis == -1 else (found, part)))
        if shown is None:  # the band alone says what is visible: something of each of its tiles
            yield found, visible
        elif np.any(visible.queries):
            yield found, Visible() if visible.pairs is None or visible.pairs.all() else visible


def shown_positions(x: Inputs, part: slice, axis: int) -> bytes | None:
    """A 1 for every key (axis −1) that the arrays given may show to a part of the queries, else 0; or for queries (−2).

    None where no array is given. The arrays are read once. Segments are compared with the range of the part's alone.
    """
    if x.mask is x.bias is x.query_segments is None:
        return None
    length = (x.key if axis == -1 else x.query).shape[-2]
    others = tuple(a for a in range(x.query.ndim) if a != x.query.ndim + axis)
    rows, cols = (part, slice(None)) if axis == -1 else (slice(None), part)
    found = []
    if x.mask is not None:
        found.append(over_tile(x.mask, rows, cols).any(others))
    if x.bias is not None:
        found.append(over_tile(x.bias, rows, cols).max(others, initial=-np.inf) != -np.inf)
    if x.query_segments is not None:
        segments = [over_tile(s, rows, cols) for s in (x.query_segments, x.key_segments)]
        ours, theirs = segments if axis == -1 else segments[::-1]
        low, high = ours.min((-2, -1), keepdims=True), ours.max((-2, -1), keepdims=True)
        found.append(((low <= theirs) & (theirs <= high)).any(others))
    return np.broadcast_to(functools.reduce(np.logical_and, found), length).tobytes()
