"""Lesson 21, ★★★: ring attention, exact and with as few bytes as possible."""

import attnlab
from attnlab.ring import Cluster
from attnlab.ring.programs import Steps
from attnlab.ring.rank import Rank
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import deepest
from attnlab_course.checker.inputs import qkv

import numpy as np
from numpy import ndarray as Array


def ring_outputs(cluster: Cluster, q: list[Array], k: list[Array], v: list[Array], causal: bool) -> list[Array]:
    """The outputs (C, Dv) of all ranks, a list. ``q``, ``k`` (C, D) and ``v`` (C, Dv): lists, one item a rank.

    The ranks have the pieces of one text in its order. Write a program for one rank, program(rank, q, k, v), and let
    ``cluster.run(program, q, k, v)`` run it. Each rank sends to the next one only, devices − 1 blocks at the most, and
    with a causal mask no block that nobody further on may see.
    """

    def program(rank: Rank, q: Array, k: Array, v: Array) -> Steps:
        out, lse = np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
        blocks = rank.index + 1 if causal else rank.size  # that this rank sees
        for step in range(blocks):
            if rank.index < rank.size - 1 if causal else step < rank.size - 1:
                rank.send(k, v, to=(rank.index + 1) % rank.size)
            holder = (rank.index - step) % rank.size  # eq. 21.1
            part = rank.attend(q, k, v, causal=causal, offset=(rank.index - holder) * len(k))
            out, lse = attnlab.merge(out, lse, *part)
            if step < blocks - 1:
                k, v = yield rank.receive((rank.index - 1) % rank.size)
        return out

    return cluster.run(program, q, k, v)


def call(devices: int, rows: int, d: int, dv: int, causal: bool, times: float = 1.0) -> tuple:
    """A fresh cluster and a random text in ``devices`` pieces, EYE values if dv is 0; keys are multiplied by times."""
    q, k, v = qkv(devices * rows, devices * rows, d, dv)
    return Cluster(devices), *(np.split(x, devices) for x in (q, times * k, v)), causal


def cases() -> list[Case]:
    """One rank; then two, for which a wrong direction does not show; then three and five, masked and not."""
    low = Cluster(3), *(np.split(x, 3) for x in (*deepest(6, 6, 4), np.eye(6))), True
    return [
        Case("ONE: one rank with one token", call(1, 1, 1, 1, False)),
        Case("EYE: two ranks with two tokens each, no mask", call(2, 2, 2, 0, False)),
        Case("EYE: three ranks with two tokens each, no mask", call(3, 2, 2, 0, False)),
        Case("EYE: two ranks with two tokens each, causal", call(2, 2, 2, 0, True)),
        Case("EYE: three ranks with two tokens each, causal", call(3, 2, 2, 0, True)),
        Case("HIGH: three ranks, keys 100000 times as large, no mask", call(3, 3, 4, 2, False, 1e5)),
        Case("HIGH: the same, causal", call(3, 3, 4, 2, True, 1e5)),
        Case("EYE, LOW: three ranks with two tokens each, scores −10¹² to −6·10¹², causal", low),
        Case("five ranks with three tokens each, D = 4, Dv = 3, causal", call(5, 3, 4, 3, True)),
    ]


def used(answer: Function, causal: bool, devices: int = 3, dtype: type = np.float64) -> tuple[float, int]:
    """Blocks of keys and values that travel between the ranks, and how many links to other ranks than the next."""
    cluster, *shards, causal = call(devices, 4, 2, 6, causal)
    answer(cluster, *([x.astype(dtype) for x in pieces] for pieces in shards), causal)
    others = sum(to != (source + 1) % devices for source, to in +cluster.links)
    return cluster.bytes / (4 * (2 + 6) * np.dtype(dtype).itemsize), others


ALL_AROUND = "rank.index + 1 if causal else rank.size", "rank.size", "rank.index < rank.size - 1 if causal else ", ""
FORWARD = "(rank.index - step)", "(rank.index + step)"
OFFSET = "offset=(rank.index - holder) * len(k)"
ONE_DEVICE = "np.split(attnlab.safe_attention(*map(np.concatenate, (q, k, v)), causal=causal), len(q))"

EXERCISE = Exercise(
    lesson="21", stars=3, reference=ring_outputs, where="eq. 21.1", cases=cases, writes=(0,),
    hints=(
        "First without a mask: attend to what's here, add it to (out, lse) with attnlab.merge, beginning with out = 0 "
        "and lse = −inf, send k and v on, and wait with k, v = yield rank.receive(source). End with `return out`.",
        "Causal: which block is here? Eq. 21.1. Its keys begin (rank − holder) · C tokens before the queries: that's "
        "the offset. Skip later blocks.",
        "Unmasked, each rank sees rank.size blocks and doesn't send the last one on: eq. 21.2. Causal, rank r sees r "
        "+ 1 blocks; who needs them next, and at which rank does no one?",
    ),
    without={"causal=causal": phrases.sees_future("section 2")},
    mistakes=(
        Mistake("Your offset isn't (rank − holder) · C. Keys of an earlier rank don't line up with the queries: "
                "they're all visible, and each rank further back is C tokens further back, not one (section 2).",
                but(OFFSET, "offset=0"), but(OFFSET, "offset=rank.index - holder")),
        Mistake("Your loop has one step too few, so the last block is never attended to: it takes rank.size steps, and "
                "one send fewer (eq. 21.2). The loop that Liu et al. print does the same.",
                but(*ALL_AROUND, "range(blocks)", "range(max(blocks - 1, 1))", "size - 1:", "size - 2:", "blocks - 1:",
                    "blocks - 2:")),
        Mistake("You count forward, so the mask belongs to another block. What arrives comes from behind: eq. 21.1. "
                "Without a mask, or on two ranks, it doesn't show.",
                but(*FORWARD), but(*ALL_AROUND, *FORWARD)),
        Mistake("With a causal mask, you send every block all the way around. The block of rank c is useful only to "
                "the ranks after c, so rank r has r + 1 blocks to pass on, and the last rank none: section 2.",
                but(*ALL_AROUND)),
        Mistake(phrases.no_messages("section 2"), but("cluster.run(program, q, k, v)", ONE_DEVICE)),
    ),
    costs=(
        Cost(lambda answer, _: abs(used(answer, False)[0] - 6), 0, "on three ranks without a mask 6 blocks of keys and "
             "values have to travel, eq. 21.2; yours are {found:.0f} more or fewer. They needn't come home."),
        Cost(lambda answer, _: max(used(answer, causal)[1] for causal in (False, True)), 0, "each of three ranks sends "
             "to the next one only, and your program uses {found:.0f} other links."),
        Cost(lambda answer, _: used(answer, True)[0], 3, "with a causal mask 3 blocks have to travel between three "
             "ranks, and yours are {found:.0f}."),
        Cost(lambda answer, _: used(answer, True, 6)[0], 15, "with a causal mask 15 blocks have to travel between six "
             "ranks, and yours are {found:.0f}."),
        Cost(lambda answer, _: used(answer, False, 6, np.float32)[0], 30, "without a mask 30 blocks have to travel "
             "between six ranks; with shards in float32 yours have the bytes of {found:.0f}."),
    ),
)
