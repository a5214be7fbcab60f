"""The sizes of the kernels' tiles: what registers and shared memory hold, in powers of two."""

from typing import Any

from attnlab.core.bundle import Rules, Sizes


def tile_sizes(
    query: Any, value: Any, compared: tuple[bool, bool], rules: Rules, sizes: Sizes, most: tuple[int, int],
    group: int = 1,
) -> tuple[int, int]:
    """Queries and keys of a tile: ``most`` where registers and 96 KiB of shared memory hold them.

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
