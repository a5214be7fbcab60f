"""Rabe & Staats' attention (2021, section 4): chunks of keys summarized independently, combined at the end.

For each chunk of queries every chunk of keys leaves a summary (o, l, m) by its own maximum in HBM; when all are there,
they are read back, brought to the common maximum and added. One set of summaries is reused for all chunks of queries,
so the memory beyond inputs and output is C_q ⌈M / C_k⌉ (Dv + 2) elements. The aim was that footprint, not traffic: with
T_q = ⌈N / C_q⌉ and T_k = ⌈M / C_k⌉, D = Dv and every chunk visible, it moves, in elements,

    2ND + N + 2 T_q MD + 2 T_k N(D + 2)

of which the last term is what FlashAttention-2, keeping a single running summary on chip, does without. Notebook 05.

The gradient recomputes each summary when its turn comes, as checkpointing does (their section 4), six products where
FlashAttention has five; dK and dV travel between HBM and chip at every visit. Notebooks 06 and 10.
"""

from typing import Any

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import blocks, chunk_sizes
from attnlab.softmax.numpy import one_if_empty, zero_if_empty
from attnlab_course.instruments.machine.machine import Machine, OnChip, Ref
from attnlab_course.instruments.machine.options import Program, checked_program

import numpy as np


@quiet
def chunked_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, *, query_chunk_size: int | None = None,
    key_chunk_size: int | None = None, **options: Any,
) -> tuple[Ref, Ref]:
    """O (N, Dv) and lse (N,); chunk sizes None: attnlab's own. A query that sees no key has O = 0 and lse = −∞."""
    rules = checked_program(machine, q, k, **options)
    n, (m, dv) = q.shape[0], v.shape
    c_q, c_k = chunk_sizes(m, dv, query_chunk_size, key_chunk_size)
    o, lse = machine.empty("O", (n, dv), q.dtype), machine.empty("lse", (n,), q.dtype)
    many, most = -(-m // c_k), min(c_q, n)
    summaries = empty_summaries(machine, many, most, dv, q.dtype)
    for rows in blocks(n, c_q):
        with machine.scope():
            q_i, made = machine.load(q, rows), 0
            for cols in rules.band.key_blocks(rows, c_k):
                with machine.scope():
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                    summarize(rules, summaries, made, q_i, k_j, v_j, rows, cols)
                made += 1
        combine(machine, summaries, made, o, lse, rows)
    return o, lse


def empty_summaries(machine: Machine, many: int, rows: int, dv: int, dtype: Any) -> tuple[Ref, Ref, Ref]:
    """Room in HBM for (o, l, m) of ``rows`` queries, of that many chunks."""
    shapes = {"o_c": (many, rows, dv), "l_c": (many, rows), "m_c": (many, rows)}
    return tuple(machine.empty(name, shape, dtype) for name, shape in shapes.items())


def summarize(
    rules: Program, summaries: tuple[Ref, Ref, Ref], c: int, q_i: OnChip, k_j: OnChip, v_j: OnChip, rows: slice,
    cols: slice,
) -> None:
    """Write summary number ``c``: the sums over one chunk of keys, by the chunk's own maximum."""
    machine, (o_c, l_c, m_c), r = rules.machine, summaries, slice(0, rows.stop - rows.start)
    p = rules.scores(q_i, k_j, rows, cols)
    m = machine.keep("m_c", p.max(1))
    p -= zero_if_empty(m)[:, None]
    np.exp(p, out=p)
    machine.store(m_c, (c, r), m)
    machine.store(l_c, (c, r), machine.keep("l_c", p.sum(1)))
    machine.store(o_c, (c, r), machine.keep("o_c", rules.drop(p, rows, cols) @ v_j))


def combine(machine: Machine, summaries: tuple[Ref, Ref, Ref], made: int, o: Ref, lse: Ref, rows: slice) -> None:
    """Read the ``made`` summaries of one chunk of queries, add them up, divide, write the result."""
    (o_c, l_c, m_c), r = summaries, slice(0, rows.stop - rows.start)
    with machine.scope():
        m_all = machine.load(m_c, (slice(0, made), r))
        m_i = machine.keep("m", m_all.max(0, initial=-np.inf))
        l_i = machine.keep("l", np.zeros(r.stop, o.dtype))
        o_i = machine.keep("O", np.zeros((r.stop, o.shape[1]), o.dtype))
        for c in range(made):
            with machine.scope():
                factor = machine.keep("e^(m_c − m)", np.exp(m_all[c] - zero_if_empty(m_i)))
                l_i += factor * machine.load(l_c, (c, r))
                o_i += factor[:, None] * machine.load(o_c, (c, r))
        o_i /= one_if_empty(l_i)[:, None]
        m_i += np.log(l_i)
        machine.store(o, rows, o_i)
        machine.store(lse, rows, m_i)


@quiet
def chunked_backward(
    machine: Machine, q: Ref, k: Ref, v: Ref, o: Ref, lse: Ref, do: Ref, *, query_chunk_size: int | None = None,
    key_chunk_size: int | None = None, **options: Any,
) -> tuple[Ref, Ref, Ref]:
    """dQ (N, D), dK (M, D) and dV (M, Dv), from what the forward returned and the gradient dO of O."""
    rules = checked_program(machine, q, k, **options)
    c_q, c_k = chunk_sizes(*v.shape, query_chunk_size, key_chunk_size)
    dq = machine.empty("dQ", q.shape, q.dtype)
    dk, dv = machine.full("dK", k.shape, 0.0, q.dtype), machine.full("dV", v.shape, 0.0, q.dtype)
    for rows in blocks(q.shape[0], c_q):
        with machine.scope():
            q_i, do_i, lse_i = (machine.load(x, rows) for x in (q, do, lse))
            delta = machine.keep("Δ", (do_i * machine.load(o, rows)).sum(1))
            dq_i = machine.keep("dQ", np.zeros_like(q_i))
            for cols in rules.band.key_blocks(rows, c_k):
                _backward_step(rules, (k, v, dk, dv), (q_i, do_i, lse_i, delta, dq_i), rows, cols)
            machine.store(dq, rows, dq_i)
    return dq, dk, dv


def _backward_step(
    rules: Program, arrays: tuple[Ref, Ref, Ref, Ref], queries: tuple[OnChip, ...], rows: slice, cols: slice
) -> None:
    """One chunk of keys: its summary again, then the gradient of that. Arrays: K, V, dK, dV."""
    machine, (q_i, do_i, lse_i, delta, dq_i) = rules.machine, queries
    with machine.scope():
        k_j, v_j, dk_j, dv_j = (machine.load(x, cols) for x in arrays)
        p = rules.scores(q_i, k_j, rows, cols)
        m = machine.keep("m_c", p.max(1))
        p -= zero_if_empty(m)[:, None]
        np.exp(p, out=p)
        z = rules.drop(p, rows, cols)
        machine.keep("l_c", p.sum(1))  # recomputed with the rest of the summary; the gradient does not read it
        machine.keep("o_c", z @ v_j)  # nor this

        factor = machine.keep("e^(m_c − lse)", np.exp(m - zero_if_empty(lse_i)))
        do_c = machine.keep("do_c", factor[:, None] * do_i)
        dv_j += z.T @ do_c
        ds = machine.keep("dP", rules.drop(do_c @ v_j.T, rows, cols))
        ds -= (factor * delta)[:, None]
        ds *= p
        ds *= rules.scale
        dq_i += ds @ k_j
        dk_j += ds.T @ q_i
        machine.store(arrays[2], cols, dk_j)
        machine.store(arrays[3], cols, dv_j)
