"""What a Triton kernel gets in the place of arrays and rules: addresses, strides and numbers.

A kernel gets no arrays but addresses. ``Matrices`` says where the element (i, j) of each head's matrix lies: at
start(head) + i · row_stride + j · col_stride. So an array with any strides is read where it is.

The G query heads of a group read the same keys. They are rows of one matrix: row r is query r // G of head r % G, so
that a tile of keys, once loaded, serves all of them.
"""

import functools
import math
from typing import Any, NamedTuple

from attnlab.core import geometry
from attnlab.core.arrays.torch import Mask, Query, Seed, Value
from attnlab.core.bundle import Rules, Sizes

import numpy as np
import torch
from torch import Tensor as Array

try:
    import triton.language as tl
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this part of attnlab needs Triton: pip install triton", name="triton") from error


class Matrices(NamedTuple):
    """An array (*heads, rows, cols), or (*heads, G, N, cols) with G · N rows, as a kernel sees it.

    Strides are counted in units of 8 elements where 8 divides all of them: what is multiplied by a constant 8 the
    compiler knows to be a multiple of it, and it loads 16 bytes at once. It has to know the width as well.
    """

    data: Any
    heads: tuple[int, ...]
    strides: tuple[int, ...]  # of the axes in heads
    group: Any
    group_stride: int
    rows: int
    row_stride: int
    cols: Any
    col_stride: int
    unit: Any


class Dropout(NamedTuple):
    """A probability is kept iff its word is greater than ``highest``, and then multiplied by ``factor``."""

    seed: int
    heads: int  # under vmap, of one example: every example has the same words
    highest: int
    factor: float


Segments = tuple[Array, Array] | None  # of queries (*#batch, 1, 1, #N, 1) and keys (*#batch, 1, 1, 1, #M)


class Table(NamedTuple):
    """A block mask for a kernel: row b says how many tiles the b-th tile meets in full, how many in all, and which."""

    data: Any
    width: int


class KernelRules(NamedTuple):
    """What a call asks for: query i sees key j iff i + offset − left ≤ j ≤ i + offset + right and the next three agree.

    ``rows`` are the G · N rows of a group. A GPU has 2^x only, so the log₂e of e^x = 2^(x log₂e) is in the scale. That
    is positive, and the queries take its ``sign``, None for 1: then the largest score is the largest product, and a
    kernel scales in the exponent: s · scale − m · scale is one operation.
    """

    group: Any
    rows: int
    m: int
    offset: int
    left: int | None
    right: int | None
    mask: Matrices | None
    segments: tuple[Matrices, Matrices] | None  # vectors, of the rows and of the keys
    table: Table | None
    dropout: Dropout | None
    scale: float
    sign: float | None


def matrices(x: Array) -> Matrices:
    """The matrices in the last two axes; nothing is copied."""
    return grouped(x[..., None, :, :])


