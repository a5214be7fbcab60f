"""Lesson 10, ★★: a tiled backward pass with three faults that one block without a mask does not show, fixed."""

from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import levels, lifted

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
    n: int, m: int, block: int, hidden: float = 0.0, empty: int | None = None, level: Array | None = None
) -> tuple:
    """Random arguments; a share of the positions is hidden, and all of query ``empty``; ``level`` of the scores."""
    rng = np.random.default_rng(n + 10 * m)
    q, k, v, dout = (rng.normal(size=shape) for shape in ((n, 2), (m, 2), (m, 3), (n, 3)))
    q, k = (q, k) if level is None else lifted(q, k, level)
    visible = rng.random((n, m)) >= hidden
    visible[:, 0] = True
    if empty is not None:
        visible[empty] = False
    s = np.where(visible, 2**-0.5 * q @ k.T, -np.inf)
    lse = np.logaddexp.reduce(s, axis=1)
    p = np.exp(s - np.where(lse == -np.inf, 0, lse)[:, None])
    return q, k, v, p @ v, lse, dout, visible, block


def seen(rows: str, size: int, block: int) -> tuple:
    """Arguments of which squares of ``size`` positions are visible or hidden; ``rows``: which, such as "10 11"."""
    table = np.array([[x == "1" for x in row] for row in rows.split()])
    visible = table.repeat(size, 0).repeat(size, 1)
    q, k, v, _, _, dout, *_ = call(*visible.shape, block)
    s = np.where(visible, 2**-0.5 * q @ k.T, -np.inf)
    lse = np.logaddexp.reduce(s, axis=1)
    return q, k, v, np.exp(s - lse[:, None]) @ v, lse, dout, visible, block


def cases() -> list[Case]:
    """One block first, which the broken program gets right."""
    return [
        Case("one block: two queries, three keys, nothing hidden", call(2, 3, 4)),
        Case("one block: four queries, four keys, some hidden", call(4, 4, 4, 0.5)),
        Case("BLOCK: one query, two keys, blocks of one", call(1, 2, 1)),
        Case("BLOCK: two queries, four keys, blocks of two", call(2, 4, 2)),
        Case("EMPTY: two queries, of which the second sees nothing, one key", call(2, 1, 2, 0.0, 1)),
        Case("EMPTY, BLOCK: four queries, query 2 sees nothing, four keys, blocks of two", call(4, 4, 2, 0.0, 2)),
        *[Case(f"{label}; four queries, query 2 sees nothing, four keys, blocks of two", call(4, 4, 2, 0.5, 2, level))
          for label, level in levels(4).items()],
        Case("LOW: scores near −1.1·10⁹; four queries, four keys, some hidden, blocks of two",
             call(4, 4, 2, 0.5, 2, -1.1e9)),
        Case("BLOCK: four queries, eight keys, blocks of two: tiles 1011 1101 are visible", seen("1011 1101", 2, 2)),
        Case("BLOCK: six queries, six keys, blocks of three: of the second block of queries, only the middle one sees "
             "a key of the first block, the middle one", seen("111000 111000 111000 000111 010111 000111", 1, 3)),
        Case("RAGGED: seven queries, five keys, some hidden, blocks of three", call(7, 5, 3, 0.4, 3)),
    ]


OWN, LAST, BARE = (
    ("ds = p * (dp - delta[rows, None])", "ds = p * (dp - (p * dp).sum(1, keepdims=True))"),
    ("dq[rows] +=", "dq[rows] ="),
    ("np.where(lse == -np.inf, 0, lse)", "lse"),
)

VISIT = "s = np.where"

TRY = "two blocks of keys, and a query that sees nothing"

EXERCISE = Exercise(
    lesson="10", stars=2, reference=masked_backward, cases=cases,
    hints=(
        "Call `broken` with a block as long as the sequences and nothing hidden: it's right. Change one thing at a "
        "time, the block first, then the mask. `backward` of section 3 is right where nothing is hidden.",
        "Two inputs show all faults: two blocks of keys, and a query that sees no key. Which line of a tile can't use "
        "only its own keys? Which results are sums over tiles?",
        "Three lines: Δ is (dout * out).sum(1), eq. 10.2. dq is a sum over blocks of keys, eq. 10.5. Where lse is −∞, "
        "subtract 0, eq. 10.1.",
    ),
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 10.1, 10.2 and 10.5", inputs=TRY), but(*OWN, *LAST, *BARE)),
        Mistake(phrases.one_fixed("eqs. 10.1, 10.2 and 10.5", inputs=TRY),
                but(*OWN, *LAST), but(*OWN, *BARE), but(*LAST, *BARE)),
        Mistake(phrases.delta_of_tile("eq. 10.2"), but(*OWN)),
        Mistake(phrases.overwritten("eq. 10.5", what="The rows of dq", block="block of keys"), but(*LAST)),
        Mistake(phrases.empty_lse("eq. 10.1"), but(*BARE)),
        Mistake(phrases.nan_too_late("eq. 10.1", what="lse"),
                but(*BARE, "return dq, dk, dv", "return tuple(map(np.nan_to_num, (dq, dk, dv)))")),
        Mistake("You leave out tiles that are partly visible. You can leave out only a tile without any visible "
                "position (eq. 10.5).",
                but(VISIT, f"if not visible[rows, cols].all():\n                continue\n            {VISIT}"),
                but(VISIT, f"if not visible[rows, cols][0, 0]:\n                continue\n            {VISIT}")),
        Mistake(phrases.breaks_off("eq. 10.5"),
                but(VISIT, f"if not visible[rows, cols].any():\n                break\n            {VISIT}")),
        Mistake(phrases.last_one("eq. 10.5", what="Positions", block="block"),
                but("len(k), block", "len(k) // block * block, block"),
                but("len(q), block", "len(q) // block * block, block"),
                but("len(k), block", "len(k) // block * block, block", "len(q), block",
                    "len(q) // block * block, block")),
        Mistake(phrases.overwritten("eq. 10.5", what="The rows of dk or dv", block="block of queries"),
                but("dk[cols] +=", "dk[cols] ="), but("dv[cols] +=", "dv[cols] ="),
                but("dk[cols] +=", "dk[cols] =", "dv[cols] +=", "dv[cols] =")),
        Mistake(phrases.other_scale("eq. 10.5"),
                but("q.shape[1] **", "v.shape[1] **"), but("q.shape[1] **", "len(q) **"),
                but("q.shape[1] ** -0.5", "1.0")),
        Mistake(phrases.hidden_zero("eq. 10.1", what="Hidden positions"),
                but("tau * q[rows] @ k[cols].T, -np.inf", "tau * q[rows] @ k[cols].T, 0.0")),
        Mistake(phrases.hides_with_number("eq. 10.1"),
                but("tau * q[rows] @ k[cols].T, -np.inf", "tau * q[rows] @ k[cols].T, -1e9")),
    ),
)
