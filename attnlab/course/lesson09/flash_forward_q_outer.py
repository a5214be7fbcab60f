"""Lesson 09, ★★★: the loops exchanged, every load and store written out."""

from collections.abc import Callable

from attnlab import costs
from attnlab.check.promises import Measure
from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake
from attnlab.course.lesson08.flash_forward import call, small
from attnlab.machine import Machine, Ref
from attnlab.geometry import blocks

import numpy as np

Array = np.ndarray
Results = tuple[Array, Array]
State = tuple[Array, Array, Array]


def flash_forward_q_outer(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Attention of references q (N, D), k (M, D), v (M, Dv); scale 1/√D, queries outside → machine.fetch of O, lse."""
    o, lse = results(machine, q, v)
    for rows in blocks(q.shape[0], block_q):
        with machine.scope():
            q_i, state = machine.load(q, rows), begin(rows, v)
            for cols in blocks(k.shape[0], block_k):
                with machine.scope():
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                    state = fold(*state, scores(q_i, k_j), v_j)
            finish(machine, o, lse, rows, state)
    return machine.fetch(o), machine.fetch(lse)


def results(machine: Machine, q: Ref, v: Ref) -> tuple[Ref, Ref]:
    """O and lse in HBM, not yet written."""
    n = q.shape[0]
    return machine.empty("O", (n, v.shape[1]), q.dtype), machine.empty("lse", (n,), q.dtype)


def begin(rows: slice, v: Ref) -> State:
    """O, l and m of a block of queries that has met no key."""
    r = rows.stop - rows.start
    return np.zeros((r, v.shape[1])), np.zeros(r), np.full(r, -np.inf)


def scores(q_i: Array, k_j: Array) -> Array:
    """One tile of scores."""
    return q_i @ k_j.T / q_i.shape[1] ** 0.5


def parts(m: Array, s: Array) -> State:
    """m', e^{m − m'} and e^{s − m'}."""
    m_new = np.maximum(m, s.max(1))
    return m_new, np.exp(m - m_new), np.exp(s - m_new[:, None])


def fold(o: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """The online update; O is not divided."""
    m_new, a, p = parts(m, s)
    return a[:, None] * o + p @ v, a * l + p.sum(1), m_new


def finish(machine: Machine, o: Ref, lse: Ref, rows: slice, state: State) -> None:
    """Divide once, store O and lse."""
    o_i, l_i, m_i = state
    machine.store(o, rows, machine.keep("O", np.asarray(o_i / l_i[:, None])))
    machine.store(lse, rows, machine.keep("lse", np.asarray(m_i + np.log(l_i))))


def cases() -> list[Case]:
    """From one tile to ragged lengths."""
    return [
        *small(),
        Case("HIGH: N = M = 12, D = Dv = 4, tiles of 4 by 2, scores in the thousands",
             call(12, 12, 4, 4, 4, 2, 3000.0)),
        Case("N = M = 24, D = Dv = 4, tiles of 6 by 2", call(24, 24, 4, 4, 6, 2)),
        Case("RAGGED: N = 6, M = 4, tiles of 4 by 4: the last block of queries has two", call(6, 4, 4, 3, 4, 4)),
        Case("RAGGED: N = 14, M = 9, tiles of 5 by 4: the last blocks have four queries and one key",
             call(14, 9, 4, 3, 5, 4)),
    ]


def moved(answer: Function) -> float:
    """Elements moved over those of eq. 9.10; N = 26, M = 30, D = Dv = 8, tiles of 13 by 3."""
    arguments = call(26, 30, 8, 8, 13, 3)
    machine = arguments[0]
    answer(*arguments)
    return machine.elements / costs.forward("flash2", 26, 30, 8, 8, block_q=13, block_k=3).elements


def share(inverse: bool = False) -> Measure:
    """The measure of the elements moved, or of how many times too few they are."""

    def found(answer: Function, library: str) -> float:
        times = moved(answer)
        return (1 / times if times else np.inf) if inverse else times

    return found


Step = Callable[[Array, Array, Array, Array, Array], State]


def only_l(o: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """O is not rescaled."""
    m_new, a, p = parts(m, s)
    return o + p @ v, a * l + p.sum(1), m_new


def only_o(o: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """l is not rescaled."""
    m_new, a, p = parts(m, s)
    return a[:, None] * o + p @ v, l + p.sum(1), m_new


def neither(o: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """Nothing is rescaled."""
    m_new, _, p = parts(m, s)
    return o + p @ v, l + p.sum(1), m_new


def divided(o: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """O is divided in each step and not multiplied back."""
    o, l, m = fold(o, l, m, s, v)
    return o / l[:, None], l, m


def normalized(o: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """Right, with O divided all along, as in algorithm 1."""
    o, l_new, m = fold(o * l[:, None], l, m, s, v)
    return o / l_new[:, None], l_new, m


def inverse(o: Array, l: Array, m: Array, s: Array, v: Array) -> State:
    """The factor inverted."""
    m_new, a, p = parts(m, s)
    return o / a[:, None] + p @ v, a * l + p.sum(1), m_new


def program(
    step: Step = fold, *, whole_q: bool = False, whole_k: bool = False, scaled: bool = True, carried: bool = True,
    division: bool = True, logarithm: bool = False, freed: bool = True, inner: bool = False,
) -> Callable[..., Results]:
    """A wrong answer: the reference with one thing changed."""

    def wrong(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
        o, lse = results(machine, q, v)
        for rows in blocks(q.shape[0] // block_q * block_q if whole_q else q.shape[0], block_q):
            with machine.scope():
                q_i, state = machine.load(q, rows), begin(rows, v)
                for cols in blocks(k.shape[0] // block_k * block_k if whole_k else k.shape[0], block_k):
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                    again = (machine.load(q, rows),) if inner else ()
                    s = scores(q_i, k_j) * (1 if scaled else q.shape[1] ** 0.5)
                    state = step(*(state if carried else begin(rows, v)), s, v_j)
                    if freed:
                        machine.free(k_j, v_j, *again)
                o_i, l_i, m_i = state
                o_i = o_i / l_i[:, None] if division else o_i
                machine.store(o, rows, machine.keep("O", np.asarray(o_i)))
                lse_i = np.log(l_i) + (0 if logarithm else m_i)
                machine.store(lse, rows, machine.keep("lse", np.asarray(lse_i)))
        return machine.fetch(o), machine.fetch(lse)

    return wrong


def undivided(step: Step) -> Callable[..., Results]:
    """A wrong answer whose step divides already."""
    return program(step, division=False)


def all_keys(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """K and V are loaded whole and kept."""
    o, lse = results(machine, q, v)
    with machine.scope():
        k_all, v_all = machine.load(k), machine.load(v)
        for rows in blocks(q.shape[0], block_q):
            with machine.scope():
                q_i, state = machine.load(q, rows), begin(rows, v)
                for cols in blocks(k.shape[0], block_k):
                    state = fold(*state, scores(q_i, k_all[cols]), v_all[cols])
                finish(machine, o, lse, rows, state)
    return machine.fetch(o), machine.fetch(lse)


def never_freed(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
    """Nothing is released."""
    o, lse = results(machine, q, v)
    for rows in blocks(q.shape[0], block_q):
        q_i, state = machine.load(q, rows), begin(rows, v)
        for cols in blocks(k.shape[0], block_k):
            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
            state = fold(*state, scores(q_i, k_j), v_j)
        finish(machine, o, lse, rows, state)
    return machine.fetch(o), machine.fetch(lse)


def starts(machine: Machine, q: Ref, v: Ref) -> tuple[Ref, Ref, Ref]:
    """O, l and m in HBM, at their starting values."""
    n, dv = q.shape[0], v.shape[1]
    o = machine.full("O", (n, dv), 0.0, q.dtype)
    return o, machine.full("l", (n,), 0.0, q.dtype), machine.full("m", (n,), -np.inf, q.dtype)


def meet(machine: Machine, refs: tuple, q_i: Array, keys: tuple, rows: slice, step: Step) -> None:
    """One tile, with O, l and m loaded before and stored after."""
    state = step(*(machine.load(x, rows) for x in refs), scores(q_i, keys[0]), keys[1])
    for ref, array in zip(refs, state):
        machine.store(ref, rows, machine.keep(ref.name, np.asarray(array)))


def from_hbm(machine: Machine, refs: tuple, step: Step, block_q: int) -> Results:
    """O and lse from O, l and m in HBM; read and divided on the chip if they are not yet."""
    o, l, m = refs
    lse = machine.empty("lse", l.shape, l.dtype)
    for rows in blocks(l.shape[0], block_q):
        with machine.scope():
            l_i, m_i = machine.load(l, rows), machine.load(m, rows)
            machine.store(lse, rows, machine.keep("lse", m_i + np.log(l_i)))
            if step is fold:
                machine.store(o, rows, machine.keep("O", machine.load(o, rows) / l_i[:, None]))
    return machine.fetch(o), machine.fetch(lse)


def keys_outside(step: Step) -> Callable[..., Results]:
    """Algorithm 1's order."""

    def wrong(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
        refs = starts(machine, q, v)
        for cols in blocks(k.shape[0], block_k):
            with machine.scope():
                keys = machine.load(k, cols), machine.load(v, cols)
                for rows in blocks(q.shape[0], block_q):
                    with machine.scope():
                        meet(machine, refs, machine.load(q, rows), keys, rows, step)
        return from_hbm(machine, refs, step, block_q)

    return wrong


def state_in_hbm(step: Step) -> Callable[..., Results]:
    """Queries outside, but O, l and m travel in the inner loop."""

    def wrong(machine: Machine, q: Ref, k: Ref, v: Ref, block_q: int, block_k: int) -> Results:
        refs = starts(machine, q, v)
        for rows in blocks(q.shape[0], block_q):
            with machine.scope():
                q_i = machine.load(q, rows)
                for cols in blocks(k.shape[0], block_k):
                    with machine.scope():
                        keys = machine.load(k, cols), machine.load(v, cols)
                        meet(machine, refs, q_i, keys, rows, step)
        return from_hbm(machine, refs, step, block_q)

    return wrong


EXERCISE = Exercise(
    lesson="09",
    stars=3,
    reference=flash_forward_q_outer,
    cases=cases,
    costs=(
        Cost(share(), 1.0, "It moves {found:.2f} times the elements of eq. 9.10."),
        Cost(
            share(inverse=True), 1.0,
            "Eq. 9.10 has {found:.2f} times the elements that it moves: it computes with numbers that it did not "
            "load, or returns some that it did not store.",
        ),
    ),
    hints=(
        "Two loops of blocks(length, size), or of range(0, length, size): queries outside, keys inside. Load Q_i in "
        "the outer loop, K_j and V_j in the inner one.",
        "O_i, l_i and m_i start at 0, 0 and −∞ for each block of queries and stay on the chip while the keys come "
        "by: no loads, no stores of them in the inner loop.",
        "Open with machine.scope() in each of the two loops, so that K_j and V_j are released after each step, and the "
        "block of queries at the end of its pass.",
        "After the inner loop: machine.store(o, rows, machine.keep(\"O\", o_i / l_i[:, None])), the same for lse = m + "
        "log l, and at the very end return machine.fetch(o), machine.fetch(lse).",
    ),
    mistakes=(
        Mistake(
            "Your keys are outside, as in algorithm 1: Q, O, l and m come by in every pass. Let a block of queries "
            "and its state stay, and the keys come by (eq. 9.10).",
            keys_outside(normalized), keys_outside(fold),
        ),
        Mistake(
            "O, l and m travel between HBM and the chip in the inner loop. With the queries outside they can stay: "
            "nothing but K_j and V_j is loaded there, and nothing is stored (eq. 9.10).",
            state_in_hbm(normalized), state_in_hbm(fold),
        ),
        Mistake(
            "You load Q_i again for every block of keys. It stays on the chip for the whole pass: load it in the outer "
            "loop (eq. 9.10 has Q once).",
            program(inner=True),
        ),
        Mistake(
            "SRAM runs over, because K_j and V_j, or whole K and V, stay on the chip. Load the block at hand, and "
            "release it in the inner loop, by machine.scope or machine.free (what must fit is "
            "eq. 8.7).",
            program(freed=False), all_keys,
        ),
        Mistake(
            "You release nothing, so SRAM runs over, and fetch refuses while tiles are held. Open with "
            "machine.scope() in each of the two loops (section 7; what must fit is in eq. 8.7).",
            never_freed,
        ),
        Mistake(
            "You rescale l but not O. Both are sums relative to the maximum so far: the same factor e^{m − m'} "
            "(eq. 4.11).",
            program(only_l),
        ),
        Mistake(
            "You rescale O but not l. Both are sums relative to the maximum so far: the same factor e^{m − m'} "
            "(eq. 4.11).",
            program(only_o),
        ),
        Mistake(
            "Nothing is rescaled when the maximum moves. O and l are multiplied by e^{m − m'} (eq. 4.11).",
            program(neither),
        ),
        Mistake(
            "Your factor is the inverse. Old terms shrink when the maximum grows: multiply by e^{m − m'}, which is 0 "
            "at the first block (eq. 4.11).",
            program(inverse),
        ),
        Mistake(
            "You divide O by l after each block of keys and go on adding to it. Divide once, after the last block "
            "(section 7, above eq. 9.10).",
            undivided(divided), program(divided),
        ),
        Mistake(
            "You never divide by l. O is a sum until its pass is over; divide it then, once (section 7, above eq. "
            "9.10).",
            program(division=False),
        ),
        Mistake(
            "Your lse lacks the maximum: lse = m + log l (eq. 2.5).",
            program(logarithm=True),
        ),
        Mistake(
            "O, l and m begin anew at each block of keys, so that only the last one counts. They begin once for each "
            "block of *queries* (section 7, above eq. 9.10).",
            program(carried=False),
        ),
        Mistake(
            "The last block of queries is left out if it is shorter. There are ⌈N / B_r⌉ blocks (eq. 9.1).",
            program(whole_q=True), program(whole_q=True, whole_k=True),
        ),
        Mistake(
            "The last block of keys is left out if it is shorter. There are ⌈N / B_c⌉ blocks (eq. 9.1).",
            program(whole_k=True),
        ),
        Mistake(
            "Your scores are not scaled by 1/√D (eq. 1.1).",
            program(scaled=False),
        ),
    ),
)