def grouped(x: Array) -> Matrices:
    """The matrices of (*heads, G, N, cols), those of a group as one."""
    (*heads, group, n, cols), (*strides, col_stride) = x.shape, x.stride()
    unit = math.gcd(8, *(stride for size, stride in zip(x.shape, strides) if size > 1))
    unit = 8 if unit == 8 else 1
    *strides, group_stride, row_stride = (stride // unit for stride in strides)
    group, cols, unit = tl.constexpr(group), tl.constexpr(cols), tl.constexpr(unit)
    return Matrices(x, tuple(heads), tuple(strides), group, group_stride, group * n, row_stride, cols, col_stride, unit)


def vectors(x: Array) -> Matrices:
    """The vectors in the last axis of (*heads, G, N), as matrices of one column."""
    return grouped(x[..., None])


def kernel_rules(
    query: Query, mask: Mask, segments: Segments, seed: Seed, rules: Rules, block_q: int, block_k: int,
    by_keys: bool = False,
) -> KernelRules:
    """The rules of a call, for programs that have a tile of queries or ``by_keys`` a tile of keys."""
    band, group, listed = rules.band, rules.heads[-1], None
    if mask is not None:  # every axis, by strides of 0
        mask = grouped(mask.view(torch.uint8).expand(*query.shape[:-1], band.m))._replace(cols=band.m)
    if segments is not None:  # 64 bits tell all of them apart
        ours, theirs = (x.long() for x in segments)
        ours, theirs = ours[..., 0].expand(query.shape[:-1]), theirs[..., 0, :].expand(*query.shape[:-3], 1, band.m)
        segments = vectors(ours), vectors(theirs)
    if band.block_mask is not None:
        lists = visits(band, group, block_q, block_k, by_keys, query.device)
        listed = Table(lists, lists.shape[-1])
    scale = abs(rules.scale) * math.log2(math.e) or 1.0
    return KernelRules(
        tl.constexpr(group), group * band.n, band.m, band.offset, band.left, band.right, mask, segments, listed,
        dropout(seed, rules), scale, None if rules.scale > 0 else -1.0 if rules.scale < 0 else 0.0,
    )  # fmt: skip


def dropout(seed: Seed, rules: Rules) -> Dropout | None:
    """What a kernel needs to know of dropout. None if dropout drops nothing."""
    dropped = round(rules.dropout * 2**32)
    factor = 0.0 if rules.dropout == 1 else 1 / (1 - rules.dropout)
    return Dropout(int(seed), math.prod(rules.heads), dropped - 1, factor) if dropped else None


@functools.lru_cache(maxsize=32)
def visits(band: geometry.Band, group: int, block_q: int, block_k: int, by_keys: bool, device: torch.device) -> Array:
    """The table of visits, made once and kept on the device. Visits in full need no mask and come first."""
    kind = np.zeros((-(-group * band.n // block_q), -(-band.m // block_k)), np.int8)
    for b in range(len(kind)):
        rows = slice(b * block_q // group, min(-(-(b + 1) * block_q // group), band.n))
        for cols in band.key_blocks(rows, block_k):
            whole = band.full(rows, cols) and cols.stop - cols.start == block_k and (b + 1) * block_q <= group * band.n
            kind[b, cols.start // block_k] = 2 if whole else 1
    kind = kind.T if by_keys else kind
    lists = np.zeros((len(kind), 2 + kind.shape[1]), np.int32)
    for row, met in zip(lists, kind):
        order = np.argsort(-met, kind="stable")
        row[:] = (met == 2).sum(), (met > 0).sum(), *order
    return torch.from_numpy(lists).to(device)


def constants(
    query: Query, value: Value, compared: tuple[bool, bool], rules: Rules, sizes: Sizes, most: tuple[int, int],
    width: int, scores: int,
) -> dict[str, int]:
    """What a kernel is compiled for: its tiles, its warps, its stages.

    It holds sums, ``width`` numbers for each row of the longer side, and so many tiles of ``scores``; ``compared``:
    whether a mask, and whether segments are given.
    """
    block_q, block_k = tile_sizes(query, value, compared, rules, sizes, most, rules.heads[-1])
    registers = max(block_q, block_k) * (width + scores * min(block_q, block_k))
    roomy = query.dtype.itemsize == 2 and max(query.shape[-1], value.shape[-1]) <= 128
    return {
        "BLOCK_Q": block_q,
        "BLOCK_K": block_k,
        "D": padded(query.shape[-1]),
        "DV": padded(value.shape[-1]),
        "num_warps": 4 if registers <= 160 * 128 else 8,  # 160 of the 255 registers of each of 4 · 32 threads
        "num_stages": 3 if roomy else 2,  # the next tile arrives while this one is worked on, if there is room for it
    }


def parts(programs: int, m: int, block_k: int, device: torch.device) -> int:
    """Into how many parts the keys are split: as many as fill the multiprocessors twice, of at least four tiles."""
    wanted = 2 * multiprocessors(device) // max(programs, 1)
    return max(min(wanted, m // (4 * block_k)), 1)


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors a GPU has. The interpreter, which runs one program after the other, counts as one."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def tile_sizes(
    query: Any, value: Any, compared: tuple[bool, bool], rules: Rules, sizes: Sizes, most: tuple[int, int],
    group: int = 1,
) -> tuple[int, int]:
    """Queries and keys of a tile, powers of two: ``most`` where registers and 96 KiB of shared memory hold them.

    Heads beyond 128 halve both, float32 takes a quarter of them; a mask or segments that are ``compared``, and
    dropout, need registers of their own and halve the longer; segments, in 64 bits, leave 32 of the shorter. A tile is
    no longer than its array needs, with the ``group`` query heads of a key as rows, and divides the caller's block.
    """
    block_q, block_k = sizes
    wide = max(query.shape[-1], value.shape[-1]) > 128
    shrink = (2 if wide else 1) * (4 if query.dtype.itemsize == 4 else 1)
    longest = max(most) if not any(compared) and rules.dropout == 0 else max(most) // 2
    shorter = min(longest, 32) if compared[1] else longest
    most_q, most_k = (min(size, longest if size == max(most) else shorter) // shrink for size in most)
    return tile_size(most_q, group * rules.band.n, block_q), tile_size(most_k, rules.band.m, block_k)


def tile_size(most: int, length: int, block: int | None) -> int:
    """A power of two: ``most``, at least 16, but no larger than just holds ``length``, and a divisor of ``block``."""
    most = max(most, 16)
    return min(most, padded(length), most if block is None else block & -block)


def padded(size: int) -> int:
    """The power of two, at least 16, that holds ``size``: tiles have such sizes, and tensor cores multiply 16 by 16."""
    return max(16, 1 << (size - 1).bit_length())
