"""Lazy and online attention: one query at a time reads all keys, one at a time.

The fold of notebook 04 with its state on chip. Every query reads K and V anew: 2ND + N + 2NMD elements for D = Dv, a
hundred or a thousand times what tiles of queries and keys move. Lazy attention does not shift its
scores: it overflows where e^score does.
"""

from typing import Any

from attnlab.core.arrays.numpy import quiet
from attnlab.core.geometry import blocks
from attnlab.softmax.numpy import one_if_empty
from attnlab_course.instruments.machine.flash2 import flash2_forward
from attnlab_course.instruments.machine.machine import Machine, Ref
from attnlab_course.instruments.machine.options import checked_program

import numpy as np


@quiet
def lazy_forward(machine: Machine, q: Ref, k: Ref, v: Ref, **options: Any) -> tuple[Ref, Ref]:
    """O (N, Dv) and lse (N,): o = Σ v_j e^{s_j} and l = Σ e^{s_j}, divided at the end (Rabe & Staats 2021)."""
    rules = checked_program(machine, q, k, **options)
    n, dv = q.shape[0], v.shape[1]
    o, lse = machine.empty("O", (n, dv), q.dtype), machine.empty("lse", (n,), q.dtype)
    for row in blocks(n, 1):
        with machine.scope():
            q_i = machine.load(q, row)
            o_i, l_i = machine.keep("O", np.zeros((1, dv), q.dtype)), machine.keep("l", np.zeros(1, q.dtype))
            for col in rules.band.key_blocks(row, 1):
                with machine.scope():
                    k_j, v_j = machine.load(k, col), machine.load(v, col)
                    p = rules.scores(q_i, k_j, row, col)
                    np.exp(p, out=p)
                    l_i += p.sum(1)
                    o_i += rules.drop(p, row, col) @ v_j
            o_i /= one_if_empty(l_i)[:, None]
            machine.store(o, row, o_i)
            machine.store(lse, row, np.log(l_i, out=l_i))
    return o, lse


def online_forward(machine: Machine, q: Ref, k: Ref, v: Ref, **options: Any) -> tuple[Ref, Ref]:
    """O (N, Dv) and lse (N,), with the running maximum of notebook 04: FlashAttention-2 in tiles of 1 by 1."""
    return flash2_forward(machine, q, k, v, block_q=1, block_k=1, **options)
