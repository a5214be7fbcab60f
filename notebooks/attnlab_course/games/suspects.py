"""One attention with everything, thirteen ways to get it wrong, and the fingerprints that tell them apart."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import FAR

import numpy as np

Array = np.ndarray


def attention(
    query: Array, key: Array, value: Array, chunk: int, causal: bool = False, window: int | None = None,
    documents: Array | None = None,
) -> Array:
    """Query heads (H, N, D) on fewer key heads (G, M, D), in chunks of keys; values (G, M, Dv) → (H, N, Dv).

    The last query sits at the last key. ``window``: how many keys a query sees, itself included; ``documents`` (M,):
    the document of each key. A query that sees nothing gets zeros.
    """
    (H, N, D), M = query.shape, key.shape[1]
    key, value = (np.repeat(x, H // len(x), axis=0) for x in (key, value))
    at = np.arange(N) + M - N
    back = at[:, None] - np.arange(M)
    seen = (back >= 0) | (not causal)
    if window is not None:
        seen &= back < window
    if documents is not None:
        seen &= documents[at][:, None] == documents
    o, l, m = np.zeros((H, N, value.shape[2])), np.zeros((H, N, 1)), np.full((H, N, 1), -np.inf)
    for c in range(0, M, chunk):
        s = query @ key[:, c : c + chunk].mT / np.sqrt(D)
        s = np.where(seen[:, c : c + chunk], s, -np.inf)
        m_new = np.maximum(m, s.max(-1, keepdims=True))
        shift = np.where(m_new == -np.inf, 0, m_new)
        p, alpha = np.exp(s - shift), np.exp(m - shift)
        o = alpha * o + p @ value[:, c : c + chunk]
        l = alpha * l + p.sum(-1, keepdims=True)
        m = m_new
    return o / np.where(l == 0, 1, l)


def asks(n: int, scores: list[float]) -> tuple[Array, Array]:
    """``n`` equal queries and keys that get these ``scores``: D = 4, scale 1/2."""
    return np.full((1, n, 1), 2.0) * [1, 0, 0, 0], np.reshape(scores, (1, -1, 1)) * [1.0, 0, 0, 0]


def cases() -> list[Case]:
    """The fingerprints. Values are the identity wherever the label doesn't say otherwise: we see the weights."""
    eye, ones = np.eye(5)[None], np.ones((1, 5, 1))
    heads = np.arange(1.0, 3)[:, None, None]
    return [
        Case("ONE KEY: one query, one key", (*asks(1, [1]), 3 * ones[:, :1], 1)),
        Case("ONES: scores 0, 1, 2 in chunks of one key; every value is 1", (*asks(1, [0, 1, 2]), ones[:, :3], 1)),
        Case("EYE: scores 0, 1, 2 in one chunk", (*asks(1, [0, 1, 2]), eye[:, :3, :3], 3)),
        Case("SPLIT: scores 0, 1, 2 in chunks of one key", (*asks(1, [0, 1, 2]), eye[:, :3, :3], 1)),
        Case("RAGGED: three equal scores in chunks of two", (*asks(1, [0, 0, 0]), eye[:, :3, :3], 2)),
        Case("HIGH: both scores are 100000", (*asks(1, [FAR, FAR]), eye[:, :2, :2], 2)),
        Case("LOW: causal, two tokens, every score is -100000", (*asks(2, [-FAR, -FAR]), eye[:, :2, :2], 2, True)),
        Case("CACHE: causal, two new queries after three cached keys, five equal scores",
             (*asks(2, [0] * 5), eye, 5, True)),
        Case("WINDOW: causal, a window of two, four tokens, equal scores",
             (*asks(4, [0] * 4), eye[:, :4, :4], 4, True, 2)),
        Case("HEADS: four query heads share two key heads, whose values are 1 and 2",
             (np.ones((4, 1, 4)), np.ones((2, 1, 4)), heads, 1)),
        Case("HIDDEN: causal, three queries and two keys: query 0 comes before all keys",
             (*asks(3, [0, 0]), eye[:, :2, :2], 2, True)),
        Case("RESET: causal, four tokens of two documents of two, equal scores",
             (*asks(4, [0] * 4), eye[:, :4, :4], 4, True, None, np.array([0, 0, 1, 1]))),
    ]


PADDED = "key, value = (np.pad(x, ((0, 0), (0, -M % chunk), (0, 0))) for x in (key, value)); M = key.shape[1]; back ="
HIDDEN = "np.where(m_new == -np.inf, 0, m_new)"
SUSPECTS = {
    "not itself": Mistake("A causal query doesn't see its own key: < where ≤ was meant.",
                          but("back >= 0", "back > 0")),
    "no scale": Mistake("The scores aren't divided by √D.",
                        but(" / np.sqrt(D)", "")),
    "no shift": Mistake("The maximum isn't subtracted before the exponential.",
                        but(HIDDEN, "0", "m_new = np.maximum(m, s.max(-1, keepdims=True))", "m_new = 0 * m")),
    "nothing rescaled": Mistake("When the maximum moves, neither o nor l is converted to the new one.",
                                but("alpha * ", "")),
    "l not rescaled": Mistake("When the maximum moves, o is converted to the new one and l isn't.",
                              but("alpha * l", "l")),
    "last chunk dropped": Mistake("Only full chunks of keys are read.",
                                  but("range(0, M, chunk)", "range(0, M // chunk * chunk, chunk)")),
    "last chunk padded": Mistake("The last chunk is padded with keys of zeros, and their score of 0 counts.",
                                 but("back =", PADDED)),
    "top left": Mistake("The causal mask starts at the first key, as if query 0 were token 0.",
                        but(" + M - N", "")),
    "window too wide": Mistake("The window has one key too many: ≤ where < was meant.",
                               but("back < window", "back <= window")),
    "heads dealt out": Mistake("Query heads take the key heads in turn, 0 1 0 1, but neighbors should share: 0 0 1 1.",
                               but("np.repeat(x, H // len(x), axis=0)", "np.tile(x, (H // len(x), 1, 1))")),
    "zero by zero": Mistake("A row without visible keys is divided by its sum, 0.",
                            but(HIDDEN, "m_new", "np.where(l == 0, 1, l)", "l")),
    "minus ten thousand": Mistake("Hidden scores become −10⁴ instead of −∞.",
                                  but("s, -np.inf)", "s, -1e4)")),
    "documents leak": Mistake("The boundary between two documents in one row is ignored.",
                              but(" == documents", " >= 0")),
}
"""The mistakes, by the name that a player gives."""

EXERCISE = Exercise(
    lesson="guess_the_bug", stars=2, reference=attention, cases=cases, mistakes=tuple(SUSPECTS.values()), hints=()
)
