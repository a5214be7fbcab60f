"""Lesson 01, ★★: a layer that is right for one head or one token only, and repaired."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def attention_layer(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, heads: int) -> Array:
    """Causal multi-head self-attention: x (N, d), four projections (d, d), ``heads`` divides d → (N, d)."""
    n, d = x.shape
    q, k, v = ((x @ w).reshape(n, heads, d // heads).swapaxes(0, 1) for w in (w_q, w_k, w_v))
    s = q @ k.swapaxes(1, 2) / np.sqrt(d // heads)
    s = np.where(np.tri(n, dtype=bool), s, -np.inf)
    e = np.exp(s)
    o = e / e.sum(-1, keepdims=True) @ v
    return o.swapaxes(0, 1).reshape(n, d) @ w_o


def layer(n: int, d: int, heads: int) -> tuple:
    """Random tokens and projections."""
    rng = np.random.default_rng(10 * n + d)
    return (rng.normal(size=(n, d)), *rng.normal(size=(4, d, d)) / np.sqrt(d), heads)


def plain(n: int, d: int, heads: int) -> tuple:
    """Scores 0, so that every visible token has the same weight; values and output are not projected."""
    return np.arange(1.0, n * d + 1).reshape(n, d), np.zeros((d, d)), np.eye(d), np.eye(d), np.eye(d), heads


def cases() -> list[Case]:
    """One head, one token, and the smallest inputs that have two of both; a shape that was seen before; many tokens."""
    return [
        Case("one head, three tokens", layer(3, 4, 1)),
        Case("two heads, two tokens, d = 2, all scores 0, W_V = W_O = 1: row 0 is token 0, row 1 the mean of both",
             plain(2, 2, 2)),
        Case("two heads, two tokens, d = 4", layer(2, 4, 2)),
        Case("three heads, five tokens, d = 12", layer(5, 12, 3)),
        Case("the first input anew, with the signs of all tokens changed", (-layer(3, 4, 1)[0], *layer(3, 4, 1)[1:])),
        Case("two heads, 100 tokens", layer(100, 4, 2)),
        Case("ROWS: one head, two tokens, which have scores −442 and 442 with themselves",
             (25 * np.eye(2)[::-1], np.diag([1.0, -1.0]), np.eye(2), np.eye(2), np.eye(2), 1)),
    ]


SPLIT = "reshape(n, heads, d // heads).swapaxes(0, 1)", "reshape(heads, n, d // heads)"
SCALE = "np.sqrt(d // heads)", "np.sqrt(d)"
JOIN = "o.swapaxes(0, 1).reshape(n, d)", "o.reshape(n, d)"
TRY = "two heads and three tokens, and ask which axis of each line counts heads"

EXERCISE = Exercise(
    lesson="01", stars=2, reference=attention_layer, cases=cases,
    hints=(
        "Call `broken` with two tokens, two heads and d = 2, with zeros for w_q and the identity for the other three. "
        "Every visible token then has the same weight, and you can say what must come out.",
        "x @ w has a row for each token, with the heads side by side in it. What does reshape(heads, n, …) do to the "
        "rows? Print it for an array of 0, 1, 2, …",
        "Three lines are wrong: the split, the scale (eq. 1.1: the size of a query) and the join (eq. 1.7). To split, "
        "reshape(n, heads, D) and swap the first two axes; to join, swap them back and reshape to (n, d).",
    ),
    without={
        "o.swapaxes(0, 1)": "Splitting and scaling are right, but the joining isn't: swap the axes of heads and tokens "
                            "before you reshape to (n, d), so that the heads of one token are side by side (eq. 1.7).",
        "s = np.where(np.tri(n, dtype=bool), s, -np.inf)": phrases.sees_future("eq. 1.10"),
        "e.sum(-1, keepdims=True)": phrases.undivided("eq. 1.5"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("eq. 1.7", inputs=TRY), but(*SPLIT, *SCALE, *JOIN)),
        Mistake(phrases.one_fixed("eq. 1.7", inputs=TRY), but(*SPLIT, *SCALE), but(*SPLIT, *JOIN), but(*SCALE, *JOIN)),
        Mistake("Joining and scaling are right, but the splitting isn't. reshape(heads, n, D) deals out whole rows, so "
                "a head gets other tokens instead of its own columns (eq. 1.6).",
                but(*SPLIT)),
        Mistake("Splitting and joining are right, but you divide the scores by √d. A query of one head has D = d / "
                "heads components: divide by √D (eq. 1.1, and 1.4 for why).",
                but(*SCALE), but(SCALE[0], "d // heads")),
        Mistake("You deal the columns out to the heads in turn. The columns of one head are side by side (eq. 1.7): "
                "split with reshape(n, heads, D), not reshape(n, D, heads), and join by swapping the axes of heads and "
                "tokens, and no others.",
                but(SPLIT[0], "reshape(n, d // heads, heads).transpose(2, 0, 1)"),
                but(JOIN[0], "o.transpose(1, 2, 0).reshape(n, d)")),
    ),
)
