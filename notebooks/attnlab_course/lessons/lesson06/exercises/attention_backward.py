"""Lesson 06, ★★: the gradient of attention by hand."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, last_key, lifted

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


def arrays(seed: int, n: int, m: int, d: int, dv: int) -> Arrays:
    """Random q, k, v and dout."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=size) for size in ((n, d), (m, d), (m, dv), (n, dv)))


def many() -> Arrays:
    """More queries and keys than a block of 64 holds; the scores of key 3 lie 30 lower, and its values near 10¹⁵."""
    q, k, v, dout = arrays(9, 131, 70, 4, 3)
    q, k = lifted(q, k, 1.0)
    k[:, 0], k[3, 0], v[3] = 0, -60, 1e15 * v[3]  # the scale is 1/2
    return q, k, v, dout


def cases() -> list[Case]:
    """One key, a square, rectangles, values of another size, equal scores, large ones, many; few shapes, for JAX."""
    q, k, v, dout = arrays(4, 2, 5, 4, 3)
    return [
        Case("ONE: one query, one key: the weight is 1 whatever the score, so dq and dk are 0", arrays(0, 1, 1, 1, 1)),
        Case("square: N = M = D = Dv = 3", arrays(2, 3, 3, 3, 3)),
        Case("RECT: five queries, two keys, Dv = 3", arrays(3, 5, 2, 4, 3)),
        Case("RECT: two queries, five keys, Dv = 3, D = 4", (q, k, v, dout)),
        Case("CONST: the queries are 0, so all weights are 1/5, and dk is 0", (np.zeros((2, 4)), k, v, dout)),
        *far_queries(lambda q, k: (q, k, v, dout), q, k),
        last_key(lambda q, k: (q, k, v, dout), q, k),
        Case("SMALL: 131 queries, 70 keys; key 3 has weights near 10⁻¹⁵ and values near 10¹⁵", many()),
        Case("random, Dv = 3, D = 4", arrays(8, 2, 5, 4, 3)),
    ]


ONCE = "    p /= p.sum(-1, keepdims=True)\n", ""
AVERAGE = "(p * dp).sum(-1, keepdims=True)"

EXERCISE = Exercise(
    lesson="06", stars=2, reference=attention_backward, cases=cases,
    hints=(
        "Compute P first, with a safe softmax; then equations 6.3 to 6.7 in that order, one line each.",
        "dv sums over queries (p.T @ dout); dp = dout @ v.T has the shape of P.",
        "ds = p * (dp - (p * dp).sum(-1, keepdims=True)), one sum for each query.",
        "The score is scale · q·k, so the scale 1/√D appears in both dq and dk: scale * ds @ k and scale * ds.T @ q.",
    ),
    mistakes=(
        Mistake(phrases.stops_at_p("eq. 6.5"), but(f"(dp - {AVERAGE})", "dp")),
        Mistake(phrases.over_queries("eq. 6.5"), but(AVERAGE, "(p * dp).sum(0, keepdims=True)")),
        Mistake(phrases.over_everything("eq. 6.5"), but(AVERAGE, "(p * dp).sum()")),
        Mistake(phrases.scale_in_gradient("eq. 6.6", what="dq"), but("scale * ds @ k", "ds @ k")),
        Mistake(phrases.scale_in_gradient("eq. 6.7", what="dk"), but("scale * ds.T @ q", "ds.T @ q")),
        Mistake(phrases.scale_in_gradient("eqs. 6.6 and 6.7", what="dq and dk"), but("scale * ds", "ds")),
        Mistake(phrases.unscaled("eq. 1.1; the factor returns in eqs. 6.6 and 6.7"), but("q.shape[-1] ** -0.5", "1")),
        Mistake(phrases.scaled_by_values("eq. 1.1"), but("q.shape[-1] ** -0.5", "v.shape[-1] ** -0.5")),
        Mistake("A transpose is missing. Every query uses each key and value, so dk and dv sum over the queries: "
                "transpose dS and P (eqs. 6.3 and 6.7).",
                but("ds.T", "ds"), but("p.T", "p")),
        Mistake("Your dq uses dS transposed. A query's gradient sums over the keys, which are the columns of dS (eq. "
                "6.6).",
                but("ds @ k", "ds.T @ k")),
        Mistake(phrases.unshifted("lesson 02, section 2"),
                but("s - s.max(-1, keepdims=True)", "s"),
                but("s - s.max(-1, keepdims=True)", "s - np.log(np.exp(s).sum(-1, keepdims=True))", *ONCE),
                seen="HIGH"),
        Mistake(phrases.clipped("lesson 02, eq. 2.3"), but("s - s.max(-1, keepdims=True)", "np.clip(s, -700, 700)")),
        Mistake(phrases.one_maximum("lesson 02, eq. 2.3"), but("s.max(-1, keepdims=True)", "s.max()")),
        Mistake(phrases.starts_at_number("lesson 02, eq. 2.3"),
                but("s.max(-1, keepdims=True)", "np.maximum(s.max(-1, keepdims=True), 0)")),
        Mistake("You return dP where dS is needed: the gradient stops at the weights. It has to go through the softmax "
                "(eq. 6.5).",
                but(f"p * (dp - {AVERAGE})", "dp")),
    ),
)
