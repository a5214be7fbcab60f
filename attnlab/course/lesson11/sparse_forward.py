"""Lesson 11, ★★★: Algorithm 5 on the machine; hidden tiles are neither loaded nor computed."""

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
Step = Callable[[Array, Array, Array, Array, Array], Results]


def sparse_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, block_mask: Array, block_q: int, block_k: int
) -> Results:
    """Algorithm 5 of references q (N, D), k (M, D), v (M, Dv); scale 1/√D → machine.fetch of O, l and m."""
    o, l, m = start(machine, q, v)
    for j, cols in enumerate(blocks(k.shape[0], block_k)):
        if block_mask[:, j].any():
            with machine.scope():
                k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                for i, rows in enumerate(blocks(q.shape[0], block_q)):
                    if block_mask[i, j]:
                        visit(machine, (q, o, l, m), k_j, v_j, rows, step)
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def start(machine: Machine, q: Ref, v: Ref) -> tuple[Ref, Ref, Ref]:
    """O = 0, l = 0, m = −∞ in HBM."""
    n, dv = q.shape[0], v.shape[1]
    o = machine.full("O", (n, dv), 0.0, q.dtype)
    return o, machine.full("l", (n,), 0.0, q.dtype), machine.full("m", (n,), -np.inf, q.dtype)


def visit(
    machine: Machine, arrays: tuple[Ref, ...], k_j: Array, v_j: Array, rows: slice, update: Step,
    change: Callable[[Array], Array] = lambda s: s,
) -> None:
    """One tile; ``change`` is what a wrong answer does to its scores."""
    with machine.scope():
        q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in arrays)
        s = change(np.asarray(q_i @ k_j.T / q_i.shape[1] ** 0.5))
        with np.errstate(invalid="ignore"):
            new = update(o_i, l_i, m_i, s, v_j)
        for ref, array in zip(arrays[1:], new):
            machine.store(ref, rows, machine.keep("new", np.asarray(array)))


def finite(m: Array) -> Array:
    """0 for −∞."""
    return np.where(m == -np.inf, 0.0, m)


