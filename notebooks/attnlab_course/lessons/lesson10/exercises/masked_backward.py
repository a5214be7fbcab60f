"""Lesson 10, ★★: a tiled backward pass with three faults that one block without a mask does not show, fixed."""

from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import levels, lifted
from attnlab_course.checker.inputs import tiles

import numpy as np

Array = np.ndarray
Arrays = tuple[Array, ...]


def masked_backward(
    q: Array, k: Array, v: Array, out: Array, lse: Array, dout: Array, visible: Array, block: int
) -> Arrays:
    """(dq, dk, dv) of masked attention in tiles of block by block; visible (N, M); an empty row has lse = −∞."""
    tau = q.shape[1] ** -0.5
    delta = (dout * out).sum(1)  # eq. 10.2
    shift = np.where(lse == -np.inf, 0, lse)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for cols in blocks(len(k), block):
        for rows in blocks(len(q), block):
            s = np.where(visible[rows, cols], tau * q[rows] @ k[cols].T, -np.inf)
            p = np.exp(s - shift[rows, None])  # eq. 10.1
            dp = dout[rows] @ v[cols].T
            ds = p * (dp - delta[rows, None])  # eq. 10.3
            dv[cols] += p.T @ dout[rows]
            dk[cols] += tau * ds.T @ q[rows]
            dq[rows] += tau * ds @ k[cols]
    return dq, dk, dv


def call(
    n: int, m: int, block: int, visible: Array | float = 1.0, empty: int = -1, level: Array | None = None
) -> tuple:
    """Random arguments; what is ``visible``, or which share; query ``empty`` sees nothing; ``level`` of the scores."""
    rng = np.random.default_rng(n + 10 * m)
    q, k, v, dout = (rng.normal(size=shape) for shape in ((n, 2), (m, 2), (m, 3), (n, 3)))
    q, k = (q, k) if level is None else lifted(q, k, level)
    if isinstance(visible, float):
        visible = rng.random((n, m)) < visible
        visible[:, 0] = True
    visible = visible & (np.arange(n) != empty)[:, None]
    s = np.where(visible, 2**-0.5 * q @ k.T, -np.inf)
    lse = np.logaddexp.reduce(s, axis=1)
    p = np.exp(s - np.where(lse == -np.inf, 0, lse)[:, None])
    return q, k, v, p @ v, lse, dout, visible, block


def cases() -> list[Case]:
    """One block first, which the broken program gets right."""
    middle = tiles("111000 111000 111000 000111 010111 000111")
    return [
        Case("one block: two queries, three keys, nothing hidden", call(2, 3, 4)),
        Case("BLOCK: one query, two keys, blocks of one", call(1, 2, 1)),
        Case("BLOCK: two queries, four keys, blocks of two", call(2, 4, 2)),
        Case("EMPTY: two queries, of which the second sees nothing, one key", call(2, 1, 2, empty=1)),
        Case("EMPTY, BLOCK: four queries, query 2 sees nothing, four keys, blocks of two", call(4, 4, 2, empty=2)),
        *[Case(f"{label}; four queries, query 2 sees nothing, four keys, blocks of two", call(4, 4, 2, 0.5, 2, level))
          for label, level in levels(4).items()],
        Case("LOW: scores near −1.1·10⁹; four queries, four keys, some hidden, blocks of two",
             call(4, 4, 2, 0.5, 2, -1.1e9)),
        Case("BLOCK: four queries, eight keys, blocks of two: tiles 1011 1101 are visible",
             call(4, 8, 2, tiles("1011 1101").repeat(2, 0).repeat(2, 1))),
        Case("BLOCK: six queries, six keys, blocks of three: of the second block of queries, only the middle one sees "
             "a key of the first block, the middle one", call(6, 6, 3, middle)),
        Case("RAGGED: seven queries, five keys, some hidden, blocks of three", call(7, 5, 3, 0.6, 3)),
    ]


OWN, LAST, BARE = (
    ("ds = p * (dp - delta[rows, None])", "ds = p * (dp - (p * dp).sum(1, keepdims=True))"),
    ("dq[rows] +=", "dq[rows] ="),
    ("np.where(lse == -np.inf, 0, lse)", "lse"),
)
TRY = "two blocks of keys, and a query that sees nothing"

EXERCISE = Exercise(
    lesson="10", stars=2, reference=masked_backward, where="eq. 10.5", cases=cases,
    hints=(
        "In one block with nothing hidden, `broken` is right. Change one thing at a time: the block, then the mask.",
        "Which line of a tile can't use only its own keys? Which results are sums over tiles?",
        "Δ is (dout * out).sum(1), eq. 10.2. dq is a sum over blocks of keys, eq. 10.5. Where lse is −∞, subtract 0.",
    ),
    without={"np.where(lse == -np.inf, 0, lse)": phrases.empty_lse("eq. 10.1")},
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 10.1, 10.2 and 10.5", inputs=TRY), but(*OWN, *LAST, *BARE)),
        Mistake(phrases.one_fixed("eqs. 10.1, 10.2 and 10.5", inputs=TRY),
                but(*OWN, *LAST), but(*OWN, *BARE), but(*LAST, *BARE)),
        Mistake(phrases.delta_of_tile("eq. 10.2"), but(*OWN)),
        Mistake(phrases.overwritten("eq. 10.5", what="The rows of dq, or those of dk or dv,", block="block"),
                but(*LAST), but("dk[cols] +=", "dk[cols] ="), but("dv[cols] +=", "dv[cols] ="),
                but("dk[cols] +=", "dk[cols] =", "dv[cols] +=", "dv[cols] =")),
        Mistake(phrases.nan_too_late("eq. 10.1", what="lse"),
                but(*BARE, "return dq, dk, dv", "return tuple(map(np.nan_to_num, (dq, dk, dv)))")),
    ),
)
