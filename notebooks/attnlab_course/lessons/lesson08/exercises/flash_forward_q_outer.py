"""Lesson 08, ★★★: queries outside on the machine, every load and store written out."""

from functools import partial

from attnlab import costs
from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.machines import machine_costs, tiled_call, tiled_cases
from attnlab_course.instruments.machine import Machine, Ref, flash_forward

import numpy as np

Results = tuple[np.ndarray, np.ndarray]


def flash_forward_q_outer(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Attention of references q (N, D), k (M, D), v (M, Dv); scale 1/√D, queries outside → machine.fetch of O, lse."""
    (n, d), dv = q.shape, v.shape[1]
    o, lse = machine.empty("O", (n, dv), q.dtype), machine.empty("lse", (n,), q.dtype)
    for rows in blocks(n, block_q):
        with machine.scope():
            q_i = machine.load(q, rows)
            o_i, l_i, m_i = np.zeros((len(q_i), dv)), np.zeros(len(q_i)), np.full(len(q_i), -np.inf)
            for cols in blocks(k.shape[0], block_k):
                with machine.scope():
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                    s = q_i @ k_j.T / d**0.5
                    m_new = np.maximum(m_i, s.max(1))
                    a, p = np.exp(m_i - m_new), np.exp(s - m_new[:, None])
                    o_i, l_i, m_i = a[:, None] * o_i + p @ v_j, a * l_i + p.sum(1), m_new  # eq. 8.5
            machine.store(o, rows, machine.keep("O", o_i / l_i[:, None]))
            machine.store(lse, rows, machine.keep("lse", m_i + np.log(l_i)))
    return machine.fetch(o), machine.fetch(lse)


def keys_outside(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Algorithm 1's order; lse comes in a pass at the end."""
    o, l, m = flash_forward(machine, q, k, v, block_q=block_q, block_k=block_k)
    lse = machine.empty("lse", l.shape, q.dtype)
    for rows in blocks(q.shape[0], block_q):
        with machine.scope():
            machine.store(lse, rows, machine.keep("lse", machine.load(m, rows) + np.log(machine.load(l, rows))))
    return machine.fetch(o), machine.fetch(lse)


def cases() -> list[Case]:
    """From one tile to ragged lengths."""
    return [
        *tiled_cases(),
        Case("N = M = 12, D = Dv = 4, tiles of 4 by 2, scores in the thousands, of either sign",
             tiled_call(12, 12, 4, 4, 4, 2, 3000.0)),
        Case("N = 2, M = 20, D = 4, Dv = 3, tiles of 1 by 1, scores that lie up to 12 apart",
             tiled_call(2, 20, 4, 3, 1, 1, 5.0)),
        Case("N = M = 24, D = Dv = 4, tiles of 6 by 2", tiled_call(24, 24, 4, 4, 6, 2)),
        Case("RAGGED: N = 6, M = 4, tiles of 4 by 4: the last block of queries has two", tiled_call(6, 4, 4, 3, 4, 4)),
        Case("RAGGED: N = 14, M = 9, tiles of 5 by 4: the last blocks have four queries and one key",
             tiled_call(14, 9, 4, 3, 5, 4)),
    ]


EXERCISE = Exercise(
    lesson="08", stars=3, reference=flash_forward_q_outer, where="section 3", cases=cases,
    hints=(
        "Two loops over blocks(length, size), each `with machine.scope()`: load Q_i in the outer, K_j and V_j in the "
        "inner one. O_i, l_i and m_i start at 0, 0 and −∞ for each block of queries and stay on the chip.",
        "After the inner loop: machine.store(o, rows, machine.keep(\"O\", o_i / l_i[:, None])), the same for lse = m + "
        "log l, and at the very end return machine.fetch(o), machine.fetch(lse).",
    ),
    without={
        "a": phrases.rescales_one("eq. 8.5", one="O", other="l"),
        "d ** 0.5": phrases.unscaled("eq. 8.1"),
    },
    mistakes=(
        Mistake("Your keys are outside, as in Algorithm 1: Q, O, l and m cross in every pass. Let a block of queries "
                "and its state stay while the keys pass by (section 3).",
                keys_outside),
        Mistake("Your O travels in the inner loop. With the queries outside, O, l and m stay on the chip until their "
                "pass is over: nothing but K_j and V_j is loaded there, and nothing is stored (section 3).",
                but("# eq. 8.5", "; machine.store(o, rows, machine.keep('O', o_i))")),
        Mistake("You load the queries again for every block of keys. They can stay on chip while the keys pass by: "
                "load them before that loop (section 3).", but("s = q_i", "machine.load(q, rows); s = q_i")),
        Mistake(phrases.sram_full("eq. 8.6"),
                but("                with machine.scope():", "                if True:"),
                but("load(k, cols), machine.load(v, cols)", "load(k)[cols], machine.load(v)[cols]"),
                but("with machine.scope():", "if True:")),
        Mistake(phrases.divides_early("section 2", o="O", l="l"),
                but("p.sum(1), m_new", "p.sum(1), m_new; o_i = o_i / l_i[:, None]",
                    "o_i / l_i[:, None]))", "o_i))"),
                but("p.sum(1), m_new", "p.sum(1), m_new; o_i = o_i / l_i[:, None]")),
    ),
    costs=machine_costs(
        partial(tiled_call, 26, 30, 8, 6, 13, 3),
        costs.forward("flash2", 26, 30, 8, 6, block_q=13, block_k=3).elements,
        "section 3", "with N = 26, M = 30, D = 8, Dv = 6 and tiles of 13 by 3",
    ),
)
