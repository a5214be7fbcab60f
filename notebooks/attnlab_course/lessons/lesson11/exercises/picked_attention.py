"""Lesson 11, ★★: the heads of one token attend to the keys that an indexer picked for all of them."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, last_key
from attnlab_course.checker.inputs import qkv

import numpy as np

Array = np.ndarray


def picked_attention(q: Array, k: Array, v: Array, index: Array, top: int) -> Array:
    """Attention of q (G, D) over the ``top`` keys of k (M, D), v (M, Dv) with the highest index (M,) → (G, Dv)."""
    picked = np.argsort(-index, kind="stable")[:top]
    picked = picked[index[picked] > -np.inf]  # fewer may be visible
    if not len(picked):
        return np.zeros((len(q), v.shape[1]))
    s = q @ k[picked].T / q.shape[1] ** 0.5
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ v[picked] / p.sum(1, keepdims=True)


def call(index: list[float], top: int, heads: int = 2, poison: bool = True) -> tuple:
    """Random q, k and v; NaN in the keys and values that aren't picked."""
    (q, k, v), scores = qkv(heads, len(index)), np.array(index)
    order = np.lexsort((np.arange(len(scores)), -scores))
    unread = np.setdiff1d(order, [j for j in order[:top] if scores[j] > -np.inf])
    if poison:
        k[unread] = v[unread] = np.nan
    return q, k, v, scores, top


HIDDEN = -np.inf


def cases() -> list[Case]:
    """From one key to ties, hidden keys, fewer keys than wanted and none."""
    q, k, v, *rest = call([0.5, 2.0, -1.0, 1.0], 2)
    q_all, k_all, *all_picked = call([0.5, 2.0, -1.0], 3)
    return [
        Case("ONE: one head, one key", call([0.3], 1, heads=1)),
        Case("two heads, the best two of four keys", call([0.5, 2.0, -1.0, 1.0], 2, poison=False)),
        Case("POISON: the same, NaN in the other two keys and values", (q, k, v, *rest)),
        Case("two heads, three keys, more wanted than there are", call([0.5, 2.0, -1.0], 5)),
        Case("scores of the indexer from −3·10¹² to −10¹²", call([-3e12, -1e12, -2e12], 2)),
        Case("PARTIAL: the last two of four keys are hidden, three are wanted", call([1.0, 2.0, HIDDEN, HIDDEN], 3)),
        Case("EMPTY: all keys are hidden", call([HIDDEN, HIDDEN], 1)),
        Case("equal scores: the earlier keys come first", call([1.0, 2.0, 1.0, 1.0, 2.0], 3)),
        Case("40 equal scores, 7 wanted", call([0.0] * 40, 7)),
        Case("four heads, 30 keys, one wanted", call([np.sin(7.0 * j) for j in range(30)], 1, heads=4)),
        *far_queries(lambda q, k: (q, k, v, *rest), q, k, "; the best two of four keys"),
        last_key(lambda q, k: (q, k, *all_picked), q_all, k_all, "; three keys, all of them picked"),
    ]


EXERCISE = Exercise(
    lesson="11", stars=2, reference=picked_attention, where="eq. 11.1", cases=cases,
    hints=(
        "First which keys, then attention: after k[picked] and v[picked] it's lesson 02's safe softmax.",
        "np.argsort(-index, kind=\"stable\") puts the highest first, and of equal ones the earlier.",
        "Cut the order after `top`, then drop the keys whose index is −∞. If none is left, the output is 0.",
    ),
    without={
        "picked = picked[index[picked] > -np.inf]": "You read keys whose index is −∞, which the token can't see (eq. "
        "11.1). If fewer than `top` are visible, attend to fewer.",
        "q.shape[1] ** 0.5": phrases.unscaled("eq. 11.1"),
    },
    mistakes=(
        Mistake("You read all keys and mask those that weren't picked. The mask of eq. 11.1 says what may be seen; the "
                "point of picking is that nothing else is read, and 0 · NaN is NaN.",
                but("s = q @ k[picked].T / q.shape[1] ** 0.5",
                    "s = np.where(np.isin(np.arange(len(k)), picked), q @ k.T / q.shape[1] ** 0.5, -np.inf)",
                    "p @ v[picked]", "p @ v")),
        Mistake("You pick the lowest scores of the indexer, or its largest sizes. The highest come first (eq. 11.1).",
                but("argsort(-index", "argsort(index"), but("argsort(-index", "argsort(-abs(index)")),
        Mistake("The indexer only picks. The weights are the softmax of the scores q·k, not of its scores (eq. 11.1).",
                but("s = q @ k[picked].T / q.shape[1] ** 0.5", "s = np.tile(index[picked], (len(q), 1))"),
                but("** 0.5", "** 0.5 + index[picked]")),
        Mistake("Of equal scores, the earlier key comes first: reversing a sorted order reverses ties, too (eq. 11.1).",
                but('np.argsort(-index, kind="stable")', 'np.argsort(index, kind="stable")[::-1]')),
    ),
)
