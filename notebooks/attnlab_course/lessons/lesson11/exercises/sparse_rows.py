"""Lesson 11, ★★: block-sparse attention with three faults that a symmetric pattern does not show, fixed."""

from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import deepest, far_queries, large_key
from attnlab_course.checker.inputs import qkv, tiles

import numpy as np

Array = np.ndarray


def sparse_rows(q: Array, k: Array, v: Array, block_mask: Array, block: int) -> Array:
    """Attention of q (N, D), k (M, D), v (M, Dv) over the visible tiles of block by block; 0 for an empty row."""
    out = np.zeros((len(q), v.shape[1]))
    for i, rows in enumerate(blocks(len(q), block)):
        m, l, o = np.full((len(q[rows]), 1), -np.inf), 0.0, 0.0  # anew for every block of queries, even an empty one
        for j, cols in enumerate(blocks(len(k), block)):
            if block_mask[i, j]:  # the mask's rows are blocks of queries
                s = q[rows] @ k[cols].T / q.shape[1] ** 0.5
                m_new = np.maximum(m, s.max(1, keepdims=True))
                a, p = np.exp(m - m_new), np.exp(s - m_new)
                m, l, o = m_new, a * l + p.sum(1, keepdims=True), a * o + p @ v[cols]
        out[rows] = o / l if block_mask[i].any() else 0
    return out


def cleared_late(q: Array, k: Array, v: Array, block_mask: Array, block: int) -> Array:
    """The state is cleared when the first block of keys is visited."""
    out = np.zeros((len(q), v.shape[1]))
    m, l, o = -np.inf, 0.0, 0.0
    for i, rows in enumerate(blocks(len(q), block)):
        for j, cols in enumerate(blocks(len(k), block)):
            if block_mask[i, j]:
                if j == 0:
                    m, l, o = -np.inf, 0.0, 0.0
                s = q[rows] @ k[cols].T / q.shape[1] ** 0.5
                m_new = np.maximum(m, s.max(1, keepdims=True))
                a, p = np.exp(m - m_new), np.exp(s - m_new)
                m, l, o = m_new, a * l + p.sum(1, keepdims=True), a * o + p @ v[cols]
        out[rows] = o / l if block_mask[i].any() else 0
    return out


def call(length: int, block: int, rows: str, keys: int = 0) -> tuple:
    """Random q and k, as many keys as queries or ``keys``, values EYE; ``rows``: the block mask, such as "110 011"."""
    return *qkv(length, keys or length, dv=0), tiles(rows), block


def cases() -> list[Case]:
    """Symmetric patterns with a full first column first, which the broken program gets right."""
    q, k, *rest = call(4, 2, "10 11")
    q_six, k_six, *rest_six = call(6, 2, "110 011 111")
    return [
        Case("EYE: four tokens, tiles of two by two, all visible", call(4, 2, "11 11")),
        Case("EYE: a symmetric pattern, 111 110 101", call(6, 2, "111 110 101")),
        Case("EYE: not symmetric, 10 11, tiles of one by one", call(2, 1, "10 11")),
        Case("EYE: the first block of keys hidden from the second block of queries, 10 01", call(2, 1, "10 01")),
        Case("EYE, EMPTY: the second block of queries sees nothing, 11 00", call(2, 1, "11 00")),
        Case("EYE: nobody sees the second block of keys, 10 10", call(2, 1, "10 10")),
        Case("EYE: causal tiles, 100 110 111", call(6, 2, "100 110 111")),
        *far_queries(lambda q, k: (q, k, *rest), q, k, "; four tokens, tiles of two by two, 10 11"),
        Case("HIGH: the scores of key 2 alone lie near 100000; six tokens, tiles of two by two, 110 011 111",
             (*large_key(q_six, k_six, 2), *rest_six)),
        Case("EYE, LOW: scores −10¹² to −4·10¹²; four tokens, 10 11", (*deepest(4, 4, 4), *rest)),
        Case("EYE, EMPTY, RAGGED: seven tokens in blocks of three, 101 000 011", call(7, 3, "101 000 011")),
        Case("RECT, EYE: four queries, seven keys, tiles of two by two, 1011 0100", call(4, 2, "1011 0100", 7)),
        Case("RECT, EYE: five queries, two keys, tiles of two by two, 1 0 1", call(5, 2, "1 0 1", 2)),
        Case("RECT: five queries, seven keys, tiles of two by two, 1011 0100 1101; D = 3, Dv = 2",
             (*qkv(5, 7, 3, 2), tiles("1011 0100 1101"), 2)),
        Case("EYE: a pattern by hand, 0110 1001 0010 1100", call(8, 2, "0110 1001 0010 1100")),
    ]


TURNED = "block_mask[i, j]", "block_mask[j, i]"
UNGUARDED = "o / l if block_mask[i].any() else 0", "np.divide(o, l)"
TRY = "the block masks 10 11, 10 01 and 11 00"

EXERCISE = Exercise(
    lesson="11", stars=2, reference=sparse_rows, where="eq. 11.4", cases=cases,
    hints=(
        "Compare with attnlab.safe_attention(…, mask=element_mask(…)) on tiles of one by one: 10 11, 10 01, 11 00.",
        "With values np.eye the output is the weights: which keys has a query met, and are they those of its row?",
        "The table is read as block_mask[j, i]; m, l and o are cleared only if block 0 of the keys is visible; and a "
        "row without visible tiles is divided by 0.",
    ),
    mistakes=(
        Mistake(phrases.nothing_fixed("eqs. 11.1 and 11.4", inputs=TRY), but(*TURNED, *UNGUARDED, of=cleared_late)),
        Mistake(phrases.one_fixed("eqs. 11.1 and 11.4", inputs=TRY),
                but(*TURNED, of=cleared_late), but(*UNGUARDED, of=cleared_late), but(*TURNED, *UNGUARDED)),
        Mistake(phrases.mask_transposed("eq. 11.1"),
                but(*TURNED), but(*TURNED, "block_mask[i].any()", "block_mask[:, i].any()"),
                but("    out =", "    block_mask = block_mask.T\n    out =")),
        Mistake("Your fold for a block of queries begins with the previous one's state, unless block 0 of the keys is "
                "visible. Clear m, l and o before the loop over keys: eq. 11.4.",
                cleared_late),
        Mistake(phrases.no_weights("eq. 11.4"), but(*UNGUARDED)),
    ),
)
