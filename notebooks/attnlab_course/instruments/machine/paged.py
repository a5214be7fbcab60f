"""Paged attention: FlashAttention-2 whose block of keys is a page, found through a table.

One sequence: K and V lie in pages of S tokens, in any order, and the table in HBM says which page comes next. Against
keys that lie in a row every page that a block of queries meets costs one element more, its entry in the table:

    forward    what FlashAttention-2 moves in blocks of B_c = S keys, and one element for each tile

Of the last page the tokens that are there are loaded, and no others. Source: Kwon et al. 2023, section 4.1.
"""

import math
from typing import Any

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import Band
from attnlab_course.instruments.machine.flash2 import online_fold
from attnlab_course.instruments.machine.machine import Machine, Ref
from attnlab_course.instruments.machine.options import Program
from attnlab_course.instruments.machine.work import OnChip


@quiet
def paged_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, table: Ref, length: int, *, block_q: int, window: Any = None,
    scale: float | int | None = None,
) -> tuple[Ref, Ref]:
    """O (N, Dv) and lse (N,) of the newest N of ``length`` tokens, which see themselves and what came before.

    ``k`` (P, S, D) and ``v`` (P, S, Dv) are pages, ``table`` (T,) the pages of the sequence in order.
    """
    scale = 1 / math.sqrt(max(q.shape[1], 1)) if scale is None else float(scale)
    rules = Program(machine, Band.of(q.shape[0], length, causal=True, window=window), None, scale, 0.0, None)
    size = k.shape[1]

    def read(_: slice, cols: slice) -> tuple[OnChip, OnChip]:
        (page,) = machine.load(table, slice(cols.start // size, cols.start // size + 1)).tolist()
        part = page, slice(0, cols.stop - cols.start)
        return machine.load(k, part), machine.load(v, part)

    return online_fold(rules, q, v.shape[-1], block_q, size, read)
