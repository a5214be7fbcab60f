"""One tile of scores, and which tiles to visit, in PyTorch."""

import functools
import math
from collections.abc import Iterator

from attnlab.core.arrays.torch import Keys, Rows, Shift, Tile, Values
from attnlab.core.arrays.torch import accumulator, anywhere, matmul
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import Band
from attnlab.core.scores import Visible
from attnlab.core.shapes import Bool, Float

import torch
from torch import Tensor as Array


def tile(rules: Rules, x: Inputs, rows: slice, cols: slice) -> tuple[Keys, Values, Shift, Visible]:
    """What one tile reads from memory besides its queries: k, v and bias, and what is visible."""
    visible = visibility(rules, x, rows, cols)
    return *read(x, rows, cols, visible), visible


def read(x: Inputs, rows: slice, cols: slice, visible: Visible) -> tuple[Keys, Values, Shift]:
    """k, v and bias of a tile; ``visible`` says what its queries see."""
    k, v, shift = read_narrow(x, rows, cols, visible)
    return k.to(accumulator(k)), v.to(accumulator(v)), shift


def read_narrow(x: Inputs, rows: slice, cols: slice, visible: Visible) -> tuple[Keys, Values, Shift]:
    """The same, k and v not yet widened."""
    k, v = (zero_unless(visible.keys, y[..., cols, :]) for y in (x.key, x.value))
    return k, v, None if x.bias is None else bias_in(over_tile(x.bias, rows, cols), accumulator(k))


def columns(x: Inputs) -> Iterator[tuple[slice, Keys, Values, Shift]]:
    """One key after the other: its position, k_j, v_j and bias_j.

    The arrays are cut once: the gradient of a slice is as large as what it was cut from.
    """
    m = x.key.shape[-2]
    shifts = [x.bias] * m if x.bias is None or x.bias.shape[-1] == 1 else x.bias.split(1, -1)
    for j, k, v, shift in zip(range(m), x.key.split(1, -2), x.value.split(1, -2), shifts):
        yield slice(j, j + 1), k, v, shift if shift is None else bias_in(shift, accumulator(k))


def visibility(rules: Rules, x: Inputs, rows: slice, cols: slice) -> Visible:
    """What the rules leave visible of a tile. No axis is expanded."""
    inside, given = in_band(rules.band, rows, cols, x.key.device), []
    if x.mask is not None:
        given.append(over_tile(x.mask, rows, cols))
    if x.bias is not None:
        given.append(over_tile(x.bias, rows, cols) != -math.inf)
    if x.query_segments is not None:
        given.append(over_tile(x.query_segments, rows, cols) == over_tile(x.key_segments, rows, cols))
    if not given and (inside is None or rules.band.meets_all(rows, cols)):
        return Visible(inside)
    pairs = functools.reduce(torch.logical_and, given if inside is None else [inside, *given])
    return Visible(pairs, anywhere(pairs, -1), anywhere(pairs, (-3, -2)))


def in_band(band: Band, rows: slice, cols: slice, device: torch.device) -> Bool[Array, "1 1 R C"] | None:
    """True where causal and window let query i see key j; None where they hide nothing of the tile."""
    if band.full(rows, cols):
        return None
    i = torch.arange(rows.start, rows.stop, dtype=torch.int32, device=device)[:, None]
    j = torch.arange(cols.start, cols.stop, dtype=torch.int32, device=device)
    rules = [j >= i + band.low] if band.low is not None else []
    rules += [j <= i + band.high] if band.high is not None else []
    return functools.reduce(torch.logical_and, rules)[(None,) * 2]


def over_tile(x: Array, rows: slice, cols: slice) -> Array:
    """The part of a mask or bias over one tile; an axis of size 1 stays 1."""
    return x[..., rows if x.shape[-2] > 1 else slice(None), cols if x.shape[-1] > 1 else slice(None)]


def widen_or_zero(x: Keys, visible: Visible) -> Keys:
    """A tile of K or V in the accumulation dtype, 0 where no query of the tile sees it."""
    return zero_unless(visible.keys, x.to(accumulator(x)))


