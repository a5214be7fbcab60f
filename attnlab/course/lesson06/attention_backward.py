"""Lesson 06, ★★: the gradient of attention by hand."""

from collections.abc import Callable

from attnlab.check.exercise import Case, Exercise, Function, Mistake

import numpy as np

Arrays = tuple[np.ndarray, ...]


def attention_backward(q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray) -> Arrays:
    """(dq, dk, dv) of softmax(q kᵀ / √D) v; q (N, D), k (M, D), v (M, Dv), dout (N, Dv)."""
    return backward(q, k, v, dout)


def softmax(s: np.ndarray) -> np.ndarray:
    """The weights of each row."""
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bare_softmax(s: np.ndarray) -> np.ndarray:
    """The weights of each row, without the shift."""
    with np.errstate(all="ignore"):
        return np.exp(s) / np.exp(s).sum(-1, keepdims=True)


def scores_gradient(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Equation 6.5."""
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray, *, weigh: Function = softmax,
    ds_of: Function = scores_gradient, scales: Callable[[float], tuple[float, float, float]] = lambda c: (c, c, c),
    dq_of: Function = lambda ds, k: ds @ k, dk_of: Function = lambda ds, q: ds.T @ q,
    dv_of: Function = lambda p, dout: p.T @ dout, dp_of: Function = lambda dout, v: dout @ v.T,
) -> Arrays:
    """The gradient, each step of which can be replaced by a wrong one; ``scales``: for scores, dq and dk."""
    c, c_q, c_k = scales(q.shape[-1] ** -0.5)
    p = weigh(c * q @ k.T)
    ds = ds_of(p, dp_of(dout, v))
    return c_q * dq_of(ds, k), c_k * dk_of(ds, q), dv_of(p, dout)


def wrong(**steps: Function) -> Function:
    """The gradient with these steps replaced."""

    def attempt(q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray) -> Arrays:
        return backward(q, k, v, dout, **steps)

    return attempt


def arrays(seed: int, n: int, m: int, d: int, dv: int) -> Arrays:
    """Random q, k, v and dout."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=size) for size in ((n, d), (m, d), (m, dv), (n, dv)))


def cases() -> list[Case]:
    """One key, a square, rectangles, values of another size, equal scores, large ones; few shapes, for JAX."""
    q, k, v, dout = arrays(4, 2, 5, 4, 3)
    q_high, k_high, _, _ = arrays(5, 2, 5, 4, 3)
    q_high[:, 0], k_high[:, 0] = 100, 20  # the product of these, by √D: 1000
    return [
        Case("ONE: one query, one key: the weight is 1 whatever the score, so dq and dk are 0", arrays(0, 1, 1, 1, 1)),
        Case("square: N = M = D = Dv = 3", arrays(2, 3, 3, 3, 3)),
        Case("RECT: five queries, two keys", arrays(3, 5, 2, 4, 4)),
        Case("RECT: two queries, five keys, Dv = 3, D = 4", (q, k, v, dout)),
        Case("CONST: the queries are 0, so all weights are 1/5, and dk is 0", (np.zeros((2, 4)), k, v, dout)),
        Case("HIGH: all scores near 1000", (q_high, k_high, v, dout)),
        Case("random, Dv = 3, D = 4", arrays(8, 2, 5, 4, 3)),
    ]


EXERCISE = Exercise(
    lesson="06",
    stars=2,
    reference=attention_backward,
    cases=cases,
    hints=(
        "Compute P first, with a safe softmax; then equations 6.3 to 6.7 in that order, a line each.",
        "dv sums over queries (p.T @ dout); dp = dout @ v.T has the shape of P.",
        "ds = p * (dp - (p * dp).sum(-1, keepdims=True)), one sum for each query.",
        "The score is scale · q·k, so the scale 1/√D stands in dq and in dk: scale * ds @ k and scale * ds.T @ q.",
    ),
    mistakes=(
        Mistake(
            "dS is not P ∘ dP: that treats the sum l as a constant. A shift of all scores of a query changes nothing, "
            "so each row of dS adds up to 0; subtract rowsum(P ∘ dP) from dP first (eq. 6.5).",
            wrong(ds_of=lambda p, dp: p * dp),
        ),
        Mistake(
            "The sum in dS runs over the queries. A softmax couples the keys of one query: sum over the last axis "
            "(eq. 6.5).",
            wrong(ds_of=lambda p, dp: p * (dp - (p * dp).sum(0, keepdims=True))),
        ),
        Mistake(
            "The sum in dS runs over all queries and keys; each query has a sum of its own (eq. 6.5).",
            wrong(ds_of=lambda p, dp: p * (dp - (p * dp).sum())),
        ),
        Mistake(
            "The factor 1/√D is missing in dq: the score is scale · q·k, so the scale returns in its derivative by q "
            "(eq. 6.6).",
            wrong(scales=lambda c: (c, 1, c)),
        ),
        Mistake(
            "The factor 1/√D is missing in dk: the score is scale · q·k, so the scale returns in its derivative by k "
            "(eq. 6.7).",
            wrong(scales=lambda c: (c, c, 1)),
        ),
        Mistake(
            "The factor 1/√D is missing in dq and in dk: the score is scale · q·k, so the scale returns in both (eq. "
            "6.6, 6.7).",
            wrong(scales=lambda c: (c, 1, 1)),
        ),
        Mistake(
            "The scores have no scale at all: they are q·k / √D, and the factor returns in dq and dk (eq. 1.1, 6.6, "
            "6.7).",
            wrong(scales=lambda c: (1, 1, 1)),
        ),
        Mistake(
            "dk multiplies dS as it stands. A key is used by every query, so dk sums over queries: dS transposed "
            "(eq. 6.7).",
            wrong(dk_of=lambda ds, q: ds @ q),
        ),
        Mistake(
            "dv multiplies P as it stands. A value is used by every query, so dv sums over queries: P transposed "
            "(eq. 6.3).",
            wrong(dv_of=lambda p, dout: p @ dout),
        ),
        Mistake(
            "dq multiplies dS transposed. A query's gradient sums over the keys, which are the columns of dS (eq. "
            "6.6).",
            wrong(dq_of=lambda ds, k: ds.T @ k),
        ),
        Mistake(
            "Your softmax is the bare one: e^s overflows above 709 in float64. Subtract each row's maximum (lesson "
            "02).",
            wrong(weigh=bare_softmax),
        ),
        Mistake(
            "You return dP where dS is needed: the gradient stops at the weights. It must go through the softmax (eq. "
            "6.5).",
            wrong(ds_of=lambda p, dp: dp),
        ),
    ),
)
