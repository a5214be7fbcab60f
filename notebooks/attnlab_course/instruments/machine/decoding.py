"""Decoding: one query in each of Hq heads, against a cache of M keys in each of Hk heads, G = Hq / Hk; and pages.

The G query heads of a group are the rows of one tile, so that its keys are read once: FlashAttention-2 whose queries
are heads. With Hk = Hq it is a step of multi-head attention, with Hk = 1 of multi-query attention. Where the keys are
split into P parts, each part is a program of its own, which leaves a summary (o, l, m), and a second program adds those
up, as chunked attention does ("flash-decoding", Dao et al. 2023). In elements:

    decoding    Hk M (D + Dv) + Hq (D + Dv + 1)
    split       Hk M (D + Dv) + Hq (P D + Dv + 1) + 2 P Hq (Dv + 2)

A latent, whose front is the value, leaves out Dv of the first term. The newest key and value are in the cache already.
Where keys lie in pages of S tokens (Kwon et al. 2023, section 4.1), in any order, a table in HBM says which comes next:
what FlashAttention-2 moves in blocks of B_c = S keys, and one element more for each tile. Of the last page the tokens
that are there are loaded, and no others. Derived in notebooks 15, 16, 19 and 24.
"""

import math
from collections.abc import Sequence
from typing import Any

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import Band, blocks
from attnlab_course.instruments.machine.chunked import combine, empty_summaries, summarize
from attnlab_course.instruments.machine.flash2 import online_fold
from attnlab_course.instruments.machine.machine import Machine, OnChip, Ref
from attnlab_course.instruments.machine.options import Program


@quiet
def decoding_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref | int, length: int, *, block_k: int, scale: float | int | None = None
) -> tuple[Ref, Ref]:
    """O (Hq, Dv) and lse (Hq,) of one query a head, q (Hq, D), which sees the first ``length`` slots of a cache.

    ``k`` (Hk, capacity, D), ``v`` (Hk, capacity, Dv); other slots are not read. An int for ``v``: so many numbers in
    front of each key are its value, a latent that is stored, and read, once.
    """
    rules, group = _rules(machine, q, length, scale), q.shape[0] // k.shape[0]

    def read(rows: slice, cols: slice) -> tuple[OnChip, OnChip]:
        part = rows.start // group, cols
        k_j = machine.load(k, part)
        return k_j, k_j[:, :v] if isinstance(v, int) else machine.load(v, part)

    return online_fold(rules, q, v if isinstance(v, int) else v.shape[-1], group, block_k, read)


@quiet
def split_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, parts: Sequence[slice], *, scale: float | int | None = None
) -> tuple[Ref, Ref]:
    """The same, each of ``parts`` of the cache by itself; then their summaries are added, group after group."""
    (heads, _), dv = q.shape, v.shape[2]
    rules, group = _rules(machine, q, k.shape[1], scale), heads // k.shape[0]
    o, lse = machine.empty("O", (heads, dv), q.dtype), machine.empty("lse", (heads,), q.dtype)
    summaries = empty_summaries(machine, len(parts), group, dv, q.dtype)
    for head, rows in enumerate(blocks(heads, group)):
        for c, cols in enumerate(parts):
            with machine.scope():  # a program of its own: it shares nothing on chip with the others
                q_i, k_j, v_j = machine.load(q, rows), machine.load(k, (head, cols)), machine.load(v, (head, cols))
                summarize(rules, summaries, c, q_i, k_j, v_j, rows, cols)
        combine(machine, summaries, len(parts), o, lse, rows)
    return o, lse


@quiet
def paged_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, table: Ref, length: int, *, block_q: int, window: Any = None,
    scale: float | int | None = None,
) -> tuple[Ref, Ref]:
    """O (N, Dv) and lse (N,) of the newest N of ``length`` tokens, which see themselves and what came before.

    ``k`` (P, S, D) and ``v`` (P, S, Dv) are pages, ``table`` (T,) the pages of the sequence in order.
    """
    rules, size = _rules(machine, q, length, scale, causal=True, window=window), k.shape[1]

    def read(_: slice, cols: slice) -> tuple[OnChip, OnChip]:
        (page,) = machine.load(table, slice(cols.start // size, cols.start // size + 1)).tolist()
        part = page, slice(0, cols.stop - cols.start)
        return machine.load(k, part), machine.load(v, part)

    return online_fold(rules, q, v.shape[-1], block_q, size, read)


def _rules(machine: Machine, q: Ref, length: int, scale: float | int | None, **band: Any) -> Program:
    """Every row of q sees ``length`` keys, or those of them that the ``band`` leaves; none is hidden otherwise."""
    scale = 1 / math.sqrt(max(q.shape[1], 1)) if scale is None else float(scale)
    return Program(machine, Band.of(q.shape[0], length, **band), None, scale, 0.0, None)