def zero_unless(seen: Bool[Array, "*#rows"] | bool, x: Float[Array, "*rows X"]) -> Float[Array, "*rows X"]:
    """x with 0, and no gradient, for the queries that see nothing, or the keys that nobody sees.

    They may hold NaN, and 0 · NaN is NaN: a weight of 0 alone would not keep it out.
    """
    return x if seen is True else torch.where(seen[..., None], x, 0)


def scores(q: Rows, k: Keys, bias: Shift, visible: Visible, buffer: Array | None = None) -> Tile:
    """s = q kᵀ + bias of one tile, −∞ where invisible; q (or k) comes already scaled, the bias already cut."""
    s = matmul(zero_unless(visible.queries, q), k.mT, buffer)
    out = s if s is buffer else None
    if bias is not None:
        s = torch.add(s, bias, out=out)
    if visible.pairs is None:
        return s
    limit = torch.where(visible.pairs, math.inf, -math.inf).to(s.dtype)
    return torch.minimum(s, limit, out=out)  # on a CPU faster than where on s


def bias_in(bias: Array, dtype: torch.dtype) -> Array:
    """The bias in the accumulation dtype; a finite number too large for it stays finite, a shift."""
    if bias.dtype == torch.float64 and dtype != torch.float64:
        largest = torch.finfo(dtype).max
        beyond = bias.isfinite() & (bias.abs() > largest)  # not clamp: at a bound its derivative has been 1 and 0
        bias = torch.where(beyond, bias.sign() * largest, bias)
    return bias.to(dtype)


def visible_tiles(rules: Rules, x: Inputs, part: slice, size: int, axis: int = -1) -> Iterator[tuple[slice, Visible]]:
    """The tiles of keys (axis −1) that a part of the queries sees, or of queries (−2) that see a part of the keys.

    Each begins and ends with a key (a query) that the arrays given may show, and comes with what is visible. It looks
    at the values of a mask, which torch.func.vmap does not tell: for cores that bring their own gradient.
    """
    tiles = rules.band.key_blocks if axis == -1 else rules.band.query_blocks
    shown = shown_positions(x, part, axis)
    for found in tiles(part, size, shown):
        visible = visibility(rules, x, *((part, found) if axis == -1 else (found, part)))
        if shown is None:  # the band alone says what is visible: something of each of its tiles
            yield found, visible
        elif visible.queries is True or anywhere(visible.queries):
            yield found, Visible() if visible.pairs is None or not anywhere(~visible.pairs) else visible


def shown_positions(x: Inputs, part: slice, axis: int) -> bytes | None:
    """A 1 for every key (axis −1) that the arrays given may show to a part of the queries, else 0; or for queries (−2).

    None where no array is given. The arrays are read once. Segments are compared with the range of the part's alone.
    """
    no_head = 0 in x.query.shape[:-2]  # and amax of nothing raises
    if no_head or x.mask is x.bias is x.query_segments is None:
        return None
    length = (x.key if axis == -1 else x.query).shape[-2]
    others = tuple(a for a in range(x.query.ndim) if a != x.query.ndim + axis)
    rows, cols = (part, slice(None)) if axis == -1 else (slice(None), part)
    found = []
    if x.mask is not None:
        found.append(over_tile(x.mask, rows, cols).view(torch.uint8).amax(others).bool())
    if x.bias is not None:
        found.append(over_tile(x.bias, rows, cols).amax(others) != -math.inf)
    if x.query_segments is not None:
        # unsigned integers have no amin
        segments = [over_tile(s, rows, cols).long() for s in (x.query_segments, x.key_segments)]
        ours, theirs = segments if axis == -1 else segments[::-1]
        low, high = ours.amin((-2, -1), keepdim=True), ours.amax((-2, -1), keepdim=True)
        found.append(((low <= theirs) & (theirs <= high)).any(others))
    return functools.reduce(torch.logical_and, found).expand(length).numpy(force=True).tobytes()
