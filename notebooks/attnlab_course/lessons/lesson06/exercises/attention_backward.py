"""Lesson 06, ★★: the gradient of attention by hand."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, last_key, lifted
from attnlab_course.checker.inputs import qkv

import numpy as np

Arrays = tuple[np.ndarray, ...]


def attention_backward(q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray) -> Arrays:
    """(dq, dk, dv) of softmax(q kᵀ / √D) v; q (G, N, D), dout (G, N, Dv); all heads share k (M, D) and v (M, Dv)."""
    scale = k.shape[1] ** -0.5
    s = scale * q @ k.T
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = dout @ v.T  # eq. 6.4
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))  # eq. 6.5
    dq = scale * ds @ k  # eq. 6.6
    dk = scale * np.einsum("gnm,gnd->md", ds, q)  # eq. 6.7, summed over the heads
    return dq, dk, np.einsum("gnm,gne->me", p, dout)  # eq. 6.3, likewise


def arrays(g: int, n: int, m: int, d: int, dv: int) -> Arrays:
    """Random q, k, v and dout."""
    q, k, v = qkv(g * n, m, d, dv)
    return q.reshape(g, n, d), k, v, np.random.default_rng(n).normal(size=(g, n, dv))


def many() -> Arrays:
    """More queries and keys than a block of 64 holds; the scores of key 3 lie 30 lower, and its values near 10¹⁵."""
    q, k, v, dout = arrays(2, 131, 70, 4, 3)
    q, k = lifted(q, k, 1.0)
    k[:, 0], k[3, 0], v[3] = 0, -60, 1e15 * v[3]  # the scale is 1/2
    return q, k, v, dout


def cases() -> list[Case]:
    """One key, a square, a rectangle, heads, equal scores, large ones, many; few shapes, for JAX."""
    q, k, v, dout = arrays(3, 2, 5, 4, 3)
    return [
        Case("ONE: one query, one key: the weight is 1 whatever the score, so dq and dk are 0", arrays(1, 1, 1, 1, 1)),
        Case("ONE: two heads of one query and one key: dv is the sum of both rows of dout", arrays(2, 1, 1, 1, 1)),
        Case("square: one head, N = M = D = Dv = 3", arrays(1, 3, 3, 3, 3)),
        Case("RECT: one head, five queries, two keys, D = 4, Dv = 3", arrays(1, 5, 2, 4, 3)),
        Case("HEADS: three heads of two queries, five keys, D = 4, Dv = 3", (q, k, v, dout)),
        Case("CONST: the queries are 0, so all weights are 1/5, and dk is 0", (0 * q, k, v, dout)),
        *far_queries(lambda q, k: (q, k, v, dout), q, k),
        last_key(lambda q, k: (q, k, v, dout), q, k),
        Case("SMALL: two heads of 131 queries, 70 keys; key 3 has weights near 10⁻¹⁵ and values near 10¹⁵", many()),
    ]


EXERCISE = Exercise(
    lesson="06", stars=2, reference=attention_backward, cases=cases,
    hints=(
        "Compute P first, with a safe softmax; then equations 6.3 to 6.7 in that order, one line each.",
        "dp = dout @ v.T has the shape of P; dk and dv sum over the queries of all heads. For them, what's another "
        "head but more queries?",
        "With q.reshape(-1, D) and dout.reshape(-1, Dv), all is as in section 2; at the end, dq gets the shape of q.",
    ),
    without={
        "(p * dp).sum(-1, keepdims=True)": "Adding a number to a row's scores changes nothing, so each row of dS "
                                           "adds up to 0: subtract rowsum(P ∘ dP) from dP (eq. 6.5).",
        "-1": "You take one maximum, or one sum, of all queries. Each query has its own, over its keys: the last axis "
              "(eqs. 1.2 and 6.5).",
    },
    mistakes=(
        Mistake(phrases.over_queries("eq. 6.5"), but("(p * dp).sum(-1", "(p * dp).sum((0, 1)")),
        Mistake(phrases.scale_in_gradient("eqs. 1.1, 6.6 and 6.7", what="the scores, dq or dk"),
                but("k.shape[1] ** -0.5", "1"), but("scale * ds @", "ds @", "scale * np.einsum", "np.einsum"),
                but("scale * ds @", "ds @"), but("scale * np.einsum", "np.einsum")),
        Mistake("dq sums over the keys; dk and dv sum over the queries of every head, because all of them read the "
                "same k and v. It's a sum, not a mean (eqs. 6.3, 6.6 and 6.7).",
                but("ds, q)", "ds, q) / len(q)", "p, dout)", "p, dout) / len(q)"),
                but("ds, q)", "ds[:1], q[:1])"), but("p, dout)", "p[:1], dout[:1])"),
                but("gnd->md", "gnd->gmd", "gne->me", "gne->gme")),
        Mistake(phrases.unshifted("lesson 02, section 2"),
                but("s - s.max(-1, keepdims=True)", "s"),
                but("s - s.max(-1, keepdims=True)", "s - np.log(np.exp(s).sum(-1, keepdims=True))",
                    "    p /= p.sum(-1, keepdims=True)\n", ""),
                seen="HIGH"),
        Mistake("You return dP for dS: the gradient stops at the weights, and has to go through the softmax (eq. 6.5).",
                but("p * (dp - (p * dp).sum(-1, keepdims=True))", "dp")),
    ),
)
