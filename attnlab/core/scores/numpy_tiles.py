"""Which tiles to visit, in NumPy: what a mask, a bias or segments hide is neither read nor computed."""

import functools
from collections.abc import Iterator

import numpy as np

from attnlab.core.arrays.numpy import Visible
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.scores.numpy import over_tile, visibility


def visible_tiles(rules: Rules, x: Inputs, part: slice, size: int, axis: int = -1) -> Iterator[tuple[slice, Visible]]:
    """The tiles of keys (axis −1) that a part of the queries sees, or of queries (−2) that see a part of the keys.

    Each begins and ends with a key (a query) that the arrays given may show, and comes with what is visible, None for
    all of it: then nothing in it is masked.
    """
    tiles = rules.band.key_blocks if axis == -1 else rules.band.query_blocks
    for found in tiles(part, size, shown_positions(x, part, axis)):
        visible = visibility(rules, x, *((part, found) if axis == -1 else (found, part)))
        if visible is None or visible.all():
            yield found, None
        elif visible.any():
            yield found, visible


def shown_positions(x: Inputs, part: slice, axis: int) -> bytes | None:
    """A 1 for every key (axis −1) that the arrays given may show to a part of the queries, else 0; or for queries (−2).

    None where no array is given. The arrays are read once. Segments are compared with the range of the part's alone.
    """
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
    if not found:
        return None
    return np.broadcast_to(functools.reduce(np.logical_and, found), length).tobytes()
