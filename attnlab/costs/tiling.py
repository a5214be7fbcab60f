"""How many tiles of N queries by M keys are visited, and how large they are together."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.core.geometry import Band, blocks
from attnlab.costs.cost import check_sizes


@dataclass(frozen=True)
class Tiling:
    """Sums over the visited tiles, of r queries by c keys each.

    tiles: their number. rows: Σ r, how often a query meets a block of keys, over all queries. cols: Σ c, the same
    for keys. area: Σ r c, scores computed. keys: keys in blocks that some query meets, which are read at least once.
    """

    n: int
    m: int
    block_q: int
    block_k: int
    tiles: int
    rows: int
    cols: int
    area: int
    keys: int

    @property
    def t_r(self) -> int:
        """Blocks of queries, ⌈N / B_r⌉."""
        return -(-self.n // self.block_q)

    @property
    def t_c(self) -> int:
        """Blocks of keys, ⌈M / B_c⌉."""
        return -(-self.m // self.block_k)


def tiling(
    n: int, m: int, block_q: int, block_k: int, *, causal: bool = False, window: Any = None,
    offset: int | None = None, block_mask: Any = None,
) -> Tiling:
    """The tiles of which something is visible. With every option left out, all: rows = T_c·N, cols = T_r·M, area = N·M.

    ``block_mask``: booleans, T_r lists of T_c or an array, True = visible.
    """
    check_sizes(1, block_q=block_q, block_k=block_k)
    if not causal and window is None and block_mask is None:
        t_r, t_c = -(-n // block_q), -(-m // block_k)
        return Tiling(n, m, block_q, block_k, t_r * t_c, t_c * n, t_r * m, n * m, m if n else 0)
    band = Band.of(n, m, causal, window, offset)
    result = Tiling(n, m, block_q, block_k, 0, 0, 0, 0, 0)
    for cols in blocks(m, block_k):
        seen = [
            rows.stop - rows.start for rows in band.query_blocks(cols, block_q)
            if block_mask is None or block_mask[rows.start // block_q][cols.start // block_k]
        ]  # fmt: skip
        c, r = cols.stop - cols.start, sum(seen)
        result = dataclasses.replace(
            result, tiles=result.tiles + len(seen), rows=result.rows + r, cols=result.cols + c * len(seen),
            area=result.area + r * c, keys=result.keys + (c if seen else 0),
        )  # fmt: skip
    return result


def segment_tiles(
    query_segments: Sequence[int], key_segments: Sequence[int], block_q: int, block_k: int
) -> list[list[bool]]:
    """Which tiles have a common segment, T_r lists of T_c: what ``segments`` leave to be visited, as a block mask."""
    ours, theirs = (
        [set(segments[part]) for part in blocks(len(segments), size)]
        for segments, size in ((query_segments, block_q), (key_segments, block_k))
    )
    return [[not rows.isdisjoint(cols) for cols in theirs] for rows in ours]


def paper_blocks(elements: int, d: int) -> tuple[int, int]:
    """(B_r, B_c) of FlashAttention for an SRAM of ``elements`` numbers: B_c = ⌈M / 4D⌉, B_r = min(B_c, D).

    Source: Dao et al. 2022, algorithm 1. Four arrays share SRAM: K_j and V_j of B_c·D, and Q_i, O_i and S_ij of at most
    B_c·D each. Taken strictly they do not fit: see :func:`attnlab.costs.on_chip_elements`.
    """
    check_sizes(1, elements=elements, d=d)
    b_c = -(-elements // (4 * d))
    return min(b_c, d), b_c
