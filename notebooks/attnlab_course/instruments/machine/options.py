"""What every program does to a tile of scores: scales them, hides what may not be seen, drops weights.

Options of every program, for one head, with their meaning in all of attnlab: ``causal`` and ``window`` (aligned to the
bottom right, or by ``offset``), ``mask`` (a reference to booleans (N, M) in HBM; its tiles are loaded and counted, a
byte an element), ``segments`` (references to integers (N,) and (M,); each tile loads its parts, and programs in blocks
are told beforehand which tiles have a common segment, and skip the others), ``scale``, ``dropout`` and ``seed``. Hidden
keys and values must be numbers all the same, unless their whole tile is skipped: what attnlab's functions do about NaN
there is left out, for readability.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from attnlab.core.arguments import check_block_mask, check_dropout
from attnlab.core.dropout.numpy import kept
from attnlab.core.geometry import Band, BlockMask
from attnlab.core.scores.numpy import in_band
from attnlab.costs.tiling import paper_blocks, segment_tiles
from attnlab_course.instruments.machine.machine import Machine, OnChip, Ref

import numpy as np


@dataclass(frozen=True)
class Program:
    """The options of one run, checked, and the machine that it runs on."""

    machine: Machine
    band: Band
    mask: Ref | None
    scale: float
    dropout: float
    seed: int | None
    segments: tuple[Ref, Ref] | None = None

    def scores(self, q_i: OnChip, k_j: OnChip, rows: slice, cols: slice) -> OnChip:
        """S_ij = τ q_i k_jᵀ, −∞ where hidden: (R, C), held in SRAM. Loads the tile's mask and segments, if given."""
        s = self.machine.keep("S", q_i @ k_j.T)
        s *= self.scale
        if not self.band.full(rows, cols):
            s[~in_band(self.band, rows, cols)[0, 0]] = -np.inf
        if self.mask is not None:
            s[self.machine.load(self.mask, (rows, cols)) == 0] = -np.inf
        if self.segments is not None:
            ours, theirs = (self.machine.load(ref, part) for ref, part in zip(self.segments, (rows, cols)))
            s[ours[:, None] != theirs] = -np.inf
        return s

    def drop(self, p: OnChip, rows: slice, cols: slice) -> OnChip:
        """p ∘ z / (1 − dropout). z is a function of seed and position: generated as p is read, never stored."""
        if self.dropout == 0:
            return p
        z = kept(self.seed, (), rows, cols, self.dropout).astype(p.dtype)
        return p * z if self.dropout == 1 else p * (z / (1 - self.dropout))


def checked_blocks(
    machine: Machine, q: Ref, k: Ref, block_q: int | None, block_k: int | None, block_mask: Any, **options: Any
) -> tuple[Program, int, int]:
    """The options of a run in tiles, and (B_r, B_c); what ``block_mask`` or segments hide is left out of the band.

    Blocks None are the paper's: B_c = ⌈M / 4D⌉ and B_r = min(B_c, D), with M the elements of SRAM.
    """
    rules = checked_program(machine, q, k, **options)
    if block_q is None or block_k is None:
        if machine.sram.capacity is None:
            raise ValueError("block_q and block_k have no default on a machine without a capacity; give both")
        b_r, b_c = paper_blocks(machine.sram.capacity // machine.itemsize, q.shape[1])
        block_q, block_k = block_q or b_r, block_k or b_c
    if rules.segments is not None:
        shared = segment_tiles(*(machine.fetch(ref).tolist() for ref in rules.segments), block_q, block_k)
        block_mask = np.array(shared, bool) & (True if block_mask is None else block_mask)
    if block_mask is not None:
        tiles = check_block_mask(block_mask, q.shape[0], k.shape[0], block_q, block_k)
        band = dataclasses.replace(rules.band, block_mask=BlockMask(block_q, block_k, tiles))
        rules = dataclasses.replace(rules, band=band)
    return rules, block_q, block_k


def checked_program(
    machine: Machine, q: Ref, k: Ref, *, causal: bool = False, window: Any = None, offset: int | None = None,
    mask: Ref | None = None, segments: tuple[Ref, Ref] | None = None, scale: float | int | None = None,
    dropout: float | int = 0.0, seed: int | None = None,
) -> Program:
    """The options of a run on queries (N, D) and keys (M, D)."""
    band = Band.of(q.shape[0], k.shape[0], causal, window, offset)
    scale = 1 / math.sqrt(max(q.shape[1], 1)) if scale is None else float(scale)
    return Program(machine, band, mask, scale, check_dropout(dropout, seed, "numpy"), seed, segments)
