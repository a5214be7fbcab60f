"""Lesson 09, ★★: Algorithm 1 with right values and too many bytes, fixed."""

from functools import partial

from attnlab import costs
from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.machines import machine_costs, tiled_call, tiled_cases
from attnlab_course.instruments.machine import Machine, Ref

import numpy as np

Array = np.ndarray


def lean_forward(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Array:
    """Algorithm 1 of references q (N, D), k (M, D), v (M, Dv); scale 1/√D, keys outside → machine.fetch of O."""
    (n, d), dv = q.shape, v.shape[1]
    o, l = machine.full("O", (n, dv), 0.0, q.dtype), machine.full("l", (n,), 0.0, q.dtype)
    m = machine.full("m", (n,), -np.inf, q.dtype)
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
            for rows in blocks(n, block_q):
                with machine.scope():
                    q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))
                    s = q_i @ k_j.T / d**0.5
                    m_new = np.maximum(m_i, s.max(1))
                    a, p = np.exp(m_i - m_new), np.exp(s - m_new[:, None])
                    l_new = a * l_i + p.sum(1)
                    o_new = ((a * l_i)[:, None] * o_i + p @ v_j) / l_new[:, None]  # eq. 8.4
                    for ref, x in ((o, o_new), (l, l_new), (m, m_new)):
                        machine.store(ref, rows, machine.keep(ref.name, x))
    return machine.fetch(o)


def sweep(machine: Machine, o: Ref, l: Ref, block_q: int) -> None:
    """Divide O by l, after the last block of keys."""
    for rows in blocks(o.shape[0], block_q):
        with machine.scope():
            machine.store(o, rows, machine.keep("O", machine.load(o, rows) / machine.load(l, rows)[:, None]))


def cases() -> list[Case]:
    """The broken program is right in all of them."""
    return [
        *tiled_cases(),
        Case("RAGGED, RECT: N = 9, M = 14, tiles of 4 by 5", tiled_call(9, 14, 4, 3, 4, 5)),
        Case("N = M = 12, D = Dv = 4, tiles of 4 by 2, scores in the thousands, of either sign",
             tiled_call(12, 12, 4, 4, 4, 2, 3000.0)),
    ]


LOADS = "k_j, v_j = machine.load(k, cols), machine.load(v, cols)"
SLIPPED = LOADS, "pass", "s = q_i", f"{LOADS}; s = q_i"
LATE = (
    "((a * l_i)[:, None] * o_i + p @ v_j) / l_new[:, None]", "a[:, None] * o_i + p @ v_j",
    "return machine", "sweep(machine, o, l, block_q); return machine",
)  # fmt: skip

EXERCISE = Exercise(
    lesson="09", stars=2, reference=lean_forward, where="section 4 of lesson 08", cases=cases,
    hints=(
        "Every value is right. Print machine.loads and machine.stores: what crosses more often than (9.4) says?",
        "`broken` loads K and V at every visit, and O and l once more at the end.",
        "Move the load of K and V one loop further out. Then divide at every visit, eq. 8.4: O comes in divided by the "
        "old l and goes out divided by the new one, so you don't need the sweep at the end.",
    ),
    mistakes=(
        Mistake("Nothing is fixed yet: K and V are loaded at every visit, and O is swept once more (eq. 9.4).",
                but(*SLIPPED, *LATE)),
        Mistake("The sweep is gone, but K and V are still loaded at every visit: their load belongs in the outer loop, "
                "once for each block of keys. Eq. 9.4.",
                but(*SLIPPED)),
        Mistake("K and V cross once, but O and l are still loaded once more at the end, and O is stored again: divide "
                "at every visit, eq. 8.4.",
                but(*LATE)),
        Mistake("The sweep is gone, and with it the division. O comes in divided by the old l, so multiply it by that "
                "l, and divide by the new one: eq. 8.4.",
                but("(a * l_i)[:, None]", "a[:, None]", " / l_new[:, None]", ""),
                but("(a * l_i)[:, None]", "a[:, None]")),
        Mistake(phrases.m_unstored("section 4 of lesson 08, lines 12 and 13"),
                but("(l, l_new), (m, m_new))", "(l, l_new))")),
    ),
    costs=machine_costs(
        partial(tiled_call, 30, 30, 8, 6, 4, 10),
        costs.forward("flash", 30, 30, 8, 6, block_q=4, block_k=10).elements,
        "eq. 9.4", "with N = M = 30, D = 8, Dv = 6 and tiles of 4 by 10",
    ),
)
