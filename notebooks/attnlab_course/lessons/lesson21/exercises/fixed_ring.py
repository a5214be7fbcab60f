"""Lesson 21, ★★: a striped ring that is right on one device only, fixed."""

import attnlab
from attnlab.ring import Cluster
from attnlab.ring.programs import Steps
from attnlab.ring.rank import Rank
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import deepest
from attnlab_course.checker.inputs import qkv

import numpy as np
from numpy import ndarray as Array


def fixed_ring(cluster: Cluster, q: list[Array], k: list[Array], v: list[Array]) -> list[Array]:
    """Causal attention with rotary positions over a striped text: the outputs (C, Dv) of all ranks, a list.

    ``q``, ``k`` (C, D), ``v`` (C, Dv): lists, one item a rank; row a of rank r is token a · devices + r of the text. No
    query and no key is rotated yet.
    """

    def program(rank: Rank, q: Array, k: Array, v: Array) -> Steps:
        at = rank.index + rank.size * np.arange(len(q))
        q, k = attnlab.rotary(q, at), attnlab.rotary(k, at)
        out, lse = np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
        for step in range(rank.size):
            if step < rank.size - 1:
                rank.send(k, v, to=(rank.index + 1) % rank.size)
            holder = (rank.index - step) % rank.size
            part = rank.attend(q, k, v, causal=True, offset=0 if holder <= rank.index else -1)
            out, lse = attnlab.merge(out, lse, *part)
            if step < rank.size - 1:
                k, v = yield rank.receive((rank.index - 1) % rank.size)
        return out

    return cluster.run(program, q, k, v)


def call(devices: int, rows: int, d: int, dv: int) -> tuple:
    """A fresh cluster and a random text in stripes, EYE values if dv is 0."""
    q, k, v = qkv(devices * rows, devices * rows, d, dv)
    return Cluster(devices), *([x[r::devices] for r in range(devices)] for x in (3 * q, 3 * k, v))


def cases() -> list[Case]:
    """One device, where all is right; two, which are blind to the direction; three and more; a long text."""
    low = Cluster(3), *([x[r::3] for r in range(3)] for x in (*deepest(6, 6, 4), np.eye(6)))
    return [
        Case("EYE: one device with four tokens", call(1, 4, 2, 0)),
        Case("EYE: two devices with two tokens each", call(2, 2, 2, 0)),
        Case("EYE: three devices with two tokens each", call(3, 2, 2, 0)),
        Case("EYE, LOW: three devices with two tokens each, scores near −10¹² to −6·10¹²", low),
        Case("three devices with 100 tokens each, D = 4, Dv = 3", call(3, 100, 4, 3)),
    ]


POSITION = ("rank.index + rank.size * np.arange(len(q))", "np.arange(len(q))")
HOLDER = ("(rank.index - step)", "(rank.index + step)")
OFFSET = ("offset=0 if holder <= rank.index else -1", "offset=rank.index - holder")

TRY = "two devices with two tokens each and EYE, then three devices"

EXERCISE = Exercise(
    lesson="21", stars=2, reference=fixed_ring, where="eq. 21.7", cases=cases, writes=(0,),
    hints=(
        "Give `broken_ring` np.eye(N)[r::devices] as values: a row of the result is then the weights that a token "
        "gives to all tokens. What does token 1 see on two devices with two tokens each?",
        "Three lines are wrong. One mistake shows on two devices, one only on three or more, and one in the weights: "
        "the right tokens are visible, but at the wrong distances.",
        "Which tokens does this rank have, which block is here (eq. 21.1), and is its diagonal visible (eq. 21.7)?",
    ),
    without={"0": "Your offset is −1 everywhere, so no token sees itself: it's 0 where the ranks agree (eq. 21.7)."},
    mistakes=(
        Mistake(phrases.nothing_fixed("section 4, eqs. 21.1 and 21.7", inputs=TRY), but(*POSITION, *HOLDER, *OFFSET)),
        Mistake(phrases.one_fixed("section 4, eqs. 21.1 and 21.7", inputs=TRY),
                but(*POSITION, *HOLDER), but(*POSITION, *OFFSET), but(*HOLDER, *OFFSET)),
        Mistake("Holder and diagonal are right, but queries and keys are still rotated by their row in the shard, or "
                "as in contiguous pieces. A model is trained on distances in the text: row a of rank r is token a · P "
                "+ r (section 4).",
                but(*POSITION), but(POSITION[0], "rank.index * len(q) + np.arange(len(q))")),
        Mistake("Positions and holder are right, but the offset still counts ranks, so a query sees later tokens. One "
                "row of a stripe is P tokens of the text: offset 0 or −1 (eq. 21.7).",
                but(*OFFSET)),
        Mistake("You leave out later ranks' blocks, as in contiguous pieces. In stripes, every block has visible "
                "tokens: eq. 21.7.",
                but("part = rank.attend", "part = rank.attend if holder <= rank.index else lambda *x, **y: (out, lse - "
                    "np.inf)\n            part = part")),
    ),
)
