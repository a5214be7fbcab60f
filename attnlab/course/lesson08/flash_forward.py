"""Lesson 08, ★★★: Algorithm 1 on the machine, every load and store written out."""

from collections.abc import Callable

from attnlab import costs
from attnlab.check.machines import bench
from attnlab.check.promises import Measure
from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake
from attnlab.machine import Machine, Ref
from attnlab.geometry import blocks

import numpy as np

Array = np.ndarray
Results = tuple[Array, Array, Array]


def flash_forward(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Algorithm 1 of references q (N, D), k (M, D), v (M, Dv); scale 1/√D → machine.fetch of O, l and m."""
    o, l, m = start(machine, q, v)
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
            for rows in blocks(q.shape[0], block_q):
                with machine.scope():
                    q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))
                    new = step(o_i, l_i, m_i, scores(q_i, k_j), v_j)
                    for ref, name, array in zip((o, l, m), "Olm", new):
                        machine.store(ref, rows, machine.keep(name, array))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def start(machine: Machine, q: Ref, v: Ref) -> tuple[Ref, Ref, Ref]:
    """O = 0, l = 0, m = −∞ in HBM."""
    n, dv = q.shape[0], v.shape[1]
    o = machine.full("O", (n, dv), 0.0, q.dtype)
    return o, machine.full("l", (n,), 0.0, q.dtype), machine.full("m", (n,), -np.inf, q.dtype)


def scores(q_i: Array, k_j: Array) -> Array:
    """One tile of scores."""
    return q_i @ k_j.T / q_i.shape[1] ** 0.5


def step(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """Eq. 8.4."""
    m_new = np.maximum(m, s.max(1))
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    l_new = a * l + p.sum(1)
    return ((l * a)[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def call(n: int, m: int, d: int, dv: int, block_q: int, block_k: int, scale: float = 1.0) -> tuple:
    """Arguments of a call. The SRAM holds eq. 8.7, a second tile of scores and a second block of Q and O."""
    rng = np.random.default_rng(n + 100 * m)
    inputs = {"Q": scale * rng.normal(size=(n, d)), "K": rng.normal(size=(m, d)), "V": rng.normal(size=(m, dv))}
    capacity = 2 * block_q * block_k + (2 * block_q + block_k) * (d + dv) + 10 * block_q
    return *bench(inputs, capacity), block_q, block_k


def small() -> list[Case]:
    """From one query and one key to two blocks of either."""
    return [
        Case("ONE: one query, one key, tiles of 1 by 1", call(1, 1, 1, 1, 1, 1)),
        Case("one tile: N = 2, M = 3, D = Dv = 2, tiles of 2 by 3", call(2, 3, 2, 2, 2, 3)),
        Case("two blocks of keys: N = 2, M = 6, D = 4, Dv = 2, tiles of 2 by 3", call(2, 6, 4, 2, 2, 3)),
        Case("two blocks of queries: N = 4, M = 3, D = Dv = 4, tiles of 2 by 3", call(4, 3, 4, 4, 2, 3)),
    ]


def cases() -> list[Case]:
    """From one tile to ragged lengths."""
    return [
        *small(),
        Case("HIGH: N = M = 12, D = Dv = 4, tiles of 2 by 4, scores in the thousands",
             call(12, 12, 4, 4, 2, 4, 3000.0)),
        Case("N = M = 24, D = Dv = 4, tiles of 2 by 6", call(24, 24, 4, 4, 2, 6)),
        Case("RAGGED: N = 4, M = 6, tiles of 4 by 5: the last block of keys has one", call(4, 6, 4, 3, 4, 5)),
        Case("RAGGED: N = 9, M = 14, tiles of 4 by 5: the last blocks have one query and four keys",
             call(9, 14, 4, 3, 4, 5)),
    ]


def share() -> Measure:
    """Elements moved over what Algorithm 1 moves; N = 26, M = 28, tiles of 4 by 10."""

    def found(answer: Function, library: str) -> float:
        arguments = call(26, 28, 8, 8, 4, 10)
        machine = arguments[0]
        answer(*arguments)
        return machine.elements / costs.forward("flash", 26, 28, 8, 8, block_q=4, block_k=10).elements

    return found


Step = Callable[[Array, Array, Array, Array, Array], Results]


def program(
    update: Step = step, *, whole_k: bool = False, whole_q: bool = False, scaled: bool = True, carried: bool = True,
    inner: bool = False, freed: bool = True,
) -> Callable[..., Results]:
    """A wrong answer: Algorithm 1 with one thing changed."""

    def wrong(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
        o, l, m = start(machine, q, v)
        n_k = k.shape[0] // block_k * block_k if whole_k else k.shape[0]
        n_q = q.shape[0] // block_q * block_q if whole_q else q.shape[0]
        for cols in blocks(k.shape[0], block_k):
            if cols.stop > n_k:
                continue
            with machine.scope():
                if not inner:
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                for rows in blocks(q.shape[0], block_q):
                    if rows.stop > n_q:
                        continue
                    if inner:
                        k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                    q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))
                    s = scores(q_i, k_j) * (1 if scaled else q.shape[1] ** 0.5)
                    state = (o_i, l_i, m_i) if carried else (0 * o_i, 0 * l_i, np.full_like(m_i, -np.inf))
                    new = [machine.keep("new", np.asarray(x)) for x in update(*state, s, v_j)]
                    for ref, array in zip((o, l, m), new):
                        machine.store(ref, rows, array)
                    if freed:
                        machine.free(q_i, o_i, l_i, m_i, *new, *((k_j, v_j) if inner else ()))
        return machine.fetch(o), machine.fetch(l), machine.fetch(m)

    return wrong


def not_undone(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """O is not multiplied by l first."""
    _, l_new, m_new = step(o, l, m, s, v)
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    return (a[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def own_maximum(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """P̃ V stays relative to the tile's own maximum."""
    _, l_new, m_new = step(o, l, m, s, v)
    a, p = np.exp(m - m_new), np.exp(s - s.max(1)[:, None])
    return ((l * a)[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def own_maximum_both(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """P̃ V and l̃ stay relative to the tile's own maximum."""
    m_new = np.maximum(m, s.max(1))
    a, p = np.exp(m - m_new), np.exp(s - s.max(1)[:, None])
    l_new = a * l + p.sum(1)
    return ((l * a)[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def inverse(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """The factor of O inverted."""
    _, l_new, m_new = step(o, l, m, s, v)
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    return ((l / a)[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def inverse_unnormalized(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """Eq. 8.12 to the letter."""
    _, l_new, m_new = step(o, l, m, s, v)
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    return o / a[:, None] + p @ v, l_new, m_new


def no_factor(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """The old terms are not rescaled."""
    m_new = np.maximum(m, s.max(1))
    p = np.exp(s - m_new[:, None])
    l_new = l + p.sum(1)
    return (l[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def unnormalized(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """Eq. 8.3, without the division."""
    _, l_new, m_new = step(o, l, m, s, v)
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    return a[:, None] * o + p @ v, l_new, m_new


def last_pass(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Eq. 8.3, and a pass over O at the end that divides."""
    o, l, m = start(machine, q, v)
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
            for rows in blocks(q.shape[0], block_q):
                with machine.scope():
                    q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))
                    new = unnormalized(o_i, l_i, m_i, scores(q_i, k_j), v_j)
                    for ref, array in zip((o, l, m), new):
                        machine.store(ref, rows, machine.keep("new", array))
    for rows in blocks(q.shape[0], block_q):
        with machine.scope():
            o_i, l_i = machine.load(o, rows), machine.load(l, rows)
            machine.store(o, rows, machine.keep("O", o_i / l_i[:, None]))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def queries_outside(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """FlashAttention-2's order."""
    o, l, m = start(machine, q, v)
    for rows in blocks(q.shape[0], block_q):
        with machine.scope():
            q_i, r = machine.load(q, rows), rows.stop - rows.start
            state = np.zeros((r, v.shape[1])), np.zeros(r), np.full(r, -np.inf)
            for cols in blocks(k.shape[0], block_k):
                with machine.scope():
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                    state = step(*state, scores(q_i, k_j), v_j)
            for ref, array in zip((o, l, m), state):
                machine.store(ref, rows, machine.keep("new", np.asarray(array)))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def in_hbm(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Scores are written out and read back."""
    o, l, m = start(machine, q, v)
    s = machine.empty("S", (q.shape[0], k.shape[0]), q.dtype)
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
            for rows in blocks(q.shape[0], block_q):
                with machine.scope():
                    q_i = machine.load(q, rows)
                    machine.store(s, (rows, cols), machine.keep("S", scores(q_i, k_j)))
                    machine.free(q_i)
                with machine.scope():
                    o_i, l_i, m_i = (machine.load(x, rows) for x in (o, l, m))
                    new = step(o_i, l_i, m_i, machine.load(s, (rows, cols)), v_j)
                    for ref, array in zip((o, l, m), new):
                        machine.store(ref, rows, machine.keep("new", array))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


EXERCISE = Exercise(
    lesson="08", stars=3, reference=flash_forward, cases=cases,
    hints=(
        "machine.full(\"O\", shape, 0.0, q.dtype) begins; then two loops of blocks(length, size): keys outside, "
        "queries inside.",
        "Open with machine.scope() in each loop: what is loaded inside is released at its end. K_j and V_j belong to "
        "the outer loop, everything else to the inner one.",
        "Inside: load Q_i, O_i, l_i and m_i, compute as in tile_step with scores q_i @ k_j.T / √D, and store.",
        "A result must be on chip before it is stored: machine.store(o, rows, machine.keep(\"O\", o_new)). Return "
        "machine.fetch(o), machine.fetch(l), machine.fetch(m) after the loops.",
    ),
    mistakes=(
        Mistake(
            "O is stored divided by l, and you add to it as if it were not. One block of keys is right, from the "
            "second on it is too small: multiply by the old l first, eq. 8.4.",
            program(not_undone),
        ),
        Mistake(
            "P̃ is measured from the tile's own maximum and is added without e^{m̃ − m'}: eq. 8.2 and eq. 8.4.",
            program(own_maximum), program(own_maximum_both),
        ),
        Mistake(
            "Your factor is the inverse, as eq. 8.12 prints it; at the first block of keys it is 1/0. Old terms are "
            "multiplied by e^{m − m'}: eq. 8.4.",
            program(inverse), program(inverse_unnormalized),
        ),
        Mistake(
            "Nothing is rescaled when the maximum moves. O and l are multiplied by e^{m − m'}: eqs. 8.2 and 8.4.",
            program(no_factor),
        ),
        Mistake(
            "O is never divided by l. Algorithm 1 keeps it normalized at every visit: eq. 8.4.",
            program(unnormalized),
        ),
        Mistake(
            "O, l and m begin anew at each block of keys, so that only the last block counts. They live in HBM across "
            "the outer loop: load them at each visit (section 3, line 8) and fold (eq. 8.4).",
            program(carried=False),
        ),
        Mistake(
            "The last block of keys is left out if it is shorter. Round the number of blocks up: ⌈M / B_c⌉ "
            "(section 3, line 3).",
            program(whole_k=True), program(whole_k=True, whole_q=True),
        ),
        Mistake(
            "The last block of queries is left out if it is shorter. Round the number of blocks up: ⌈N / B_r⌉ "
            "(section 3, line 3).",
            program(whole_q=True),
        ),
        Mistake(
            "Your scores are not scaled by 1/√D: eq. 8.1.",
            program(scaled=False),
        ),
        Mistake(
            "SRAM runs over, because you hold more than one visit needs (eq. 8.7). Load only the block at hand, and "
            "release it: open with machine.scope() in each of the two loops, or call machine.free.",
            program(freed=False), program(inner=True, freed=False),
        ),
        Mistake(
            "You load K_j and V_j in the inner loop, once for every block of queries. They are loaded in the outer "
            "loop and stay on chip (section 3, line 6): keys and values cross once.",
            program(inner=True),
        ),
        Mistake(
            "Your loops are the other way round: queries outside, keys inside. That is FlashAttention-2's order, the "
            "subject of lesson 09; Algorithm 1 loads each block of keys once (section 3, line 5).",
            queries_outside,
        ),
        Mistake(
            "You keep O un-normalized and divide in a pass of its own. That is one more load and store of O; eq. 8.4 "
            "needs none.",
            last_pass,
        ),
        Mistake(
            "Scores cross the border of SRAM: you store S and load it again, N·M elements each way. A tile of scores "
            "is used at once and forgotten (section 3, lines 9 to 12).",
            in_hbm,
        ),
    ),
    costs=(
        Cost(share(), 1, "It moves {found:.2f} times the elements that Algorithm 1 does, with N = 26, M = 28 and "
             "tiles of 4 by 10; costs.forward(\"flash\", …) gives the count."),
    ),
)
