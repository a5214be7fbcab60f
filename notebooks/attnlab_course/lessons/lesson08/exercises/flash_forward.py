"""Lesson 08, ★★★: Algorithm 1 on the machine, every load and store written out."""

from collections.abc import Callable
from functools import partial

from attnlab import costs
from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.machines import tiled_call, tiled_cases, tiled_mistakes
from attnlab_course.checker.promises import Measure
from attnlab_course.checker.traffic import machine_costs
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


def divide(machine: Machine, o: Ref, l: Ref, block_q: int) -> None:
    """A pass over O that divides it by l."""
    for rows in blocks(o.shape[0], block_q):
        with machine.scope():
            o_i, l_i = machine.load(o, rows), machine.load(l, rows)
            machine.store(o, rows, machine.keep("O", np.asarray(o_i / l_i[:, None])))


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


def lacking(make: Callable[[], tuple]) -> Measure:
    """Percent that is missing of the loads of Q, of K, of V, of the state or of the stores, where it is most.

    Each block of keys meets all queries. What SRAM holds may stay there until the next one, and the first one needs no
    state of O, l and m.
    """

    def found(answer: Function, library: str) -> float:
        machine, q, k, v, block_q, block_k = make()
        answer(machine, q, k, v, block_q, block_k)
        n, d, dv, passes = *q.shape, v.shape[1], -(-k.shape[0] // block_k)
        again, spare = (passes - 1) * n * (dv + 2), (passes - 1) * machine.sram.capacity
        loads = [machine.loads[ref.name] for ref in (q, k, v)]
        needs = [passes * n * d - spare, k.shape[0] * d, v.shape[0] * dv, again - spare, again + n * (dv + 2) - spare]
        does = [*loads, machine.loads.total() - sum(loads), machine.stores.total()]
        return max(0, *(100 * (1 - done / need) for need, done in zip(needs, does)))

    return found


def own_costs() -> tuple[Cost, ...]:
    """Those of every program on a machine; what moves less than Algorithm 1 is refused only if it must move more."""
    most, _, *others = machine_costs(
        partial(tiled_call, 26, 28, 8, 6, 4, 10),
        costs.forward("flash", 26, 28, 8, 6, block_q=4, block_k=10).elements,
        "Algorithm 1",
        'with N = 26, M = 28, D = 8, Dv = 6 and tiles of 4 by 10; costs.forward("flash", …) gives the count',
    )
    least = Cost(lacking(partial(tiled_call, 512, 28, 8, 2, 4, 10)), 0,
                 "It moves too little. Each block of keys must meet all queries. Of what must be loaded for that, of "
                 "Q, of K, of V or of the state (O, l, m), or of what must be stored, {found:.0f} % are missing: it "
                 "computes with numbers that it did not load, or returns some that it did not store.")
    return most, least, *others


O_NEW, P = "((a * l_i)[:, None] * o_i + p @ v_j) / l_new[:, None]", "np.exp(s - m_new[:, None])"
OWN = "np.exp(s - s.max(1)[:, None])"  # relative to the tile's own maximum
KEYS_INSIDE = (
    "k_j, v_j = machine.load(k, cols), machine.load(v, cols)", "pass",
    "q_i, o_i", "k_j, v_j = machine.load(k, cols), machine.load(v, cols); q_i, o_i",
)
SCORES_OUT = (
    "n, d = q.shape", "n, d = q.shape; scores = machine.empty('S', (n, k.shape[0]), q.dtype)",
    "m_new = np",
    "machine.store(scores, (rows, cols), machine.keep('S', s)); s = machine.load(scores, (rows, cols)); m_new = np",
)
HELD = "                with machine.scope():", "                if True:"

EXERCISE = Exercise(
    lesson="08", stars=3, reference=flash_forward, cases=cases,
    costs=own_costs(),
    hints=(
        "Start with machine.full(\"O\", shape, 0.0, q.dtype); then two loops over blocks(length, size): keys outside, "
        "queries inside.",
        "Use `with machine.scope()` in each loop: what's loaded inside is released at its end. K_j and V_j belong to "
        "the outer loop, everything else to the inner one.",
        "Inside: load Q_i, O_i, l_i and m_i, compute as in tile_step with scores q_i @ k_j.T / √D, and store.",
        "A result has to be on chip before it's stored: machine.store(o, rows, machine.keep(\"O\", o_new)). Return "
        "machine.fetch(o), machine.fetch(l), machine.fetch(m) after the loops.",
    ),
    mistakes=(
        *tiled_mistakes(),
        Mistake(phrases.m_unstored("section 3 of lesson 08, lines 12 and 13"),
                but("(l, l_new), (m, m_new))", "(l, l_new))")),
        Mistake("You store the m of the tile alone. O and l are relative to m' = max(m, m̃), and the next block of "
                "keys needs it (eq. 8.2; section 3 of lesson 08, line 13).",
                but("(m, m_new))", "(m, s.max(1)))")),
        Mistake(phrases.returns_lse("eq. 8.2", which="second", asked="The sum l'"),
                but("machine.fetch(l)", "machine.fetch(m) + np.log(machine.fetch(l))")),
        Mistake("Your O, l and m are in HBM in a type with fewer digits than the inputs: give them q.dtype (section 3 "
                "of lesson 08, line 2).",
                but("q.dtype", "np.float16"), but("q.dtype", "np.float32")),
        Mistake(phrases.divided_already("eq. 8.4"), but("(a * l_i)[:, None]", "a[:, None]")),
        Mistake(phrases.new_unscaled("eqs. 8.2 and 8.4"), but("p @ v_j", f"{OWN} @ v_j"), but(P, OWN)),
        Mistake(phrases.upside_down("eq. 8.4, and not as eq. 8.12 prints it", factor="e^(m − m')"),
                but("(a * l_i)[:, None]", "(l_i / a)[:, None]"), but(O_NEW, "o_i / a[:, None] + p @ v_j")),
        Mistake(phrases.rescales_nothing("eqs. 8.2 and 8.4", sums="O and l are", factor="e^(m − m')"),
                but("a * l_i", "l_i")),
        Mistake("You never divide O by l. Algorithm 1 keeps it normalized at every visit: eq. 8.4.",
                but(O_NEW, "a[:, None] * o_i + p @ v_j")),
        Mistake(phrases.begins_anew("section 3, line 8, and eq. 8.4", state="O, l and m"),
                but("s = q_i", "o_i, l_i, m_i = 0 * o_i, 0 * l_i, np.full_like(m_i, -np.inf); s = q_i")),
        Mistake(phrases.sram_full("eq. 8.7"), but(*HELD), but(*KEYS_INSIDE, *HELD)),
        Mistake(phrases.loads_inside("section 3, line 6"),
                but(*KEYS_INSIDE),
                but(", v_j = machine.load(k, cols), machine.load(v, cols)", " = machine.load(k, cols)",
                    "q_i, o_i", "v_j = machine.load(v, cols); q_i, o_i"),
                but("k_j, v_j = machine.load(k, cols), machine.load(v, cols)", "v_j = machine.load(v, cols)",
                    "q_i, o_i", "k_j = machine.load(k, cols); q_i, o_i")),
        Mistake("Your blocks of keys are half as large as block_k says, so there are twice as many passes over Q, O, l "
                "and m (section 4).",
                but("block_k):", "-(-block_k // 2)):")),
        Mistake(phrases.queries_outside("section 3, line 5", algorithm="Algorithm 1"), queries_outside),
        Mistake("You keep O un-normalized and divide in a separate pass. That's one more load and store of O; eq. 8.4 "
                "needs none.",
                but(O_NEW, "a[:, None] * o_i + p @ v_j", "return", "divide(machine, o, l, block_q)\n    return")),
        Mistake("Your scores leave SRAM: you store S and load it again, N·M elements each way. Use a tile of scores at "
                "once and forget it (section 3, lines 9 to 12).",
                but(*SCORES_OUT)),
    ),
)
