"""Lesson 11, ★★★: Algorithm 5 on the machine; hidden tiles are neither loaded nor computed."""

from functools import partial
from typing import Any

from attnlab import costs
from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import levels, lifted
from attnlab_course.checker.machines import bench, tiled_capacity
from attnlab_course.checker.traffic import machine_costs
from attnlab_course.instruments.machine import Machine, Ref

import numpy as np

Array = np.ndarray
Results = tuple[Array, Array, Array]


def sparse_forward(
    machine: Machine, q: Ref, k: Ref, v: Ref, block_mask: Array, block_q: int, block_k: int
) -> Results:
    """Algorithm 5 of references q (N, D), k (M, D), v (M, Dv); scale 1/√D → machine.fetch of O, l and m."""
    (n, d), dv = q.shape, v.shape[1]
    o, l = machine.full("O", (n, dv), 0.0, q.dtype), machine.full("l", (n,), 0.0, q.dtype)
    m = machine.full("m", (n,), -np.inf, q.dtype)
    for j, cols in enumerate(blocks(k.shape[0], block_k)):
        if block_mask[:, j].any():
            with machine.scope():
                k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                for i, rows in enumerate(blocks(n, block_q)):
                    if block_mask[i, j]:
                        with machine.scope():
                            q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))
                            s = q_i @ k_j.T / d**0.5
                            m_new = np.maximum(m_i, s.max(1))
                            a, p = np.exp(m_i - m_new), np.exp(s - m_new[:, None])
                            l_new = a * l_i + p.sum(1)
                            o_new = ((a * l_i)[:, None] * o_i + p @ v_j) / l_new[:, None]  # eq. 8.4
                            for ref, x in ((o, o_new), (l, l_new), (m, m_new)):
                                machine.store(ref, rows, machine.keep(ref.name, x))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def queries_outside(
    machine: Machine, q: Ref, k: Ref, v: Ref, block_mask: Array, block_q: int, block_k: int
) -> Results:
    """FlashAttention-2's order."""
    (n, d), dv = q.shape, v.shape[1]
    o, l = machine.full("O", (n, dv), 0.0, q.dtype), machine.full("l", (n,), 0.0, q.dtype)
    m = machine.full("m", (n,), -np.inf, q.dtype)
    for i, rows in enumerate(blocks(n, block_q)):
        with machine.scope():
            q_i = machine.load(q, rows)
            o_i, l_i, m_i = np.zeros((len(q_i), dv)), np.zeros(len(q_i)), np.full(len(q_i), -np.inf)
            for j, cols in enumerate(blocks(k.shape[0], block_k)):
                if block_mask[i, j]:
                    with machine.scope():
                        k_j, v_j = machine.load(k, cols), machine.load(v, cols)
                        s = q_i @ k_j.T / d**0.5
                        m_new = np.maximum(m_i, s.max(1))
                        a, p = np.exp(m_i - m_new) * l_i, np.exp(s - m_new[:, None])
                        l_i, m_i = a + p.sum(1), m_new
                        o_i = (a[:, None] * o_i + p @ v_j) / l_i[:, None]
            for ref, x in ((o, o_i), (l, l_i), (m, m_i)):
                machine.store(ref, rows, machine.keep(ref.name, x))
    return machine.fetch(o), machine.fetch(l), machine.fetch(m)


def call(
    n: int, m: int, d: int, dv: int, block_q: int, block_k: int, rows: str, poison: bool = False, level: Any = None
) -> tuple:
    """Arguments of a call. ``rows``: the block mask, such as "110 011"; ``poison``: NaN where nobody looks; ``level``:
    where the scores of each query lie."""
    rng = np.random.default_rng(n + 100 * m)
    tiles = np.array([[x == "1" for x in row] for row in rows.split()])
    inputs = {name: rng.normal(size=shape) for name, shape in (("Q", (n, d)), ("K", (m, d)), ("V", (m, dv)))}
    if level is not None:
        inputs["Q"], inputs["K"] = lifted(inputs["Q"], inputs["K"], level)
    if poison:
        rows_seen, keys_seen = np.repeat(tiles.any(1), block_q)[:n], np.repeat(tiles.any(0), block_k)[:m]
        for name, seen in (("Q", rows_seen), ("K", keys_seen), ("V", keys_seen)):
            inputs[name][~seen] = np.nan
    return *bench(inputs, tiled_capacity(d + dv, block_q, block_k)), tiles, block_q, block_k


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
    far = {f"{label}; tiles of 2 by 3, block mask 10 11": (4, 6, 4, 4, 2, 3, "10 11", False, level)
           for label, level in levels(4).items()}
    return [Case(label, call(*args)) for label, args in [*calls, *far.items()]]


SIZES, SEEN = (26, 28, 8, 8, 4, 10), "101 100 000 101 100 100 101"  # the second block of keys is hidden


def needed() -> int:
    """Elements that Algorithm 5 moves there."""
    (n, m, d, dv, block_q, block_k), (*_, tiles, _, _) = SIZES, call(*SIZES, SEEN)
    return costs.forward("flash", n, m, d, dv, block_q=block_q, block_k=block_k, block_mask=tiles).elements


def large_call() -> tuple:
    """A call with many keys: K is four times as large as SRAM, and all scores are eight times."""
    return call(32, 512, 16, 16, 8, 32, " ".join(["1" * 16, "10" * 8, "1" * 16, "01" * 8]))


def zero_if_empty(m: Array) -> Array:
    """0 for −∞."""
    return np.where(m == -np.inf, 0.0, m)


