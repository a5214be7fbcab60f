"""Lesson 04, ★★★: online attention, a block of keys at a time."""

from collections.abc import Callable
from typing import Any

from attnlab.check.promises import growth
from attnlab.check.exercise import Case, Cost, Exercise, Mistake

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def blockwise_attention(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
    """query (N, D), key (M, D), value (M, Dv) → (N, Dv); scale 1/√D. Reads ``block`` keys at a time; O(1) in M."""
    m, l, o = np.full((len(query), 1), -np.inf), 0.0, 0.0
    for start in range(0, len(key), block):
        s, v = scores(query, key, start, block), value[start : start + block]
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        factor, p = np.exp(m - m_new), np.exp(s - m_new)
        m, l, o = m_new, l * factor + p.sum(axis=1, keepdims=True), o * factor + p @ v
    return o / l


def scores(query: np.ndarray, key: np.ndarray, start: int, block: int) -> np.ndarray:
    """The scores of all queries with one block of keys."""
    return query @ key[start : start + block].T / query.shape[1] ** 0.5


def arrays(n: int, m: int, d: int, dv: int) -> Arrays:
    """Random inputs."""
    rng = np.random.default_rng(n + 10 * m)
    return tuple(rng.normal(size=shape) for shape in ((n, d), (m, d), (m, dv)))


def cases() -> list[Case]:
    """The fingerprints of several rows, ragged lengths, other orders and other blocks."""
    one, up = np.ones((1, 1)), np.arange(4.0)[:, None]
    eye, equal = np.eye(4), np.ones((4, 1))
    query, key, value = arrays(4, 8, 4, 3)
    order = [5, 2, 7, 0, 3, 6, 1, 4]
    return [
        Case("ONE: one query, one key", (one, 2 * one, 3 * one, 2)),
        Case("UP: rising scores 0, 1, 2, 3, two keys a block, values the identity", (one, up, eye, 2)),
        Case("DOWN: falling scores 3, 2, 1, 0, two keys a block, values the identity", (one, up[::-1].copy(), eye, 2)),
        Case("CONST: four equal scores 1, two keys a block, values the identity", (one, equal, eye, 2)),
        Case("HIGH: scores 1000 to 1003, two keys a block", (one, 1000 + up, eye, 2)),
        Case("HIGH: four scores of 709.5, whose exponentials overflow only when added", (one, 709.5 * equal, eye, 2)),
        Case("LOW: scores −1000 to −997, two keys a block", (one, up - 1000, eye, 2)),
        Case("ROWS: query 0 has scores from 0 to 0.03, query 1 from 0 to 3000; two keys a block",
             (np.array([[0.01], [1000.0]]), up, eye, 2)),
        Case("BLOCK: N = 4, M = 8, D = 4, blocks of 4", (query, key, value, 4)),
        Case("RAGGED: the same in blocks of 3: the last block has 2 keys", (query, key, value, 3)),
        Case("BLOCK: the same in one block that is longer than M", (query, key, value, 100)),
        Case("PERM: keys and values in another order, blocks of 3", (query, key[order], value[order], 3)),
    ]


def fold(step: Callable, *, divide: bool = True, tail: bool = True) -> Callable:
    """A wrong answer: ``step(m, l, o, s, v)`` for each block."""

    def wrong(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
        m, l, o = np.full((len(query), 1), -np.inf), 0.0, np.zeros((len(query), value.shape[1]))
        for start in range(0, len(key) if tail else len(key) // block * block, block):
            m, l, o = step(m, l, o, scores(query, key, start, block), value[start : start + block])
        return o / l if divide else o

    return wrong


def parts(m: np.ndarray, s: np.ndarray) -> tuple:
    """m', e^{m − m'} and e^{s − m'}."""
    m_new = np.maximum(m, s.max(axis=1, keepdims=True))
    return m_new, np.exp(m - m_new), np.exp(s - m_new)


def total(p: np.ndarray) -> np.ndarray:
    """The sum over the keys of a block."""
    return p.sum(axis=1, keepdims=True)


def right(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """(4.11)."""
    m, a, p = parts(m, s)
    return m, l * a + total(p), o * a + p @ v


def only_l(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """o is not rescaled."""
    m, a, p = parts(m, s)
    return m, l * a + total(p), o + p @ v


def only_o(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """l is not rescaled."""
    m, a, p = parts(m, s)
    return m, l + total(p), o * a + p @ v


def neither(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """Nothing is rescaled."""
    m, _, p = parts(m, s)
    return m, l + total(p), o + p @ v


def as_printed(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """(4.12), block by block."""
    m, a, p = parts(m, s)
    return m, l + a, o * a + p @ v


def shared(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """One maximum for all queries."""
    m_new = np.maximum(m, s.max())
    a, p = np.exp(m - m_new), np.exp(s - m_new)
    return m_new, l * a + total(p), o * a + p @ v


def own_maximum(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """The block stays relative to its own maximum."""
    m_block = s.max(axis=1, keepdims=True)
    m_new = np.maximum(m, m_block)
    a, p = np.exp(m - m_new), np.exp(s - m_block)
    return m_new, l * a + total(p), o * a + p @ v


def latest_maximum(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """The maximum is forgotten from block to block, and nothing is rescaled."""
    m_new = s.max(axis=1, keepdims=True)
    p = np.exp(s - m_new)
    return m_new, l + total(p), o + p @ v


def split(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """e^s · e^−m'."""
    m_new, a, _ = parts(m, s)
    p = np.exp(s) * np.exp(-m_new)
    return m_new, l * a + total(p), o * a + p @ v


def divided(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """o is divided after each block and not multiplied back."""
    m, l, o = right(m, l, o, s, v)
    return m, l, o / l


def unshifted(m: Any, l: Any, o: Any, s: Any, v: Any) -> tuple:
    """Lazy, block by block."""
    p = np.exp(s)
    return m, l + total(p), o + p @ v


def mean_of_blocks(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
    """Every block gets the same weight."""
    starts = range(0, len(key), block)
    outputs = 0.0
    for start in starts:
        s = scores(query, key, start, block)
        p = np.exp(s - s.max(axis=1, keepdims=True))
        outputs = outputs + p @ value[start : start + block] / total(p)
    return outputs / len(starts)


def unscaled(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
    """No 1/√D."""
    return blockwise_attention(query * query.shape[1] ** 0.5, key, value, block)


def whole_matrix(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
    """Safe attention: all scores at once."""
    s = query @ key.T / query.shape[1] ** 0.5
    s -= s.max(axis=1, keepdims=True)
    np.exp(s, out=s)
    return s @ value / total(s)


def all_blocks(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
    """Every block of scores, kept in a list until the maximum is known."""
    kept = [scores(query, key, start, block) for start in range(0, len(key), block)]
    m = np.max([s.max(axis=1, keepdims=True) for s in kept], axis=0)
    l = o = 0.0
    for i, s in enumerate(kept):
        p = np.exp(s - m)
        l, o = l + total(p), o + p @ value[i * block : (i + 1) * block]
    return o / l


def all_summaries(query: np.ndarray, key: np.ndarray, value: np.ndarray, block: int) -> np.ndarray:
    """Every block's (m, l, o), kept in a list until the maximum is known."""
    kept = []
    for start in range(0, len(key), block):
        s = scores(query, key, start, block)
        m = s.max(axis=1, keepdims=True)
        p = np.exp(s - m)
        kept.append((m, total(p), p @ value[start : start + block]))
    top = kept[0][0]
    for m, _, _ in kept:
        top = np.maximum(top, m)
    l = o = 0.0
    for m, l_block, o_block in kept:
        l, o = l + l_block * np.exp(m - top), o + o_block * np.exp(m - top)
    return o / l


def long(m: int) -> tuple:
    """64 queries, ``m`` keys, blocks of 128."""
    return (*arrays(64, m, 16, 16), 128)


EXERCISE = Exercise(
    lesson="04", stars=3, reference=blockwise_attention, cases=cases,
    hints=(
        "The loop of section 6, with a block of keys in place of one key: range(0, len(key), block).",
        "A slice may reach beyond the end: key[start : start + block] is shorter in the last block, and nothing else "
        "need change.",
        "Keep m and l as columns (N, 1), with keepdims=True, so that they multiply the rows of o.",
        "m_new = np.maximum(m, s.max(axis=1, keepdims=True)); one factor np.exp(m - m_new) for l and for o; "
        "p = np.exp(s - m_new) is added to l as its row sums and to o as p @ v.",
    ),
    mistakes=(
        Mistake(
            "You rescale l but not o. o is a sum of the same exponentials, so it takes the same factor e^{m − m'}: "
            "eq. 4.11.",
            fold(only_l),
        ),
        Mistake(
            "You rescale o but not l. The sum so far is relative to the old maximum; multiply it by e^{m − m'} before "
            "you add the block: eq. 4.11.",
            fold(only_o),
        ),
        Mistake(
            "Neither l nor o is rescaled when the maximum moves. Multiply both by e^{m − m'}: eq. 4.11. If you do, "
            "look whether m is overwritten before the factor is computed; then the factor is e^0 = 1.",
            fold(neither),
        ),
        Mistake(
            "This is the update of l that the essay prints, eq. 4.12: the factor is added where it should multiply, "
            "and the block's own sum is missing. Compare eq. 4.11.",
            fold(as_printed),
        ),
        Mistake(
            "You use one maximum for all queries. Each query has its own fold: where one row is near 0 and another "
            "near 1000, every weight of the first vanishes. Take the maximum along the keys only (section 6).",
            fold(shared),
        ),
        Mistake(
            "The new block is left relative to its own maximum. If the maximum so far is larger, the block must shrink "
            "too, by e^{m̃ − m'}: the second term of eq. 4.11.",
            fold(own_maximum),
        ),
        Mistake(
            "You add blocks that are measured from different maxima. Bring both sides to m' = max(m, m̃) first: "
            "eq. 4.11.",
            fold(latest_maximum),
        ),
        Mistake(
            "You compute e^s · e^−m'. For a large score that is ∞ · 0 = NaN. Subtract inside the exponential: "
            "eq. 4.8.",
            fold(split),
        ),
        Mistake(
            "You divide o by l after each block, and the next block adds undivided terms to it. Divide once, after the "
            "loop (eq. 4.10), or multiply by the old l first.",
            fold(divided, divide=False), fold(divided),
        ),
        Mistake(
            "The division by l after the loop is missing: eq. 4.10.",
            fold(right, divide=False),
        ),
        Mistake(
            "Your exponentials are not shifted: this is lazy attention in blocks. Measure them relative to the running "
            "maximum: eq. 4.11.",
            fold(unshifted),
        ),
        Mistake(
            "You average the outputs of the blocks. A block weighs as much as its l, relative to the common maximum: "
            "eq. 4.11.",
            mean_of_blocks,
        ),
        Mistake(
            "The keys after the last whole block are left out. The sums run over all keys (eq. 4.1): round the number "
            "of blocks up; the last one is shorter.",
            fold(right, tail=False),
        ),
        Mistake(
            "Your scores are not scaled. They are q·k / √D, as in lesson 01.",
            unscaled,
        ),
        Mistake(
            "You hold the scores of all keys at once, as naive and safe attention do. Fold each block into (m, l, o) "
            "and forget it: eq. 4.11.",
            whole_matrix, all_blocks,
        ),
        Mistake(
            "You keep the summary of every block until the end. That is chunked attention, the next lesson; here, "
            "combine each block with what you have and forget it: eq. 4.11.",
            all_summaries,
        ),
    ),
    costs=(
        Cost(growth(long, 2048, 4096), 1.1, "Its memory grew {found:.1f}× when there were twice as many keys; it "
             "should not grow, neither by scores nor by a copy of the keys."),
    ),
)
