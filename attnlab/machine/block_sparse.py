"""Block-sparse FlashAttention, algorithm 5 of Dao et al. 2022, and its backward pass.

Algorithms 2 and 4 but for one line: a tile that the block mask hides is skipped, neither loaded nor computed. With
a share s of tiles visible this moves about s of what they move, plus K, V and their gradients once.

``block_mask``: booleans (T_r, T_c), True = visible, for T_r = ⌈N / B_r⌉ blocks of queries and T_c = ⌈M / B_c⌉ blocks of
keys. It is part of the program, not of HBM, and is not counted. All other options hold as well. Notebook 11.
"""

from typing import Any

from attnlab.machine.flash import backward_step, forward_step, start
from attnlab.machine.machine import Machine, Ref
from attnlab.machine.options import block_sizes, prepare
from attnlab.arrays.numpy import quiet
from attnlab.geometry import Band, blocks

import numpy as np


@quiet
def block_sparse_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, block_mask: np.ndarray, *,
    block_q: int | None = None, block_k: int | None = None, **options: Any,
) -> tuple[Ref, Ref, Ref]:
    """Algorithm 5: O (N, Dv), l (N,) and m (N,). A query that sees no key has O = 0, l = 0, m = −∞."""
    rules = prepare(machine, q, k, **options)
    block_q, block_k = block_sizes(machine, q.shape[1], block_q, block_k)
    results = start(machine, q, v)
    for cols in blocks(k.shape[0], block_k):
        if seen := visible_rows(rules.band, block_mask, cols, block_q, block_k):
            with machine.scope():
                k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                for rows in seen:
                    forward_step(rules, (q, *results), k_j, v_j, rows, cols)
    return results


@quiet
def block_sparse_backward(
    machine: Machine, q: Ref, k: Ref, v: Ref, o: Ref, l: Ref, m: Ref, do: Ref, block_mask: np.ndarray, *,
    block_q: int | None = None, block_k: int | None = None, **options: Any,
) -> tuple[Ref, Ref, Ref]:
    """dQ (N, D), dK (M, D) and dV (M, Dv). Keys that no query sees are not loaded; their gradients, 0, are stored."""
    rules = prepare(machine, q, k, **options)
    block_q, block_k = block_sizes(machine, q.shape[1], block_q, block_k)
    dq = machine.full("dQ", q.shape, 0.0, q.dtype)
    dk, dv = machine.empty("dK", k.shape, q.dtype), machine.empty("dV", v.shape, q.dtype)
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            shapes = [(cols.stop - cols.start, x.shape[1]) for x in (k, v)]
            dk_j, dv_j = (machine.keep(f"d{x}", np.zeros(shape, q.dtype)) for x, shape in zip("KV", shapes))
            if seen := visible_rows(rules.band, block_mask, cols, block_q, block_k):
                k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                for rows in seen:
                    backward_step(rules, (q, o, l, m, do, dq), (k_j, v_j, dk_j, dv_j), rows, cols)
            machine.store(dk, cols, dk_j)
            machine.store(dv, cols, dv_j)
    return dq, dk, dv


def visible_rows(band: Band, block_mask: np.ndarray, cols: slice, block_q: int, block_k: int) -> list[slice]:
    """The blocks of queries that see something of the block of keys ``cols``."""
    shape = -(-band.n // block_q), -(-band.m // block_k)
    if block_mask.shape != shape:
        raise ValueError(f"block_mask has shape {block_mask.shape}; {band.n} queries by {band.m} keys need {shape}")
    return [
        rows for rows in band.query_blocks(cols, block_q)
        if block_mask[rows.start // block_q, cols.start // block_k]
    ]  # fmt: skip
