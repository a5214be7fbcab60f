"""FlashAttention-2 (Dao 2023, algorithms 1 and 2): queries outside, one division at the end.

A block of queries and its O, l and m stay on chip while all keys pass by, so that no intermediate result ever
reaches HBM; the backward keeps keys outside, where dK and dV stay on chip. With T_r = ⌈N / B_r⌉, T_c = ⌈M / B_c⌉,
D = Dv and every tile visible, in elements:

    forward    2ND + N + 2 T_r MD
    backward   4MD + T_c (4ND + 2N) + 2ND + N     and fills of dQ: ND

Against algorithm 2 a pass moves two arrays instead of three: two thirds of the bytes for equally many passes.
The backward computes Δ = rowsum(dO ∘ O) once, and reads O no more. Tiles hidden by ``causal``, ``window`` or
``block_mask`` are skipped, as in attnlab_course.instruments.machine.flash.
"""

from collections.abc import Callable
from typing import Any

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import blocks
from attnlab.softmax.numpy import one_if_empty, zero_if_empty
from attnlab_course.instruments.machine.flash import gradients
from attnlab_course.instruments.machine.machine import Machine, OnChip, Ref
from attnlab_course.instruments.machine.options import Program, checked_blocks

import numpy as np


@quiet
def flash2_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, *, block_q: int | None = None, block_k: int | None = None,
    block_mask: np.ndarray | None = None, **options: Any,
) -> tuple[Ref, Ref]:
    """O (N, Dv) and lse (N,). A query that sees no key has O = 0 and lse = −∞."""
    rules, block_q, block_k = checked_blocks(machine, q, k, block_q, block_k, block_mask, **options)
    return online_fold(
        rules, q, v.shape[-1], block_q, block_k, lambda _, cols: (machine.load(k, cols), machine.load(v, cols))
    )


def online_fold(
    rules: Program, q: Ref, dv: int, block_q: int, block_k: int, read: Callable[[slice, slice], tuple[OnChip, OnChip]]
) -> tuple[Ref, Ref]:
    """The forward, O and lse; ``read`` loads K_j and V_j for rows and columns of a tile, wherever they lie."""
    machine, n = rules.machine, q.shape[0]
    o, lse = machine.empty("O", (n, dv), q.dtype), machine.empty("lse", (n,), q.dtype)
    for rows in blocks(n, block_q):
        with machine.scope():
            q_i, r = machine.load(q, rows), rows.stop - rows.start
            o_i = machine.keep("O", np.zeros((r, dv), q.dtype))
            l_i, m_i = machine.keep("l", np.zeros(r, q.dtype)), machine.keep("m", np.full(r, -np.inf, q.dtype))
            for cols in rules.band.key_blocks(rows, block_k):
                with machine.scope():
                    k_j, v_j = read(rows, cols)
                    _fold(rules, (q_i, o_i, l_i, m_i), k_j, v_j, rows, cols)
            o_i /= one_if_empty(l_i)[:, None]
            m_i += np.log(l_i)
            machine.store(o, rows, o_i)
            machine.store(lse, rows, m_i)
    return o, lse


def _fold(
    rules: Program, state: tuple[OnChip, OnChip, OnChip, OnChip], k_j: OnChip, v_j: OnChip, rows: slice, cols: slice
) -> None:
    """One step of the online fold, in place; nothing but K_j and V_j came from HBM. State: Q_i, O_i, l_i, m_i."""
    q_i, o_i, l_i, m_i = state
    p = rules.scores(q_i, k_j, rows, cols)
    m_next = rules.machine.keep("m'", np.maximum(m_i, p.max(1)))
    p -= zero_if_empty(m_next)[:, None]
    np.exp(p, out=p)
    alpha = np.exp(m_i - zero_if_empty(m_next), out=m_i)  # the factor overwrites m, which is needed no more
    l_i *= alpha
    l_i += p.sum(1)
    o_i *= alpha[:, None]
    o_i += rules.drop(p, rows, cols) @ v_j
    m_i[:] = m_next


@quiet
def flash2_backward(
    machine: Machine, q: Ref, k: Ref, v: Ref, o: Ref, lse: Ref, do: Ref, *,
    block_q: int | None = None, block_k: int | None = None, block_mask: np.ndarray | None = None, **options: Any,
) -> tuple[Ref, Ref, Ref]:
    """dQ (N, D), dK (M, D) and dV (M, Dv), from what the forward returned and the gradient dO of O."""
    rules, block_q, block_k = checked_blocks(machine, q, k, block_q, block_k, block_mask, **options)
    delta = machine.empty("Δ", o.shape[:1], o.dtype)
    for rows in blocks(o.shape[0], block_q):  # rowsum(dO ∘ O): a pass of its own
        with machine.scope():
            machine.store(delta, rows, machine.keep("Δ", (machine.load(do, rows) * machine.load(o, rows)).sum(1)))
    return gradients(rules, (q, lse, delta, do), k, v, block_q, block_k, _backward_step)


def _backward_step(
    rules: Program, arrays: tuple[Ref, ...], keys: tuple[OnChip, OnChip, OnChip, OnChip], rows: slice, cols: slice
) -> None:
    """One tile of the gradient. Arrays: Q, lse, Δ, dO, dQ; keys: K_j, V_j, dK_j, dV_j, on chip."""
    machine, (k_j, v_j, dk_j, dv_j), dq = rules.machine, keys, arrays[-1]
    with machine.scope():
        q_i, lse_i, delta_i, do_i, dq_i = (machine.load(x, rows) for x in arrays)
        p = rules.scores(q_i, k_j, rows, cols)
        p -= zero_if_empty(lse_i)[:, None]
        np.exp(p, out=p)
        dv_j += rules.drop(p, rows, cols).T @ do_i
        ds = machine.keep("dP", rules.drop(do_i @ v_j.T, rows, cols))
        ds -= delta_i[:, None]
        ds *= p
        ds *= rules.scale
        dq_i += ds @ k_j
        machine.store(dq, rows, dq_i)
        dk_j += ds.T @ q_i
