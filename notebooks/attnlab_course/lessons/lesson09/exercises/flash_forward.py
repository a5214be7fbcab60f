"""Lesson 09, ★★★: Algorithm 1 to and fro on the machine, every load and store written out."""

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
    """Algorithm 1 of references q (N, D), k (M, D), v (M, Dv); scale 1/√D → machine.fetch of O, l and m.

    A pass begins with the block of queries with which the last one ended: its state stays on chip meanwhile.
    """
    n, d = q.shape
    o = machine.full("O", (n, v.shape[1]), 0.0, q.dtype)
    l, m = machine.full("l", (n,), 0.0, q.dtype), machine.full("m", (n,), -np.inf, q.dtype)
    order, kept = [*blocks(n, block_q)], None
    for cols in blocks(k.shape[0], block_k):
        k_j, v_j = machine.load(k, cols), machine.load(v, cols)
        for rows in order:
            if rows != kept:
                q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))
            s = q_i @ k_j.T / d**0.5
            m_new = np.maximum(m_i, s.max(1))
            a, p = np.exp(m_i - m_new), np.exp(s - m_new[:, None])
            l_new = a * l_i + p.sum(1)
            o_new = ((a * l_i)[:, None] * o_i + p @ v_j) / l_new[:, None]  # eq. 8.4
            o_i[:], l_i[:], m_i[:], kept = o_new, l_new, m_new, rows
            if rows != order[-1] or cols.stop == k.shape[0]:
                for ref, x in ((o, o_i), (l, l_i), (m, m_i)):
                    machine.store(ref, rows, x)
                machine.free(q_i, o_i, l_i, m_i)
        machine.free(k_j, v_j)
        order.reverse()
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


MOST, _, *OTHERS = machine_costs(  # what moves less is refused only if it must move more
    partial(tiled_call, 26, 28, 8, 6, 4, 10),
    costs.forward("flash", 26, 28, 8, 6, block_q=4, block_k=10).elements - (2 + 4) * (8 + 2 * (6 + 2)),
    "Algorithm 1 to and fro",
    'with N = 26, M = 28, D = 8, Dv = 6 and tiles of 4 by 10: what costs.forward("flash", …) counts, less the way of '
    "the state out and of Q and the state in for two rows at one turn and four at the other",
)
LEAST = Cost(lacking, 0,
             "It moves too little. Each block of keys must meet all queries. Of what must be loaded for that, of Q, of "
             "K, of V or of the state (O, l, m), or of what must be stored, {found:.0f} % are missing: it computes "
             "with numbers that it did not load, or returns some that it did not store.")
OWN = "np.exp(s - s.max(1)[:, None])"  # relative to the tile's own maximum
LOADED, FREED = "k_j, v_j = machine.load(k, cols), machine.load(v, cols)", "        machine.free(k_j, v_j)\n"
KEYS_INSIDE = LOADED, "pass", "s = q_i", f"{LOADED}; s = q_i"

EXERCISE = Exercise(
    lesson="09", stars=3, reference=flash_forward, where="section 4 of lesson 08",
    cases=cases, costs=(MOST, LEAST, *OTHERS),
    hints=(
        "Start with Algorithm 1: two loops over blocks(length, size), keys outside. Load K_j and V_j in the outer one, "
        "Q_i, O_i, l_i and m_i in the inner one. Compute as in tile_step with scores q_i @ k_j.T / √D, and store.",
        "Which order of the queries lets a pass begin where the last one ended? Forth, then back, then forth.",
        "Load a block of queries only if it isn't the one of the visit before. Store and free it unless it's the last "
        "one of a pass; after the last pass, store that one, too.",
    ),
    without={"d ** 0.5": phrases.unscaled("eq. 8.1")},
    mistakes=(
        Mistake("That's Algorithm 1 (eq. 9.4): at the end of a pass you store the last block's state, only to load it "
                "again later. Go through the queries backward in every other pass, and it can stay.",
                but("rows != kept", "True", "rows != order[-1] or cols.stop == k.shape[0]", "True")),
        Mistake(phrases.sram_full("eq. 8.8"), but(FREED, ""), but("machine.free(q_i, o_i, l_i, m_i)", "pass")),
        Mistake(phrases.loads_inside("section 4 of lesson 08, line 6"),
                but(*KEYS_INSIDE, FREED, "", "            o_i[:]", "            machine.free(k_j, v_j); o_i[:]"),
                but(LOADED, "k_j = machine.load(k, cols)", "s = q_i", "v_j = machine.load(v, cols); s = q_i",
                    FREED, "        machine.free(k_j)\n",
                    "            o_i[:]", "            machine.free(v_j); o_i[:]")),
        Mistake(phrases.m_unstored("section 4 of lesson 08, lines 12 and 13"),
                but("(l, l_i), (m, m_i))", "(l, l_i))")),
        Mistake(phrases.new_unscaled("eqs. 8.2 and 8.4"),
                but("p @ v_j", f"{OWN} @ v_j"), but("np.exp(s - m_new[:, None])", OWN)),
    ),
)
