"""Lesson 22, ★★: tree attention that is right for a batch of one, fixed."""

from attnlab.ring import Cluster
from attnlab.ring.programs import Steps, all_reduce
from attnlab.ring.rank import Rank
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.fingerprints import levels, lifted

import numpy as np
from numpy import ndarray as Array


def fixed_decode(cluster: Cluster, q: list[Array], k: list[Array], v: list[Array]) -> list[Array]:
    """The output (B, 1, H, Dv) on every rank, a list. ``q`` (B, 1, H, D), the same on all ranks.

    ``k`` (B, M, H, D) and ``v`` (B, M, H, Dv): lists, one item a rank; M may differ, and some rank has a key.
    """

    def program(rank: Rank, q: Array, k: Array, v: Array) -> Steps:
        out, lse = rank.attend(*(x.swapaxes(1, 2) for x in (q, k, v)))  # heads before tokens
        out = out.swapaxes(1, 2)  # (B, 1, H, Dv), and lse is (B, H, 1)
        m = yield from all_reduce(rank, lse, np.maximum)
        weight = np.exp(lse - m).swapaxes(1, 2)[..., None]  # (B, 1, H, 1)
        top = yield from all_reduce(rank, weight * out, np.add)
        below = yield from all_reduce(rank, weight, np.add)
        return top / below

    return cluster.run(program, q, k, v)


def call(
    lengths: list[int], batch: int, heads: int, d: int = 3, dv: int = 0, level: float | Array | None = None
) -> tuple:
    """A fresh cluster; keys on each rank; EYE values if dv is 0; ``level`` of the scores."""
    rng = np.random.default_rng(batch + 10 * heads + 100 * sum(lengths))
    total, cuts = sum(lengths), np.cumsum(lengths)[:-1]
    q, k = rng.normal(size=(batch, 1, heads, d)), 2 * rng.normal(size=(batch, total, heads, d))
    q, k = (q, k) if level is None else lifted(q, k, level)
    shape = (batch, total, heads, dv or total)
    v = rng.normal(size=shape) if dv else np.broadcast_to(np.eye(total)[:, None], shape).copy()
    return Cluster(len(lengths)), [q] * len(lengths), *(np.split(x, cuts, 1) for x in (k, v))


def cases() -> list[Case]:
    """A batch of one, which is blind; then two and three."""
    return [
        Case("EYE: a batch of one, one head, two ranks", call([2, 2], 1, 1)),
        Case("EYE: a batch of two, one head, two ranks", call([1, 2], 2, 1)),
        Case("EYE: a batch of two, two heads, two ranks", call([2, 2], 2, 2)),
        Case("EYE, EMPTY: a batch of two, three heads, ranks with 2, 0 and 1 keys", call([2, 0, 1], 2, 3)),
        *[Case(f"{label}; a batch of two, two heads, two ranks", call([1, 2], 2, 2, level=level[0]))
          for label, level in levels(1).items()],
        Case("ROWS: head 1 has scores near 100000; a batch of two, two heads, two ranks",
             call([1, 2], 2, 2, level=np.array([[[0.0, 1e5]]]))),
        Case("ROWS: sequence 1 has scores near 100000; a batch of two, two heads, two ranks",
             call([1, 2], 2, 2, level=np.array([[[0.0]], [[1e5]]]))),
        Case("a batch of three, two heads, four ranks, D = 4, Dv = 5", call([3, 1, 4, 2], 3, 2, 4, 5)),
    ]


def volume(answer: Function, library: str) -> float:
    """Bytes on four ranks beside those of the three all-reduces."""
    cluster, *args = call([2] * 4, 4, 2, 3, 5)
    answer(cluster, *args)
    return cluster.bytes / (2 * 3 * 4 * 2 * (5 + 2) * 8)


WEIGHT = "np.exp(lse - m).swapaxes(1, 2)[..., None]"
BROKEN = (WEIGHT, "np.exp(lse - m)")

EXERCISE = Exercise(
    lesson="22", stars=2, reference=fixed_decode, where="eq. 22.1", cases=cases, writes=(0,),
    hints=(
        "Print the shapes of weight, out and weight * out for a batch of one, and for a batch of two. Which shape "
        "should the product have?",
        "NumPy aligns shapes at their ends. With (B, H, 1) below (B, 1, H, Dv), the batch ends up under the tokens' 1.",
        "The weight of a head must be (B, 1, H, 1): tokens before heads, and an axis for Dv.",
    ),
    without={
        "np.exp(lse - m).swapaxes(1, 2)":
            "Your axis for Dv is right, but tokens and heads have traded places: it's (B, H, H, Dv) (eq. 22.1).",
        "below": phrases.undivided("eq. 22.1"),
    },
    mistakes=(
        Mistake("The result has one batch too many, (B, B, H, Dv): NumPy aligns (B, H, 1) with (B, 1, H, Dv) at their "
                "ends, so every output is weighted by every sequence's weight. For B = 1 that's right (eq. 22.1).",
                but(*BROKEN)),
        Mistake("The shape is right now, but you use the first sequence's weights for all. Each sequence has its own: "
                "eq. 22.1.",
                but(WEIGHT, f"{WEIGHT}[:1]"), but(*BROKEN, "top / below", "(top / below)[:, :1]")),
        Mistake("Your weights are averaged over the batch or over the heads, or those of the first head serve all. "
                "Each sequence and each head has its own: eq. 22.1.",
                but(WEIGHT, f"{WEIGHT}.mean(0)"), but(WEIGHT, f"{WEIGHT}.mean(2, keepdims=True)"),
                but(WEIGHT, f"{WEIGHT}[:, :, :1]")),
        Mistake("You take the diagonal of the (B, B, H, Dv) results. The values are right, but a batch of B moves and "
                "computes B² outputs. Give the weight its axes (eq. 22.1).",
                but(*BROKEN, "top / below",
                    "np.array([(top / below)[b, b] for b in range(len(lse))])[:, None]")),
    ),
    costs=(
        Cost(volume, 2, "on four ranks and a batch of four, {found:.1f} times the bytes of (m, l, o) travel."),
    ),
)
