"""Standard attention, which writes S and P to HBM: algorithms 0 (forward) and 3 (backward) of Dao et al. 2022.

Each step streams rows of an N×M matrix past one operand of M rows that stays on chip, so that it moves every array
once. That is the least that these algorithms can move: a larger SRAM saves nothing, a smaller one than the
operand would cost more.

    forward   4NM + (2N + 2M)D elements for D = Dv        backward   7NM + (4N + 4M)D
"""

from typing import Any

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import blocks
from attnlab.softmax.numpy import one_if_empty, zero_if_empty
from attnlab_course.instruments.machine.machine import Machine, Ref
from attnlab_course.instruments.machine.options import Program, checked_program

import numpy as np


@quiet
def standard_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, *, block_q: int = 128, **options: Any
) -> tuple[Ref, Ref]:
    """Algorithm 0: O (N, Dv) and P (N, M), before dropout, which the backward pass needs."""
    rules = checked_program(machine, q, k, **options)
    (n, _), (m, dv) = q.shape, v.shape
    s, p = machine.empty("S", (n, m), q.dtype), machine.empty("P", (n, m), q.dtype)
    o = machine.empty("O", (n, dv), q.dtype)
    every_key = slice(0, m)

    with machine.scope():  # load Q and K, write S
        k_all = machine.load(k)
        for rows in blocks(n, block_q):
            with machine.scope():
                q_i = machine.load(q, rows)
                machine.store(s, rows, rules.scores(q_i, k_all, rows, every_key))

    for rows in blocks(n, block_q):  # load S, write P
        with machine.scope():
            p_i = machine.load(s, rows)
            p_i -= zero_if_empty(p_i.max(1, initial=-np.inf))[:, None]
            np.exp(p_i, out=p_i)
            p_i /= one_if_empty(p_i.sum(1))[:, None]
            machine.store(p, rows, p_i)

    _product(machine, o, p, v, block_q, rules)  # load P and V, write O
    return o, p


@quiet
def standard_backward(
    machine: Machine, q: Ref, k: Ref, v: Ref, p: Ref, do: Ref, *, block_q: int = 128, **options: Any
) -> tuple[Ref, Ref, Ref]:
    """Algorithm 3: dQ (N, D), dK (M, D) and dV (M, Dv), from P and the gradient dO of O."""
    rules = checked_program(machine, q, k, **options)
    dp, ds = machine.empty("dP", p.shape, q.dtype), machine.empty("dS", p.shape, q.dtype)
    dq, dk, dv = (machine.empty(f"d{x}", ref.shape, q.dtype) for x, ref in (("Q", q), ("K", k), ("V", v)))

    _product_over_rows(machine, dv, p, do, block_q, rules)  # dV = (P ∘ Z)ᵀ dO

    with machine.scope():  # dP = dO Vᵀ ∘ Z
        v_all = machine.load(v)
        for rows in blocks(q.shape[0], block_q):
            with machine.scope():
                do_i = machine.load(do, rows)
                machine.store(dp, rows, machine.keep("dP", rules.drop(do_i @ v_all.T, rows, slice(0, v.shape[0]))))

    for rows in blocks(q.shape[0], block_q):  # dS = τ P ∘ (dP − rowsum(P ∘ dP))
        with machine.scope():
            p_i, ds_i = machine.load(p, rows), machine.load(dp, rows)
            ds_i -= (p_i * ds_i).sum(1)[:, None]
            ds_i *= p_i
            ds_i *= rules.scale
            machine.store(ds, rows, ds_i)

    _product(machine, dq, ds, k, block_q)  # dQ = dS K
    _product_over_rows(machine, dk, ds, q, block_q)  # dK = dSᵀ Q
    return dq, dk, dv


def _product(machine: Machine, out: Ref, a: Ref, b: Ref, block_q: int, rules: Program | None = None) -> None:
    """out (N, X) = a (N, M) b (M, X), b on chip; with ``rules``, dropout on a."""
    with machine.scope():
        b_all = machine.load(b)
        for rows in blocks(a.shape[0], block_q):
            with machine.scope():
                a_i = machine.load(a, rows)
                a_i = a_i if rules is None else rules.drop(a_i, rows, slice(0, b.shape[0]))
                machine.store(out, rows, machine.keep(out.name, a_i @ b_all))


def _product_over_rows(machine: Machine, out: Ref, a: Ref, b: Ref, block_q: int, rules: Program | None = None) -> None:
    """out (M, X) = aᵀ (M, N) b (N, X), summed up on chip; with ``rules``, dropout on a."""
    with machine.scope():
        total = machine.keep(out.name, np.zeros(out.shape, out.dtype))
        for rows in blocks(a.shape[0], block_q):
            with machine.scope():
                a_i, b_i = machine.load(a, rows), machine.load(b, rows)
                a_i = a_i if rules is None else rules.drop(a_i, rows, slice(0, a.shape[1]))
                total += a_i.T @ b_i
        machine.store(out, ..., total)
