"""Integer geometry of tiles: which keys a block of queries sees, and which tiles to visit.

Array-free. ``rows`` and ``cols`` are slices of query and key positions. The last block of a
length that no block size divides is simply shorter.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attnlab.core.arguments import window_sides

TRACED = "traced"
"""The offset of a band whose place is data: JAX puts it there, by ``attnlab.core.arrays.jax_blocks.placed``."""


@dataclass(frozen=True)
class BlockMask:
    """Which tiles are visible at all: ``tiles[i][j]`` for the i-th block of queries and the j-th of keys."""

    block_q: int
    block_k: int
    tiles: tuple[tuple[bool, ...], ...]

    def shows(self, rows: slice, cols: slice) -> bool:
        """Whether the tile that begins where ``rows`` and ``cols`` begin is visible."""
        return self.tiles[rows.start // self.block_q][cols.start // self.block_k]


@dataclass(frozen=True)
class Band:
    """What ``causal``, ``window`` and a block mask leave visible of N queries by M keys.

    Query i sees key j iff  i + offset − left ≤ j ≤ i + offset + right;  None is unbounded. ``offset`` is the key
    position under query 0; by default M − N, which aligns the last query with the last key. Causal is right = 0.
    So a band lies between two diagonals, i + low ≤ j ≤ i + high. ``block_mask`` hides whole tiles besides.
    """

    n: int
    m: int
    left: Any = None  # an integer or None; data where the offset is
    right: Any = None
    offset: Any = None
    block_mask: BlockMask | None = None

    def __post_init__(self) -> None:
        if self.offset is None:
            object.__setattr__(self, "offset", self.m - self.n)

    @classmethod
    def of(cls, n: int, m: int, causal: bool = False, window: Any = None, offset: Any = None) -> "Band":
        """The band of a call. A side that hides nothing is unbounded, and no diagonal lies beyond [−N, M]."""
        left, right = window_sides(window)
        if causal:
            right = 0 if right is None else min(right, 0)
        if offset == TRACED:
            return cls(n, m, left, right, TRACED)
        offset = m - n if offset is None else offset
        low, place, high = (min(max(offset + d, -n), m) for d in (-(left or 0), 0, right or 0))
        left = None if left is None or low <= 1 - n else place - low
        right = None if right is None or high >= m - 1 else high - place
        return cls(n, m, left, right, place)

    @property
    def low(self) -> Any:
        """Query i sees no key before i + low; None is unbounded."""
        return None if self.left is None else self.offset - self.left

    @property
    def high(self) -> Any:
        """Query i sees no key after i + high; None is unbounded."""
        return None if self.right is None else self.offset + self.right

    def keys(self, rows: slice) -> tuple[Any, Any]:
        """First key and one past the last key that any of ``rows`` sees, before clipping to [0, M]."""
        first = 0 if self.low is None else rows.start + self.low
        last = self.m if self.high is None else rows.stop + self.high
        return first, last

    def queries(self, cols: slice) -> tuple[Any, Any]:
        """First query and one past the last query that sees any of ``cols``, before clipping to [0, N]."""
        first = 0 if self.high is None else cols.start - self.high
        last = self.n if self.low is None else cols.stop - self.low
        return first, last

    def full(self, rows: slice, cols: slice) -> bool:
        """Whether every query of ``rows`` sees every key of ``cols``."""
        right = self.high is None or cols.stop - 1 <= rows.start + self.high
        left = self.low is None or cols.start >= rows.stop - 1 + self.low
        return left and right

    def meets_all(self, rows: slice, cols: slice) -> bool:
        """Whether every query of ``rows`` sees some key of ``cols``, and every key is seen: no corner is out of it."""
        right = self.high is None or max(cols.start - rows.start, cols.stop - rows.stop) <= self.high
        left = self.low is None or min(cols.start - rows.start, cols.stop - rows.stop) >= self.low
        return left and right

    def key_blocks(self, rows: slice, size: int, shown: bytes | None = None) -> Iterator[slice]:
        """The blocks of keys of which ``rows`` see something; hidden tiles are skipped.

        ``shown`` says which keys other rules show, a byte a key, 1 or 0: a block then begins and ends with one of them.
        """
        tiles = blocks(self.m, size, *self.keys(rows))
        mask = self.block_mask
        return trim((cols for cols in tiles if mask is None or mask.shows(rows, cols)), shown)

    def query_blocks(self, cols: slice, size: int, shown: bytes | None = None) -> Iterator[slice]:
        """The blocks of queries that see something of ``cols``; ``shown`` says which queries other rules show."""
        tiles = blocks(self.n, size, *self.queries(cols))
        mask = self.block_mask
        return trim((rows for rows in tiles if mask is None or mask.shows(rows, cols)), shown)


def blocks(length: int, size: int, first: int = 0, last: int | None = None) -> Iterator[slice]:
    """Cut range(length) into blocks of ``size``; yield those that meet [first, last)."""
    first = max(first, 0)
    last = length if last is None else min(last, length)
    for start in range(first // size * size if first < last else last, last, size):
        yield slice(start, min(start + size, length))


def trim(parts: Iterator[slice], shown: bytes | None) -> Iterator[slice]:
    """Trim each part of an axis to the positions that ``shown`` marks with 1; drop parts without any."""
    for part in parts:
        if shown is None:
            yield part
        elif (first := shown.find(1, part.start, part.stop)) >= 0:
            yield slice(first, shown.rfind(1, part.start, part.stop) + 1)


def tile_sizes(
    heads: tuple[int, ...], block_q: int | None, block_k: int | None, *, band: Band | None = None, itemsize: int = 4,
    longest: int = 4096, small: bool = False,
) -> tuple[int, int]:
    """Block sizes of the tiled algorithm, ``heads`` = (*batch, Hk, G): 512 rows of queries by 512 keys.

    The G heads of a group share the rows. The tiles of float32 scores of all key heads should stay in a shared cache
    of 8 MiB while they're worked on, so beyond 8 heads (but see ``by_heads_in_cache``) the rows are halved, down to
    128. A single query has few scores and takes ``longest`` keys, in the same proportion fewer beyond 8 heads. It
    doesn't where a window hides keys on the left, or where keys of ``itemsize`` bytes are copied to widen them.
    ``small`` tiles are at most 256 by 256, where many of the others would be half hidden: on a short diagonal, or where
    one of several documents, told apart by segments, ends and another begins.
    """
    known = [size for size in heads[:-1] if isinstance(size, int)]  # others are symbols, as in jax.export
    rows = 2**21 // (512 * max(math.prod(known), 1))
    rows = 2 ** (min(max(rows, 128), 512).bit_length() - 1)
    if block_k is None and band is not None and band.n == 1 and band.left is None and itemsize >= 4:
        block_k = longest * rows // 512
    rows = min(rows, 256) if small else rows
    return block_q or max(rows // heads[-1], 1), block_k or (256 if small else 512)


def short_causal(band: Band) -> bool:
    """Whether tiles of 512 by 512 would be so few that those on the diagonal are most of them."""
    return band.right is not None and all(isinstance(x, int) and 256 < x <= 2048 for x in (band.n, band.m))


def gradient_tile_sizes(
    heads: tuple[int, ...], block_q: int | None, block_k: int | None, *, small: bool = False
) -> tuple[int, int]:
    """Block sizes of the tiled gradient: half the scores of :func:`tile_sizes`, as p, dp and ds are alive at once."""
    rows, block_k = tile_sizes(heads, None, block_k, small=small)
    return block_q or max(rows if small else rows // 2, 1), block_k


def chunk_sizes(m: int, dv: int, query_chunk: int | None, key_chunk: int | None) -> tuple[int, int]:
    """Chunk sizes of the chunked algorithm: 256 queries by about √(M (Dv + 2)) keys.

    A summary of a key chunk costs Dv + 2 numbers a query, a score costs one: the sum
    Ck + (M / Ck)(Dv + 2) is least at Ck = √(M (Dv + 2)), here rounded to a power of two.
    """
    m = m if isinstance(m, int) else 2**14  # a symbol, as in jax.export
    best = 2 ** round(math.log2(max(m * (dv + 2), 1)) / 2)
    return query_chunk or 256, key_chunk or best
