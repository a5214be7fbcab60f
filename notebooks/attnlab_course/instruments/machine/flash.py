"""FlashAttention: algorithms 1 (forward; 2 is 1 with masking and dropout) and 4 (backward) of Dao et al. 2022.

With ``block_mask`` algorithm 5, block-sparse FlashAttention, and its backward: booleans (T_r, T_c), True = visible.
They are part of the program, not of HBM, and are not counted.

Keys outside, queries inside: a block of K and V is loaded once and visited by every block of Q; O, l and m travel
between HBM and chip at every visit. With T_c = ⌈M / B_c⌉ blocks of keys, D = Dv and every tile visible, in elements:

    forward    2MD + T_c (3ND + 4N)      and fills of O, l, m:  ND + 2N
    backward   4MD + T_c (5ND + 2N)      and fills of dQ:       ND

Blocks by default are the paper's, B_c = ⌈M / 4D⌉ and B_r = min(B_c, D), M being the elements that SRAM has. They do
not quite fit a strict capacity: see attnlab.costs.on_chip_elements. Tiles hidden by ``causal``, ``window`` or
``block_mask`` are skipped, and keys that no query sees are not loaded. With a share s of tiles visible this moves about
s of what all would move, plus K, V and their gradients once. Numbers in comments are the lines of algorithm 1 in
the paper. Derived in notebooks 08 to 11.
"""

from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import blocks
from attnlab.softmax.numpy import one_if_empty, zero_if_empty
from attnlab_course.instruments.machine.machine import Machine, OnChip, Ref
from attnlab_course.instruments.machine.options import Program, checked_blocks

import numpy as np


@quiet
def flash_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, *, block_q: int | None = None, block_k: int | None = None,
    block_mask: np.ndarray | None = None, **options: Any,
) -> tuple[Ref, Ref, Ref]:
    """Algorithm 1, or 2 with a mask or dropout: O (N, Dv), l (N,), m (N,). A row that sees no key has 0, 0, −∞."""
    rules, block_q, block_k = checked_blocks(machine, q, k, block_q, block_k, block_mask, **options)
    results = start(machine, q, v)  # 2
    for cols in blocks(k.shape[0], block_k):  # 5
        if seen := list(rules.band.query_blocks(cols, block_q)):
            with machine.scope():
                k_j, v_j = machine.load(k, cols), machine.load(v, cols)  # 6
                for rows in seen:  # 7
                    forward_step(rules, (q, *results), k_j, v_j, rows, cols)
    return results


def start(machine: Machine, q: Ref, v: Ref) -> tuple[Ref, Ref, Ref]:
    """O = 0, l = 0, m = −∞ in HBM."""
    n, dv = q.shape[0], v.shape[1]
    o = machine.full("O", (n, dv), 0.0, q.dtype)
    return o, machine.full("l", (n,), 0.0, q.dtype), machine.full("m", (n,), -np.inf, q.dtype)


def forward_step(
    rules: Program, arrays: tuple[Ref, Ref, Ref, Ref], k_j: OnChip, v_j: OnChip, rows: slice, cols: slice
) -> None:
    """The inner loop of algorithm 1: one block of queries visits the keys on chip. Arrays: Q, O, l, m."""
    machine, (q, o, l, m) = rules.machine, arrays
    with machine.scope():
        q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))  # 8
        p = rules.scores(q_i, k_j, rows, cols)  # 9
        m_tile = machine.keep("m̃", p.max(1))  # 10
        p -= zero_if_empty(m_tile)[:, None]
        np.exp(p, out=p)
        l_tile = machine.keep("l̃", p.sum(1))

        m_next = machine.keep("m'", np.maximum(m_i, m_tile))  # 11
        alpha = np.exp(m_i - zero_if_empty(m_next), out=m_i)  # α overwrites m, β overwrites m̃
        beta = np.exp(m_tile - zero_if_empty(m_next), out=m_tile)
        l_next = machine.keep("l'", alpha * l_i + beta * l_tile)

        o_i *= (l_i * alpha)[:, None]  # 12: O is stored divided by l; undo that, bring both to the new maximum,
        p *= beta[:, None]
        o_i += rules.drop(p, rows, cols) @ v_j
        o_i /= one_if_empty(l_next)[:, None]  # add, and divide again
        machine.store(o, rows, o_i)
        machine.store(l, rows, l_next)  # 13
        machine.store(m, rows, m_next)


@quiet
def flash_backward(
    machine: Machine, q: Ref, k: Ref, v: Ref, o: Ref, l: Ref, m: Ref, do: Ref, *,
    block_q: int | None = None, block_k: int | None = None, block_mask: np.ndarray | None = None, **options: Any,
) -> tuple[Ref, Ref, Ref]:
    """Algorithm 4: dQ (N, D), dK (M, D) and dV (M, Dv), from what the forward returned and the gradient dO of O."""
    rules, block_q, block_k = checked_blocks(machine, q, k, block_q, block_k, block_mask, **options)
    return gradients(rules, (q, o, l, m, do), k, v, block_q, block_k, backward_step)


def gradients(
    rules: Program, arrays: tuple[Ref, ...], k: Ref, v: Ref, block_q: int, block_k: int, step: Callable
) -> tuple[Ref, Ref, Ref]:
    """dQ, dK and dV: keys outside, whose gradients stay on chip, and a ``step`` for each block of the ``arrays``."""
    machine, q = rules.machine, arrays[0]
    dq = machine.full("dQ", q.shape, 0.0, q.dtype)
    dk, dv = machine.empty("dK", k.shape, q.dtype), machine.empty("dV", v.shape, q.dtype)
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            shapes = [(cols.stop - cols.start, x.shape[1]) for x in (k, v)]
            dk_j, dv_j = (machine.keep(f"d{x}", np.zeros(shape, q.dtype)) for x, shape in zip("KV", shapes))
            if seen := list(rules.band.query_blocks(cols, block_q)):
                k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                for rows in seen:
                    step(rules, (*arrays, dq), (k_j, v_j, dk_j, dv_j), rows, cols)
            machine.store(dk, cols, dk_j)
            machine.store(dv, cols, dv_j)
    return dq, dk, dv


def backward_step(
    rules: Program, arrays: tuple[Ref, ...], keys: tuple[OnChip, OnChip, OnChip, OnChip], rows: slice, cols: slice
) -> None:
    """The inner loop of algorithm 4. Arrays: Q, O, l, m, dO, dQ; keys: K_j, V_j, dK_j, dV_j, on chip."""
    machine, (k_j, v_j, dk_j, dv_j), dq = rules.machine, keys, arrays[-1]
    with machine.scope():
        q_i, o_i, l_i, m_i, do_i, dq_i = (machine.load(x, rows) for x in arrays)
        p = rules.scores(q_i, k_j, rows, cols)
        p -= zero_if_empty(m_i)[:, None]
        np.exp(p, out=p)
        p /= one_if_empty(l_i)[:, None]
        dv_j += rules.drop(p, rows, cols).T @ do_i
        ds = machine.keep("dP", rules.drop(do_i @ v_j.T, rows, cols))
        delta = machine.keep("Δ", (do_i * o_i).sum(1))  # = rowsum(P ∘ dP) over all keys, not this tile's alone
        ds -= delta[:, None]
        ds *= p
        ds *= rules.scale
        dq_i += ds @ k_j
        machine.store(dq, rows, dq_i)
        dk_j += ds.T @ q_i
