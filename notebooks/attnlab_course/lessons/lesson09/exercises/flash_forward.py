"""Lesson 09, ★★★: Algorithm 1 on the machine, every load and store written out."""

from functools import partial

from attnlab import costs
from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.machines import machine_costs, tiled_call, tiled_cases
from attnlab_course.instruments.machine import Machine, Ref

import numpy as np

Results = tuple[np.ndarray, np.ndarray, np.ndarray]


def flash_forward(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Algorithm 1 of references q (N, D), k (M, D), v (M, Dv); scale 1/√D → machine.fetch of O, l and m."""
    n, d = q.shape
    o = machine.full("O", (n, v.shape[1]), 0.0, q.dtype)
    l, m = machine.full("l", (n,), 0.0, q.dtype), machine.full("m", (n,), -np.inf, q.dtype)
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
                    for ref, new in ((o, o_new), (l, l_new), (m, m_new)):
                        machine.store(ref, rows, machine.keep(ref.name, np.asarray(new)))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def queries_outside(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """FlashAttention-2's order."""
    (n, d), (keys, dv) = q.shape, v.shape
    o, l, m = (machine.empty(name, shape, q.dtype) for name, shape in (("O", (n, dv)), ("l", (n,)), ("m", (n,))))
    for rows in blocks(n, block_q):
        with machine.scope():
            q_i, r = machine.load(q, rows), rows.stop - rows.start
            o_i, l_i, m_i = np.zeros((r, dv)), np.zeros(r), np.full(r, -np.inf)
            for cols in blocks(keys, block_k):
                with machine.scope():
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                    s = q_i @ k_j.T / d**0.5
                    m_new = np.maximum(m_i, s.max(1))
                    a, p = np.exp(m_i - m_new), np.exp(s - m_new[:, None])
                    o_i, l_i, m_i = a[:, None] * o_i + p @ v_j, a * l_i + p.sum(1), m_new
            for ref, new in ((o, o_i / l_i[:, None]), (l, l_i), (m, m_i)):
                machine.store(ref, rows, machine.keep(ref.name, np.asarray(new)))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def cases() -> list[Case]:
    """From one tile to ragged lengths."""
    return [
        *tiled_cases(),
        Case("N = M = 12, D = Dv = 4, tiles of 2 by 4, scores in the thousands, of either sign",
             tiled_call(12, 12, 4, 4, 2, 4, 3000.0)),
        Case("N = M = 24, D = Dv = 4, tiles of 2 by 6", tiled_call(24, 24, 4, 4, 2, 6)),
        Case("RAGGED: N = 4, M = 6, tiles of 4 by 5: the last block of keys has one", tiled_call(4, 6, 4, 3, 4, 5)),
        Case("RAGGED: N = 9, M = 14, tiles of 4 by 5: the last blocks have one query and four keys",
             tiled_call(9, 14, 4, 3, 4, 5)),
    ]


def lacking(answer: Function, library: str) -> float:
    """Percent that is missing of the loads of Q, of K, of V, of the state or of the stores, where it is most.

    Each block of keys meets all queries. What SRAM holds may stay there until the next one, and the first one needs no
    state of O, l and m.
    """
    machine, q, k, v, block_q, block_k = tiled_call(512, 28, 8, 2, 4, 10)
    answer(machine, q, k, v, block_q, block_k)
    n, d, dv, passes = *q.shape, v.shape[1], -(-k.shape[0] // block_k)
    again, spare = (passes - 1) * n * (dv + 2), (passes - 1) * machine.sram.capacity
    loads = [machine.loads[ref.name] for ref in (q, k, v)]
    needs = [passes * n * d - spare, k.shape[0] * d, v.shape[0] * dv, again - spare, again + n * (dv + 2) - spare]
    does = [*loads, machine.loads.total() - sum(loads), machine.stores.total()]
    return max(0, *(100 * (1 - done / need) for need, done in zip(needs, does)))


MOST, _, *OTHERS = machine_costs(  # what moves less than Algorithm 1 is refused only if it must move more
    partial(tiled_call, 26, 28, 8, 6, 4, 10),
    costs.forward("flash", 26, 28, 8, 6, block_q=4, block_k=10).elements,
    "Algorithm 1",
    'with N = 26, M = 28, D = 8, Dv = 6 and tiles of 4 by 10; costs.forward("flash", …) gives the count',
)
LEAST = Cost(lacking, 0,
             "It moves too little. Each block of keys must meet all queries. Of what must be loaded for that, of Q, of "
             "K, of V or of the state (O, l, m), or of what must be stored, {found:.0f} % are missing: it computes "
             "with numbers that it did not load, or returns some that it did not store.")
OWN = "np.exp(s - s.max(1)[:, None])"  # relative to the tile's own maximum
KEYS_INSIDE = (
    "k_j, v_j = machine.load(k, cols), machine.load(v, cols)", "pass",
    "q_i, o_i", "k_j, v_j = machine.load(k, cols), machine.load(v, cols); q_i, o_i",
)
HELD = "                with machine.scope():", "                if True:"

EXERCISE = Exercise(
    lesson="09", stars=3, reference=flash_forward, where="section 4 of lesson 08",
    cases=cases, costs=(MOST, LEAST, *OTHERS),
    hints=(
        "Start with machine.full(\"O\", shape, 0.0, q.dtype); then two loops over blocks(length, size), keys outside.",
        "In each loop `with machine.scope()`: load K_j and V_j in the outer one, Q_i, O_i, l_i and m_i in the inner "
        "one. Compute as in tile_step with scores q_i @ k_j.T / √D, and store.",
        "machine.store(o, rows, machine.keep(\"O\", o_new)); after the loops, return machine.fetch of o, l and m.",
    ),
    without={"d ** 0.5": phrases.unscaled("eq. 8.1")},
    mistakes=(
        Mistake(phrases.sram_full("eq. 8.8"), but(*HELD), but(*KEYS_INSIDE, *HELD)),
        Mistake(phrases.loads_inside("section 4 of lesson 08, line 6"),
                but(*KEYS_INSIDE),
                but(", v_j = machine.load(k, cols), machine.load(v, cols)", " = machine.load(k, cols)",
                    "q_i, o_i", "v_j = machine.load(v, cols); q_i, o_i")),
        Mistake("You have the queries in the outer loop, which is FlashAttention-2. In Algorithm 1, a block of keys is "
                "loaded once, and meets all queries before the next one comes (section 4 of lesson 08, line 5).",
                queries_outside),
        Mistake(phrases.m_unstored("section 4 of lesson 08, lines 12 and 13"),
                but("(l, l_new), (m, m_new))", "(l, l_new))")),
        Mistake(phrases.new_unscaled("eqs. 8.2 and 8.4"),
                but("p @ v_j", f"{OWN} @ v_j"), but("np.exp(s - m_new[:, None])", OWN)),
    ),
)
