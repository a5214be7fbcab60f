"""Lesson 22, ★★: one query, and keys on all devices."""

from attnlab.costs.ring import doubling_bytes
from attnlab.ring import Cluster
from attnlab.ring.programs import Steps, all_reduce
from attnlab.ring.rank import Rank
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import large_key, levels, lifted
from attnlab_course.checker.inputs import qkv

import numpy as np
from numpy import ndarray as Array


def tree_decode(cluster: Cluster, q: list[Array], k: list[Array], v: list[Array]) -> list[Array]:
    """The output (H, 1, Dv) on every rank, a list. ``q`` (H, 1, D), the same on all ranks; ``k`` (H, M, D) and ``v``
    (H, M, Dv): lists, one item a rank.

    M may differ from rank to rank, and may be 0; if it is 0 on all ranks, the output is 0. Write a program for one
    rank, program(rank, q, k, v), and let ``cluster.run(program, q, k, v)`` run it. What travels must not grow with M.
    """

    def program(rank: Rank, q: Array, k: Array, v: Array) -> Steps:
        out, lse = rank.attend(q, k, v)
        m = yield from all_reduce(rank, lse, np.maximum)
        weight = np.exp(lse - np.where(np.isfinite(m), m, 0))[..., None]  # eq. 22.1; if all are empty, m = −inf
        both = yield from all_reduce(rank, np.concatenate([weight * out, weight], -1), np.add)
        return both[..., :-1] / np.where(both[..., -1:] > 0, both[..., -1:], 1)

    return cluster.run(program, q, k, v)


def call(
    lengths: list[int], heads: int = 2, d: int = 3, dv: int = 0, level: float | None = None, large: int | None = None
) -> tuple:
    """A fresh cluster, keys on each rank; EYE values if dv is 0; ``level`` of the scores, or of one ``large`` key."""
    q, k, v = qkv(1, sum(lengths), d, dv, (heads,))
    q, k = (q, k) if level is None else lifted(q, k, level)
    q, k = (q, k) if large is None else large_key(q, k, large)
    return Cluster(len(lengths)), [q] * len(lengths), *(np.split(x, np.cumsum(lengths)[:-1], -2) for x in (k, v))


def cases() -> list[Case]:
    """One rank, equal and unequal shards, empty ones, large scores."""
    return [
        Case("ONE: one rank with one key", call([1])),
        Case("EYE: two ranks with two keys each", call([2, 2])),
        Case("EYE, RAGGED: three ranks with 1, 3 and 2 keys", call([1, 3, 2])),
        Case("EYE, EMPTY: three ranks with 2, 0 and 1 keys", call([2, 0, 1])),
        Case("EMPTY: two ranks, nobody has a key: the output is 0", call([0, 0], dv=2)),
        *[Case(f"{label}; three ranks, one of them without keys", call([2, 0, 1], level=level[0]))
          for label, level in levels(1).items()],
        Case("HIGH: the scores of the last key alone lie near 100000; three ranks", call([1, 1, 1], large=-1)),
        Case("HIGH: the scores of the first key alone lie near 100000; three ranks", call([1, 1, 1], large=0)),
        Case("five ranks with 7 keys each, three heads, D = 8, Dv = 4", call([7] * 5, 3, 8, 4)),
    ]


def travels(answer: Function, lengths: list[int]) -> int:
    """Bytes over all links."""
    cluster, *args = call(lengths, dv=4)
    answer(cluster, *args)
    return cluster.bytes


def growth(answer: Function, library: str) -> float:
    """How the bytes grow when there are twice as many keys."""
    return travels(answer, [16] * 4) / max(travels(answer, [8] * 4), 1)


def doublings(answer: Function, library: str) -> float:
    """Bytes on 16 ranks beside those of doubling."""
    return travels(answer, [2] * 16) / doubling_bytes(16, 2, 4, accumulator=8)


WEIGHT = "np.exp(lse - np.where(np.isfinite(m), m, 0))[..., None]"
TOP, LAST = "m = yield from all_reduce(rank, lse, np.maximum)", "np.where(both[..., -1:] > 0, both[..., -1:], 1)"
ONE_DEVICE = ("[attnlab.safe_attention(q[0], np.concatenate(k, -2), np.concatenate(v, -2))] * len(q) if sum(len(x[0]) "
              "for x in k) else [np.zeros((len(q[0]), 1, v[0].shape[2]))] * len(q)")

EXERCISE = Exercise(
    lesson="22", stars=2, reference=tree_decode, where="eq. 22.1", cases=cases, writes=(0,),
    hints=(
        "Each rank attends to its own keys: out, lse = rank.attend(q, k, v). Which sums over ranks are in eq. 22.1?",
        "m = yield from all_reduce(rank, lse, np.maximum), and every rank has the maximum. One more all_reduce can "
        "add e^(lse − m) · out and e^(lse − m) side by side: concatenate them along the last axis.",
        "A rank without keys has lse = −inf, so its weight is 0. If all are −inf, lse − m is NaN: use 0 for m there, "
        "and divide by 1.",
    ),
    mistakes=(
        Mistake("Each of your ranks subtracts its own maximum, so the sums have different units. All must subtract the "
                "same m, and it takes an all-reduce to know it, eq. 22.1.",
                but(TOP, "m = lse"), but(TOP, "yield from all_reduce(rank, lse, np.maximum)\n        m = lse")),
        Mistake("You add up the outputs, or average them. Each has its own denominator: weight it by e^(lse − m), eq. "
                "22.1.",
                but("weight * out", "out / rank.size", LAST, "1"), but("weight * out", "out", LAST, "1")),
        Mistake("If no rank has any keys, the maximum is −inf, and −inf − (−inf) is NaN. Use 0 for m there, and divide "
                "0 by 1: section 1.",
                but(WEIGHT, "np.exp(lse - m)[..., None]"), but(LAST, "both[..., -1:]"),
                but(WEIGHT, "np.exp(lse - m)[..., None]", LAST, "both[..., -1:]")),
        Mistake("Your keys travel, as in lesson 21. The result is right, but the bytes grow with the cache: only (out, "
                "lse) has to travel, eq. 22.3.",
                but("    def program(", "    from attnlab.ring.programs import move_keys\n\n    def program(",
                    "out, lse = rank.attend(q, k, v)", "return (yield from move_keys(rank, q, k, v))[0]")),
        Mistake(phrases.no_messages("eq. 22.1"),
                but("    def program(", "    import attnlab\n\n    def program(",
                    "cluster.run(program, q, k, v)", ONE_DEVICE)),
    ),
    costs=(
        Cost(lambda answer, library: travels(answer, [2] * 4) == 0, 0, "no bytes have traveled between four ranks."),
        Cost(growth, 1, "with twice as many keys {found:.1f} times the bytes travel."),
        Cost(doublings, 1, "on 16 ranks {found:.1f} times the bytes of doubling travel, which are allowed."),
    ),
)
