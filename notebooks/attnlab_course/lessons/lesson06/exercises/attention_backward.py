"""Lesson 06, ★★: the gradient of attention by hand."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, last_key, lifted
from attnlab_course.checker.inputs import qkv

import numpy as np

Arrays = tuple[np.ndarray, ...]


def attention_backward(q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray) -> Arrays:
    """(dq, dk, dv) of softmax(q kᵀ / √D) v; q (N, D), k (M, D), v (M, Dv), dout (N, Dv)."""
    scale = q.shape[-1] ** -0.5
    s = scale * q @ k.T
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = dout @ v.T  # eq. 6.4
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))  # eq. 6.5
    return scale * ds @ k, scale * ds.T @ q, p.T @ dout  # eqs. 6.6, 6.7, 6.3


def arrays(n: int, m: int, d: int, dv: int) -> Arrays:
    """Random q, k, v and dout."""
    return *qkv(n, m, d, dv), np.random.default_rng(n).normal(size=(n, dv))


def many() -> Arrays:
    """More queries and keys than a block of 64 holds; the scores of key 3 lie 30 lower, and its values near 10¹⁵."""
    q, k, v, dout = arrays(131, 70, 4, 3)
    q, k = lifted(q, k, 1.0)
    k[:, 0], k[3, 0], v[3] = 0, -60, 1e15 * v[3]  # the scale is 1/2
    return q, k, v, dout


def cases() -> list[Case]:
    """One key, a square, rectangles, values of another size, equal scores, large ones, many; few shapes, for JAX."""
    q, k, v, dout = arrays(2, 5, 4, 3)
    return [
        Case("ONE: one query, one key: the weight is 1 whatever the score, so dq and dk are 0", arrays(1, 1, 1, 1)),
        Case("square: N = M = D = Dv = 3", arrays(3, 3, 3, 3)),
        Case("RECT: five queries, two keys, Dv = 3", arrays(5, 2, 4, 3)),
        Case("RECT: two queries, five keys, Dv = 3, D = 4", (q, k, v, dout)),
        Case("CONST: the queries are 0, so all weights are 1/5, and dk is 0", (0 * q, k, v, dout)),
        *far_queries(lambda q, k: (q, k, v, dout), q, k),
        last_key(lambda q, k: (q, k, v, dout), q, k),
        Case("SMALL: 131 queries, 70 keys; key 3 has weights near 10⁻¹⁵ and values near 10¹⁵", many()),
    ]


EXERCISE = Exercise(
    lesson="06", stars=2, reference=attention_backward, cases=cases,
    hints=(
        "Compute P first, with a safe softmax; then equations 6.3 to 6.7 in that order, one line each.",
        "dv sums over queries (p.T @ dout); dp = dout @ v.T has the shape of P; ds needs one sum for each query.",
        "ds = p * (dp - (p * dp).sum(-1, keepdims=True)), and the scale appears in dq and dk: scale * ds @ k.",
    ),
    without={
        "(p * dp).sum(-1, keepdims=True)": "Adding a number to a row's scores changes nothing, so each row of dS "
                                           "adds up to 0: subtract rowsum(P ∘ dP) from dP (eq. 6.5).",
        "-1": "You take one maximum, or one sum, of all queries. Each query has its own, over its keys: the last axis "
              "(eqs. 1.2 and 6.5).",
    },
    mistakes=(
        Mistake(phrases.over_queries("eq. 6.5"), but("(p * dp).sum(-1", "(p * dp).sum(0")),
        Mistake(phrases.scale_in_gradient("eqs. 1.1, 6.6 and 6.7", what="the scores, dq or dk"),
                but("q.shape[-1] ** -0.5", "1"), but("scale * ds", "ds"), but("scale * ds @", "ds @"),
                but("scale * ds.T", "ds.T")),
        Mistake("A transpose is missing, or there's one too many. dq sums over the keys, the columns of dS; dk and dv "
                "sum over the queries, so dS and P are transposed there (eqs. 6.3, 6.6 and 6.7).",
                but("ds.T", "ds"), but("p.T", "p"), but("ds @ k", "ds.T @ k")),
        Mistake(phrases.unshifted("lesson 02, section 2"),
                but("s - s.max(-1, keepdims=True)", "s"),
                but("s - s.max(-1, keepdims=True)", "s - np.log(np.exp(s).sum(-1, keepdims=True))",
                    "    p /= p.sum(-1, keepdims=True)\n", ""),
                seen="HIGH"),
        Mistake("You return dP for dS: the gradient stops at the weights, and has to go through the softmax (eq. 6.5).",
                but("p * (dp - (p * dp).sum(-1, keepdims=True))", "dp")),
    ),
)
