"""Which tiles to visit, in PyTorch: what a mask, a bias or segments hide is neither read nor computed.

It looks at the values of a mask, which torch.func.vmap does not tell: for cores that bring their own gradient.
"""

import functools
import math
from collections.abc import Iterator

from attnlab.core.arrays.torch import Visible, anywhere
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.scores.torch import over_tile, visibility

import torch


def visible_tiles(rules: Rules, x: Inputs, part: slice, size: int, axis: int = -1) -> Iterator[tuple[slice, Visible]]:
    """The tiles of keys (axis −1) that a part of the queries sees, or of queries (−2) that see a part of the keys.

    Each begins and ends with a key (a query) that the arrays given may show, and comes with what is visible, None for
    all of it: then nothing in it is masked.
    """
    tiles = rules.band.key_blocks if axis == -1 else rules.band.query_blocks
    for found in tiles(part, size, shown_positions(x, part, axis)):
        visible = visibility(rules, x, *((part, found) if axis == -1 else (found, part)))
        if visible is None or visible.numel() == 0 or not anywhere(~visible):
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
