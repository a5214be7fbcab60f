"""One tile of scores, and which tiles to visit, in PyTorch."""

import functools
import math
from collections.abc import Iterator

from attnlab.core.arrays.torch import Keys, Rows, Shift, Tile, Values, Visible
from attnlab.core.arrays.torch import accumulator, anywhere, matmul
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import Band
from attnlab.core.shapes import Bool

import torch
from torch import Tensor as Array


def tile(rules: Rules, x: Inputs, rows: slice, cols: slice) -> tuple[Keys, Values, Shift, Visible]:
    """What one tile reads from memory besides its queries: k, v and bias, and what is visible."""
    visible = visibility(rules, x, rows, cols)
    return *read(x, rows, cols, visible), visible


def read(
    x: Inputs, rows: slice, cols: slice, visible: Visible, narrow: bool = False
) -> tuple[Keys, Values, Shift]:
    """k, v and bias of a tile; ``visible`` says what its queries see. ``narrow``: k and v are not yet widened."""
    k, v = (widen_or_zero(y[..., cols, :], visible, narrow) for y in (x.key, x.value))
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
    """True where query i sees key j; None where no rule touches the tile: a mask is returned even if it hides nothing.

    No axis is expanded.
    """
    visible = [in_band(rules.band, rows, cols, x.key.device)]
    if x.mask is not None:
        visible.append(over_tile(x.mask, rows, cols))
    if x.bias is not None:
        visible.append(over_tile(x.bias, rows, cols) != -math.inf)
    if x.query_segments is not None:
        visible.append(over_tile(x.query_segments, rows, cols) == over_tile(x.key_segments, rows, cols))
    visible = [rule for rule in visible if rule is not None]
    return functools.reduce(torch.logical_and, visible) if visible else None


def in_band(band: Band, rows: slice, cols: slice, device: torch.device) -> Visible:
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


def widen_or_zero(x: Keys, visible: Visible, narrow: bool = False) -> Keys:
    """A tile of K or V in the accumulation dtype, or ``narrow`` as it is; keys that no query of the tile sees become 0.

    A hidden key may hold NaN, and 0 · NaN is NaN: a weight of 0 alone would not keep it out.
    """
    x = x if narrow else x.to(accumulator(x))
    return x if visible is None else torch.where(anywhere(visible, (-3, -2))[..., None], x, 0)


def any_visible(visible: Visible) -> Bool[Array, "*#batch #Hk #G #R"] | bool:
    """True where a query sees any key of the tile."""
    return True if visible is None else anywhere(visible, -1)


def zero_unless(seen: Bool[Array, "*#batch #Hk #G #R"] | bool, x: Rows) -> Rows:
    """x with 0 for the queries that see nothing, which may hold NaN, and no gradient for them."""
    return x if seen is True else torch.where(seen[..., None], x, 0)


def scores(q: Rows, k: Keys, bias: Shift, visible: Visible, buffer: Array | None = None) -> Tile:
    """s = q kᵀ + bias of one tile, −∞ where invisible; q (or k) comes already scaled, the bias already cut."""
    s = matmul(zero_unless(any_visible(visible), q), k.mT, buffer)
    out = s if s is buffer else None
    if bias is not None:
        s = torch.add(s, bias, out=out)
    if visible is None:
        return s
    limit = torch.where(visible, math.inf, -math.inf).to(s.dtype)
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

    Each begins and ends with a key (a query) that the arrays given may show, and comes with what is visible, None for
    all of it: then nothing in it is masked. It looks at the values of a mask, which torch.func.vmap does not tell: for
    cores that bring their own gradient.
    """
    tiles = rules.band.key_blocks if axis == -1 else rules.band.query_blocks
    shown = shown_positions(x, part, axis)
    for found in tiles(part, size, shown):
        visible = visibility(rules, x, *((part, found) if axis == -1 else (found, part)))
        if shown is None:  # the band alone says what is visible: something of each of its tiles
            yield found, visible
        elif visible is None or visible.numel() == 0 or not anywhere(~visible):
            yield found, None
        elif anywhere(visible):
            yield found, visible


def shown_positions(x: Inputs, part: slice, axis: int) -> bytes | None:
    """A 1 for every key (axis −1) that the arrays given may show to a part of the queries, else 0; or for queries (−2).

    None where no array is given. The arrays are read once. Segments are compared with the range of the part's alone.
    """
    length = (x.key if axis == -1 else x.query).shape[-2]
    others = tuple(a for a in range(x.query.ndim) if a != x.query.ndim + axis)
    rows, cols = (part, slice(None)) if axis == -1 else (slice(None), part)
    found = []
    if 0 in x.query.shape[:-2]:  # no head, and amax of nothing raises
        return None
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
    if not found:
        return None
    return functools.reduce(torch.logical_and, found).expand(length).numpy(force=True).tobytes()