EVERY_TILE = "if block_mask[:, j].any():", "if True:", "if block_mask[i, j]:", "if True:"
HIDDEN = "s = q_i @ k_j.T / d**0.5", "s = np.where(block_mask[i, j], q_i @ k_j.T / d**0.5, -np.inf)"
GUARDED = (  # for a tile of which nothing is seen
    "m_i - m_new", "m_i - zero_if_empty(m_new)", "s - m_new", "s - zero_if_empty(m_new)",
    "/ l_new", "/ np.where(l_new == 0, 1, l_new)",
)
CLEAN = "@ v_j", "@ np.nan_to_num(v_j)"
LOADS = "k_j, v_j = machine.load(k, cols), machine.load(v, cols)"

EXERCISE = Exercise(
    lesson="11", stars=3, reference=sparse_forward, cases=cases,
    hints=(
        "It's the program of lesson 08 with two questions: before you load a block of keys, whether any query sees it, "
        "block_mask[:, J].any(); before you load a block of queries, block_mask[I, J].",
        "for J, cols in enumerate(blocks(k.shape[0], block_k)) gives number and slice. `with machine.scope()` in both "
        "loops releases what was loaded.",
        "Start with machine.full for O = 0, l = 0 and m = −∞: then a query that sees nothing is right without a visit.",
        "Inside: load Q_i, O_i, l_i, m_i; one step of eq. 8.4; machine.store(o, rows, machine.keep(\"O\", o_new)), and "
        "the same for l and m. After the loops, return the three machine.fetch.",
    ),
    mistakes=(
        Mistake("You compute hidden tiles and mask them. The values may be right, but every key, value and query has "
                "been loaded, and the count doesn't depend on s: eq. 11.5. Skipping means not loading; see what NaN "
                "in unread blocks does to you.",
                but(*EVERY_TILE, *HIDDEN, *GUARDED), but(*EVERY_TILE, *HIDDEN, *GUARDED, *CLEAN),
                but(*EVERY_TILE, *HIDDEN)),
        Mistake(phrases.hidden_zero("eq. 11.4", what="Hidden tiles"),
                but(*EVERY_TILE, "d**0.5", "d**0.5 * block_mask[i, j]"),
                but(*EVERY_TILE, "s = q_i @ k_j.T", "s = block_mask[i, j] * np.nan_to_num(q_i @ k_j.T)", *CLEAN)),
        Mistake(phrases.hidden_in_l("eq. 11.8"),
                but(*EVERY_TILE, "@ v_j", "@ (block_mask[i, j] * np.nan_to_num(v_j))")),
        Mistake("A block of queries that sees nothing keeps what was there before, NaN or another block's result. Its "
                "O is 0, its l is 0, its m is −∞: fill them in at the start, the empty fold of eq. 11.4.",
                but("o_i, l_i, m_i = np", "if i == 0 or block_mask[i, 0]: o_i, l_i, m_i = np", of=queries_outside),
                but("0.0, q.dtype", "np.nan, q.dtype", "-np.inf, q.dtype", "np.nan, q.dtype", "blocks(n, block_q)):",
                    "blocks(n, block_q)):\n        if not block_mask[i].any(): continue", of=queries_outside)),
        Mistake(phrases.mask_transposed("eq. 11.1"), but("block_mask[", "block_mask.T[")),
        Mistake(phrases.mask_turned("eq. 11.1"), but("block_mask[", "(~block_mask)[")),
        Mistake(phrases.divided_already("eq. 8.4"), but("(a * l_i)[:, None]", "a[:, None]")),
        Mistake(phrases.rescales_nothing("eq. 8.4", sums="O and l are", factor="e^(m − m')"), but("a * l_i", "l_i")),
        Mistake(phrases.starts_at_number("eq. 4.10"),
                *(but("s.max(1)", f"np.maximum(s.max(1), {start})") for start in ("0", "-1e3", "-1e4")),
                *(but("-np.inf, q", f"{start}, q") for start in ("0.0", "-1e3", "-1e4", "-1e9", "-1e30"))),
        Mistake(phrases.unshifted("eq. 8.2"),
                but("np.exp(m_i - m_new), np.exp(s - m_new[:, None])", "np.ones_like(m_i), np.exp(s)",
                    "machine.fetch(l), ", "machine.fetch(l) * np.exp(-np.maximum(machine.fetch(m), -700)), ")),
        Mistake(phrases.unscaled("eq. 8.1"), but(" / d**0.5", "")),
        Mistake(phrases.scaled_by_values("eq. 8.1"), but("d**0.5", "dv**0.5")),
        Mistake(phrases.last_one("eq. 11.1", what="The keys", block="block"),
                but("blocks(k.shape[0], ", "blocks(k.shape[0] // block_k * block_k, ")),
        Mistake("You load a block of keys and values before you ask whether any query sees it. That's how the paper "
                "prints Algorithm 5, but M_Z in eq. 11.5 counts only keys that some query sees.",
                but("if block_mask[:, j].any():", "if True:")),
        Mistake(phrases.loads_inside("eq. 11.5"), but(LOADS, "pass", "s = q_i", f"{LOADS}; s = q_i")),
        Mistake(phrases.queries_outside("eq. 11.5", algorithm="Algorithm 5"), queries_outside),
    ),
    costs=machine_costs(
        partial(call, *SIZES, SEEN, True), needed(), "Algorithm 5",
        'with N = 26, M = 28 and tiles of 4 by 10, 9 of 21 visible; costs.forward("flash", …, block_mask=…) gives the '
        "count", large_call,
    ),
)
