"""Which probabilities dropout keeps, in PyTorch: Threefry on int32, as PyTorch computes little on uint32."""

import math
from functools import partial

from attnlab.core.arrays.torch import Seed, Tile
from attnlab.core.bundle import Rules
from attnlab.core.dropout import PARITY, ROTATIONS
from attnlab.core.geometry import blocks
from attnlab.core.shapes import Bool, Int32

import torch
from torch import Tensor as Array


def drop(p: Tile, seed: Seed, rules: Rules, rows: slice, cols: slice) -> Tile:
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout."""
    if rules.dropout == 0:
        return p
    factor = 0 if rules.dropout == 1 else 1 / (1 - rules.dropout)
    return torch.where(kept(seed, rules.heads, rows, cols, rules.dropout, p.device), p, 0).mul_(factor)


def kept(
    seed: Seed, heads: tuple[int, ...], rows: slice, cols: slice, p: float, device: torch.device
) -> Bool[Array, "*heads R C"]:
    """True where dropout keeps: a pure function of seed, flat head index and (i, j)."""
    integers = partial(torch.arange, dtype=torch.int32, device=device)
    h = integers(math.prod(heads)).reshape((*heads, 1, 1))
    j = integers(cols.start, cols.stop)
    r, c = rows.stop - rows.start, cols.stop - cols.start
    z = torch.empty((*heads, r, c), dtype=torch.bool, device=device)
    for strip in blocks(r, max(2**14 // max(c, 1), 1)):  # a strip at a time: the generator needs scratch
        i = integers(rows.start + strip.start, rows.start + strip.stop)[:, None]
        z[..., strip, :] = _at_least(threefry(int(seed), h, i, j), round(p * 2**32))
    return z


def _at_least(word: Int32[Array, "*shape"], threshold: int) -> Bool[Array, "*shape"]:
    """word ≥ threshold as unsigned numbers: with the sign bit flipped, signed order is unsigned order."""
    if threshold == 2**32:
        return torch.zeros_like(word, dtype=torch.bool)
    return (word ^ -(2**31)) >= threshold - 2**31


def threefry(
    seed: int, h: Int32[Array, "*heads 1 1"], i: Int32[Array, "R 1"], j: Int32[Array, " C"]
) -> Int32[Array, "*heads R C"]:
    """First word of Threefry-2x32 with 20 rounds, key (seed, h), counter (i, j)."""
    seed = seed - 2**32 if seed >= 2**31 else seed  # the int32 of the same 32 bits
    key = (torch.full_like(h, seed), h, h ^ seed ^ PARITY)
    shape = torch.broadcast_shapes(h.shape, i.shape, j.shape)
    x, y = (i + key[0]).expand(shape).clone(), (j + key[1]).expand(shape).clone()
    high = torch.empty_like(y)
    for r in range(20):
        x += y
        torch.bitwise_left_shift(y, ROTATIONS[r % 8], out=high)
        y >>= 32 - ROTATIONS[r % 8]
        y &= 2 ** ROTATIONS[r % 8] - 1  # the shift copied the sign bit
        y |= high
        y ^= x
        if r % 4 == 3:
            n = r // 4 + 1
            x += key[n % 3]
            y += key[(n + 1) % 3] + n
    return x
