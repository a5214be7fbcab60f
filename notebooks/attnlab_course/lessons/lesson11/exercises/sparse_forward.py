"""Lesson 11, ★★★: Algorithm 5 on the machine; hidden tiles are neither loaded nor computed."""

from functools import partial
from typing import Any

from attnlab import costs
from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import levels, lifted
from attnlab_course.checker.inputs import qkv, tiles
from attnlab_course.checker.machines import bench, machine_costs, tiled_capacity
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


def call(
    n: int, m: int, d: int, dv: int, block_q: int, block_k: int, rows: str, poison: bool = False, level: Any = None
) -> tuple:
    """Arguments of a call. ``rows``: the block mask, such as "110 011"; ``poison``: NaN where nobody looks; ``level``:
    where the scores of each query lie."""
    (q, k, v), seen = qkv(n, m, d, dv), tiles(rows)
    if level is not None:
        q, k = lifted(q, k, level)
    if poison:
        keys = np.repeat(seen.any(0), block_k)[:m]
        q[~np.repeat(seen.any(1), block_q)[:n]] = k[~keys] = v[~keys] = np.nan
    return *bench({"Q": q, "K": k, "V": v}, tiled_capacity(d + dv, block_q, block_k)), seen, block_q, block_k


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


SEEN = "101 100 000 101 100 100 101"  # the second block of keys is hidden
MANY_KEYS = " ".join(["1" * 16, "10" * 8, "1" * 16, "01" * 8])  # K is four times as large as SRAM
TOP = "np.where(m_new == -np.inf, 0, m_new)"
MASKED = (  # all tiles are computed, and the hidden ones masked
    "if block_mask[:, j].any():", "if True:", "if block_mask[i, j]:", "if True:",
    "s = q_i @ k_j.T / d**0.5", "s = np.where(block_mask[i, j], q_i @ k_j.T / d**0.5, -np.inf)",
    "m_i - m_new", f"m_i - {TOP}", "s - m_new", f"s - {TOP}", "/ l_new", "/ np.where(l_new == 0, 1, l_new)",
)
LOADS = "k_j, v_j = machine.load(k, cols), machine.load(v, cols)"

EXERCISE = Exercise(
    lesson="11", stars=3, reference=sparse_forward, where="eq. 11.4", cases=cases,
    hints=(
        "It's the program of lesson 08 with two questions: before you load a block of keys, whether any query sees it, "
        "block_mask[:, J].any(); before you load a block of queries, block_mask[I, J].",
        "Start with machine.full for O = 0, l = 0 and m = −∞: then a query that sees nothing is right without a visit.",
        "for J, cols in enumerate(blocks(k.shape[0], block_k)) gives number and slice; inside, one step of eq. 8.4.",
    ),
    mistakes=(
        Mistake("You compute hidden tiles and mask them. The values may be right, but every key, value and query has "
                "been loaded, and the count doesn't depend on s: eq. 11.5. Skipping means not loading; see what NaN "
                "in unread blocks does to you.",
                but(*MASKED), but(*MASKED, "@ v_j", "@ np.nan_to_num(v_j)")),
        Mistake("Your hidden tiles still count in l, so the weights of a row add up to less than 1: leave such a tile "
                "out of both sums (eq. 11.8).",
                but(*MASKED[:4], "@ v_j", "@ (block_mask[i, j] * np.nan_to_num(v_j))")),
        Mistake(phrases.mask_transposed("eq. 11.1"), but("block_mask[", "block_mask.T[")),
        Mistake("You load a block of keys and values before you ask whether any query sees it. That's how the paper "
                "prints Algorithm 5, but M_Z in eq. 11.5 counts only keys that some query sees.",
                but("block_mask[:, j].any()", "True"),
                but(f"if block_mask[:, j].any():\n            with machine.scope():\n                {LOADS}",
                    f"with machine.scope():\n            {LOADS}\n            if block_mask[:, j].any():")),
        Mistake(phrases.loads_inside("eq. 11.5"), but(LOADS, "pass", "s = q_i", f"{LOADS}; s = q_i")),
    ),
    costs=machine_costs(
        partial(call, 26, 28, 8, 8, 4, 10, SEEN, True),
        costs.forward("flash", 26, 28, 8, 8, block_q=4, block_k=10, block_mask=tiles(SEEN)).elements, "Algorithm 5",
        'with N = 26, M = 28 and tiles of 4 by 10, 9 of 21 visible; costs.forward("flash", …, block_mask=…) gives the '
        "count", partial(call, 32, 512, 16, 16, 8, 32, MANY_KEYS),
    ),
)
