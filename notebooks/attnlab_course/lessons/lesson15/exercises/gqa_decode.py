"""Lesson 15, ★★★: a step of decoding on the machine, in which every key is loaded once for its group of heads."""

from attnlab import costs
from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import deepest, levels, lifted
from attnlab_course.checker.machines import FREE, bench, beside, largest_loads
from attnlab_course.checker.promises import inverse
from attnlab_course.instruments.machine import Machine, Ref

import numpy as np

Array = np.ndarray


def gqa_decode(machine: Machine, q: Ref, k: Ref, v: Ref, block_k: int) -> Array:
    """One query per head, q (Hq, D), against k (Hk, M, D) and v (Hk, M, Dv), block_k keys at a time → fetch of O."""
    (heads, d), (kv_heads, m, dv) = q.shape, v.shape
    o, group = machine.empty("O", (heads, dv), q.dtype), heads // kv_heads
    for g in range(kv_heads):
        rows = slice(g * group, (g + 1) * group)
        with machine.scope():
            q_g = machine.load(q, rows)
            top, l, acc = np.full(group, -np.inf), np.zeros(group), np.zeros((group, dv))
            for keys in blocks(m, block_k):
                with machine.scope():
                    k_j, v_j = machine.load(k, (g, keys)), machine.load(v, (g, keys))
                    s = q_g @ k_j.T / d**0.5
                    new = np.maximum(top, s.max(1))
                    a, p = np.exp(top - new), np.exp(s - new[:, None])
                    top, l, acc = new, a * l + p.sum(1), a[:, None] * acc + p @ v_j
            machine.store(o, rows, machine.keep("O", acc / l[:, None]))
    return machine.fetch(o)


def call(
    heads: int, kv_heads: int, m: int, d: int, dv: int, block_k: int, scale: float = 1.0, level: Array | None = None
) -> tuple:
    """Arguments of a call; SRAM holds one group and two blocks of keys and values, and not all keys of a head."""
    rng = np.random.default_rng(heads + 100 * m)
    shapes = {"q": (heads, d), "K": (kv_heads, m, d), "V": (kv_heads, m, dv)}
    inputs = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    inputs["q"] *= scale
    if level is not None:
        inputs["q"], inputs["K"] = lifted(inputs["q"], inputs["K"], level)
    group = heads // kv_heads
    capacity = group * (d + 3 * dv + 10) + (2 * block_k + 2) * (d + dv + group)
    return *bench(inputs, capacity), block_k


def cases() -> list[Case]:
    """One head, then one key head for all, then groups, ragged and large."""
    calls = [
        ("ONE: one head, one key", (1, 1, 1, 1, 1, 1)),
        ("one head, four keys in blocks of two", (1, 1, 4, 2, 2, 2)),
        ("MHA: two query heads, two key heads, four keys in blocks of two", (2, 2, 4, 2, 2, 2)),
        ("MQA: two query heads, one key head", (2, 1, 4, 2, 2, 2)),
        ("GQA: four query heads, two key heads, D = 4, Dv = 2", (4, 2, 4, 4, 2, 2)),
        ("RAGGED: the same, seven keys in blocks of three", (4, 2, 7, 4, 2, 3)),
        ("six query heads, two key heads, nine keys in blocks of four", (6, 2, 9, 4, 3, 4)),
        ("forty keys in blocks of two: SRAM cannot hold all keys of a head", (4, 2, 40, 4, 2, 2)),
        ("HIGH: scores of thousands", (6, 2, 9, 4, 3, 4, 3000.0)),
    ]
    far = {f"{label}; a query is a head": (4, 2, 7, 4, 2, 3, 1.0, level) for label, level in levels(4).items()}
    q, k = deepest(2, 4, 4)
    low = *bench({"q": q, "K": k[None], "V": np.eye(4)[None]}, 200), 2
    found = [Case(label, call(*args)) for label, args in [*calls, *far.items()]]
    return [*found, Case("LOW: scores −10¹² to −4·10¹²; two query heads, one key head", low)]


def share(answer: Function, library: str) -> float:
    """Elements moved over the closed form: 24 query heads, three key heads, 30 keys of size 8 in blocks of 7."""
    machine, *rest = call(24, 3, 30, 8, 8, 7)
    answer(machine, *rest)
    return machine.elements / costs.decoding(30, 8, 8, heads=24, kv_heads=3).elements


def block(answer: Function, library: str) -> float:
    """The largest load of K over a block of one key head, in the same call."""
    machine, q, k, v, block_k = call(12, 3, 30, 8, 8, 7)
    return largest_loads(answer, machine, q, k, v, block_k)[k.name] / (block_k * 8)


EXERCISE = Exercise(
    lesson="15", stars=3, reference=gqa_decode, where="eq. 4.8", cases=cases,
    hints=(
        "The loop that matters is the outer one, over the key heads. A key head's G query heads are the rows of one "
        "tile.",
        "rows = slice(g * G, (g + 1) * G) are the query heads of key head g; machine.load(k, (g, keys)) is a block of "
        "its keys.",
        "Inside it is the fold of lesson 08 with queries outside: m, l and o of G rows, kept over all blocks of keys.",
    ),
    without={"d ** 0.5": phrases.unscaled("eq. 15.1")},
    mistakes=(
        Mistake("Every query head loads its group's keys for itself: G times the bytes, as if nothing were shared. "
                "Load a block once and multiply it by the queries of the whole group (eq. 15.2).",
                but("range(kv_heads)", "range(heads)", "slice(g * group, (g + 1) * group)", "slice(g, g + 1)",
                    "np.full(group", "np.full(1", "np.zeros(group)", "np.zeros(1)", "np.zeros((group", "np.zeros((1",
                    "(g, keys)", "(g // group, keys)")),
        Mistake(phrases.shared_modulo("eq. 15.1"),
                but("slice(g * group, (g + 1) * group)", "slice(g, None, kv_heads)")),
        Mistake(phrases.rescales_nothing("eq. 4.8", sums="l and o are", factor="e^(m − m')"),
                but("a * l", "l", "a[:, None] * acc", "acc")),
        Mistake(phrases.one_maximum("eq. 4.8"), but("s.max(1)", "np.full(group, s.max())")),
    ),
    costs=(
        Cost(share, 1, "It moves {found:.2f} times the elements of eq. 15.2, with 24 query heads on 3 key heads and 30 "
             "keys in blocks of 7; costs.decoding(…) gives the count."),
        Cost(inverse(share), 1.02, "Eq. 15.2 has {found:.2f} times the elements that your program moves: load what it "
             "computes with, block by block, and store O (machine.fetch is for the result)."),
        Cost(beside(lambda: call(8, 1, 2048, 8, 8, 16)), FREE, "It held {found:.1f} times the size of SRAM in plain "
             "arrays, beside the machine. What a program keeps must fit into SRAM, and there it is released."),
        Cost(block, 1, "The largest of its blocks of keys is {found:.1f} times as large as block_k says."),
    ),
)