def step(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """Eq. 8.4, guarded for a tile in which nothing is seen."""
    m_new = np.maximum(m, s.max(1))
    old, p = l * np.exp(m - finite(m_new)), np.exp(s - finite(m_new)[:, None])
    l_new = old + p.sum(1)
    return (old[:, None] * o + p @ v) / np.where(l_new == 0, 1, l_new)[:, None], l_new, m_new


def call(n: int, m: int, d: int, dv: int, block_q: int, block_k: int, rows: str, poison: bool = False) -> tuple:
    """Arguments of a call. ``rows``: the block mask, such as "110 011"; ``poison``: NaN where nobody looks."""
    rng = np.random.default_rng(n + 100 * m)
    tiles = np.array([[x == "1" for x in row] for row in rows.split()])
    inputs = {name: rng.normal(size=shape) for name, shape in (("Q", (n, d)), ("K", (m, d)), ("V", (m, dv)))}
    if poison:
        seen = np.repeat(tiles.any(1), block_q)[:n], np.repeat(tiles.any(0), block_k)[:m]
        for array, whole in zip(inputs.values(), (seen[0], seen[1], seen[1])):
            array[~whole] = np.nan
    capacity = 2 * block_q * block_k + (2 * block_q + block_k) * (d + dv) + 10 * block_q
    return *bench(inputs, capacity), tiles, block_q, block_k


def cases() -> list[Case]:
    """From one tile to ragged lengths with poison."""
    calls = [
        ("ONE: one query, one key, one tile, visible", (1, 1, 1, 1, 1, 1, "1")),
        ("EMPTY: one query, one key, one tile, hidden", (1, 1, 1, 1, 1, 1, "0")),
        ("N = 2, M = 6, tiles of 2 by 3, both visible", (2, 6, 4, 2, 2, 3, "11")),
        ("N = 2, M = 6, tiles of 2 by 3, the second hidden", (2, 6, 4, 2, 2, 3, "10")),
        ("N = 4, M = 6, tiles of 2 by 3, block mask 10 01", (4, 6, 4, 4, 2, 3, "10 01")),
        ("N = M = 6, tiles of 2 by 2, block mask 110 001 101", (6, 6, 4, 4, 2, 2, "110 001 101")),
        ("EMPTY: N = 6, M = 4, tiles of 2 by 2, block mask 11 00 01: the second block of queries sees nothing",
         (6, 4, 4, 3, 2, 2, "11 00 01")),
        ("POISON: N = M = 8, tiles of 2 by 2, block mask 1010 1000 0000 0001; NaN in the keys and values of block 1 "
         "and in the queries of block 2, which nobody needs", (8, 8, 4, 4, 2, 2, "1010 1000 0000 0001", True)),
        ("RAGGED: N = 9, M = 14, tiles of 4 by 5, block mask 101 010 111: the last blocks have 1 query and 4 keys",
         (9, 14, 4, 3, 4, 5, "101 010 111")),
    ]
    return [Case(label, call(*args)) for label, args in calls]


def share() -> Measure:
    """Elements moved over those of Algorithm 5: N = 26, M = 28, tiles of 4 by 10, the second block of keys hidden."""

    def found(answer: Function, library: str) -> float:
        arguments = call(26, 28, 8, 8, 4, 10, "101 100 000 101 100 100 101", True)
        answer(*arguments)
        machine, tiles = arguments[0], arguments[4]
        return machine.elements / costs.forward(
            "flash", 26, 28, 8, 8, block_q=4, block_k=10, block_mask=tiles
        ).elements  # fmt: skip

    return found


def program(
    update: Step = step, *, change: Callable[[Array], Array] | None = None, clean: bool = False, early: bool = False,
    inner: bool = False, transposed: bool = False, inverted: bool = False, whole: bool = False, scaled: bool = True,
) -> Callable[..., Results]:
    """A wrong answer: Algorithm 5 with one thing changed. With ``change`` hidden tiles are computed, too."""

    def wrong(
        machine: Machine, q: Ref, k: Ref, v: Ref, block_mask: Array, block_q: int, block_k: int
    ) -> Results:
        o, l, m = start(machine, q, v)
        tiles = block_mask.T if transposed else ~block_mask if inverted else block_mask
        rescale = (lambda s: s) if scaled else (lambda s: s * q.shape[1] ** 0.5)
        for j, cols in enumerate(blocks(k.shape[0], block_k)):
            column = [i for i in range(-(-q.shape[0] // block_q)) if change or tiles[i, j]]
            short = whole and cols.stop - cols.start < block_k
            if (not column and not early) or short:
                continue
            with machine.scope():
                if not inner:
                    k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                for i in column:
                    rows = slice(i * block_q, min((i + 1) * block_q, q.shape[0]))
                    with machine.scope():
                        if inner:
                            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                        used = np.nan_to_num(v_j) if clean else v_j
                        if tiles[i, j]:
                            visit(machine, (q, o, l, m), k_j, used, rows, update, rescale)
                        else:
                            visit(machine, (q, o, l, m), k_j, used, rows, update, change)
        return machine.fetch(o), machine.fetch(l), machine.fetch(m)

    return wrong


def dense_l(machine: Machine, q: Ref, k: Ref, v: Ref, block_mask: Array, block_q: int, block_k: int) -> Results:
    """Hidden tiles are added to l and m, but not to O."""
    o, l, m = start(machine, q, v)
    for j, cols in enumerate(blocks(k.shape[0], block_k)):
        with machine.scope():
            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
            for i, rows in enumerate(blocks(q.shape[0], block_q)):
                visit(machine, (q, o, l, m), k_j, v_j if block_mask[i, j] else 0 * np.nan_to_num(v_j), rows, step)
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def queries_outside(*, reset: str) -> Callable[..., Results]:
    """FlashAttention-2's order. ``reset``: "always", "first" (at block 0 if it is visible), or "skip" (empty rows)."""

    def wrong(
        machine: Machine, q: Ref, k: Ref, v: Ref, block_mask: Array, block_q: int, block_k: int
    ) -> Results:
        refs = start(machine, q, v)
        if reset == "skip":
            refs = tuple(machine.empty(f"{ref.name} of mine", ref.shape, ref.dtype) for ref in refs)
        state: tuple | None = None
        for i, rows in enumerate(blocks(q.shape[0], block_q)):
            if reset == "skip" and not block_mask[i].any():
                continue
            size = rows.stop - rows.start
            fresh = np.zeros((size, v.shape[1])), np.zeros(size), np.full(size, -np.inf)
            if reset != "first" or state is None or block_mask[i, 0]:
                state = fresh
            state = tuple(x[:size] for x in state)
            with machine.scope():
                q_i = machine.load(q, rows)
                for j, cols in enumerate(blocks(k.shape[0], block_k)):
                    if block_mask[i, j]:
                        with machine.scope():
                            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                            state = tuple(map(np.array, step(*state, q_i @ k_j.T / q.shape[1] ** 0.5, v_j)))
                for ref, array in zip(refs, state):
                    machine.store(ref, rows, machine.keep("new", array))
        return tuple(machine.fetch(ref) for ref in refs)

    return wrong


def not_undone(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """O is not multiplied by the old l."""
    _, l_new, m_new = step(o, l, m, s, v)
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    return (a[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def no_factor(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """The old terms are not rescaled."""
    m_new = np.maximum(m, s.max(1))
    p = np.exp(s - m_new[:, None])
    l_new = l + p.sum(1)
    return (l[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def unguarded(o: Array, l: Array, m: Array, s: Array, v: Array) -> Results:
    """−∞ − (−∞)."""
    m_new = np.maximum(m, s.max(1))
    a, p = np.exp(m - m_new), np.exp(s - m_new[:, None])
    l_new = a * l + p.sum(1)
    return ((l * a)[:, None] * o + p @ v) / l_new[:, None], l_new, m_new


def hide(s: Array) -> Array:
    """All scores −∞."""
    return np.full_like(s, -np.inf)


EXERCISE = Exercise(
    lesson="11", stars=3, reference=sparse_forward, cases=cases,
    hints=(
        "It is the program of lesson 08 with two questions: before a block of keys is loaded, whether any query sees "
        "it, block_mask[:, J].any(); before a block of queries is loaded, block_mask[I, J].",
        "for J, cols in enumerate(blocks(k.shape[0], block_k)) gives number and slice. with machine.scope() in both "
        "loops releases what was loaded.",
        "Start with machine.full for O = 0, l = 0 and m = −∞: a query that sees nothing is then right without a visit.",
        "Inside: load Q_i, O_i, l_i, m_i; one step of eq. 8.4; machine.store(o, rows, machine.keep(\"O\", o_new)), and "
        "so for l and m. After the loops return the three machine.fetch.",
    ),
    mistakes=(
        Mistake(
            "You compute hidden tiles and mask them. The values may be right, but every key, value and query has been "
            "loaded, and the count does not depend on s: eq. 11.5. Skipping means not loading; see what NaN in unread "
            "blocks does to you.",
            program(change=hide), program(change=hide, clean=True), program(unguarded, change=hide),
        ),
        Mistake(
            "You multiply scores by the mask. A score of 0 is a vote, e^0: hidden tiles are left out of the fold, "
            "eq. 11.4.",
            program(change=lambda s: 0 * s), program(change=lambda s: 0 * np.nan_to_num(s), clean=True),
        ),
        Mistake(
            "Your l (and m) contains the hidden tiles. They leave the denominator, too: the fold of eq. 11.4 runs over "
            "the visible tiles alone; what you return is too small by 1 − h, eq. 11.8.",
            dense_l,
        ),
        Mistake(
            "A block of queries that sees nothing keeps what was there before, NaN or another block's result. Its "
            "O is 0, its l is 0, its m is −∞: fill them at the start, the empty fold of eq. 11.4.",
            queries_outside(reset="first"), queries_outside(reset="skip"),
        ),
        Mistake(
            "You use the block mask transposed. Its rows are blocks of queries: block_mask[I, J], eq. 11.1.",
            program(transposed=True),
        ),
        Mistake(
            "You skip where the block mask is True. True means visible: eq. 11.1.",
            program(inverted=True),
        ),
        Mistake(
            "O is stored divided by l: multiply it by the old l before you add to it, eq. 8.4.",
            program(not_undone),
        ),
        Mistake(
            "Nothing is rescaled when the maximum moves: both old terms take the factor e^{m − m'}, eq. 8.4.",
            program(no_factor),
        ),
        Mistake(
            "Your scores are not scaled by 1/√D: eq. 8.1.",
            program(scaled=False),
        ),
        Mistake(
            "The last block of keys is left out if it is shorter. There are ⌈M / B_c⌉ of them: eq. 11.1.",
            program(whole=True),
        ),
        Mistake(
            "You load a block of keys and values before you ask whether any query sees it. That is how the paper "
            "prints Algorithm 5, but M_Z in eq. 11.5 counts only keys that somebody sees.",
            program(early=True),
        ),
        Mistake(
            "You load K_J and V_J at every visit. They are loaded once, in the outer loop, and stay on chip: the first "
            "term of eq. 11.5.",
            program(inner=True),
        ),
        Mistake(
            "Your loops are the other way round, queries outside, as in FlashAttention-2 and in tiled_attention. "
            "Algorithm 5 loads each block of keys once: the first term of eq. 11.5.",
            queries_outside(reset="always"),
        ),
    ),
    costs=(
        Cost(share(), 1, "It moves {found:.2f} times the elements that Algorithm 5 does, with N = 26, M = 28 and "
             "tiles of 4 by 10, 9 of 21 visible; costs.forward(\"flash\", …, block_mask=…) gives the count."),
    ),
)
