"""Lesson 18, ★★: the loss that distills softmax attention's weights into a Hedgehog map."""

import math

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import deepest, far_queries

import numpy as np
from numpy import ndarray as Array


def hedgehog_loss(q: Array, k: Array, w_q: Array, w_k: Array) -> float:
    """Mean cross-entropy of one causal head, in nats: softmax's weights p against the weights a of a Hedgehog map.

    q and k (N, D); w_q and w_k (D, f). The 2f features are e^{xW} and e^{−xW}. Return the mean over the N queries of
    −Σ_j p_ij log a_ij, where p (from scores q·k / √D) and a are both normalized over the keys j ≤ i.
    """
    def both_signs(y: Array) -> Array:
        return np.concatenate([np.exp(y), np.exp(-y)], 1)

    seen = np.tril(np.ones((len(q), len(k)), bool))
    s = np.where(seen, q @ k.T / math.sqrt(q.shape[1]), -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True)
    a = np.where(seen, both_signs(q @ w_q) @ both_signs(k @ w_k).T, 0)  # eq. 18.5
    a = a / a.sum(1, keepdims=True)
    return -np.sum(p[seen] * np.log(a[seen])) / len(q)  # eq. 18.6


def call(n: int, d: int, f: int, size: float = 1) -> tuple:
    """Random queries, keys and maps."""
    rng = np.random.default_rng(n + 10 * d + f)
    return *(size * rng.normal(size=(2, n, d))), *(rng.normal(size=(2, d, f)) / math.sqrt(d))


def cases() -> list[Case]:
    """One token first, whose loss is 0."""
    q, k, *maps = call(6, 4, 4)
    maps = [np.concatenate([0 * w[:1], w[1:]]) for w in maps]  # features of modest size, whatever the scores
    two = np.array([[1.0], [2.0]])
    return [
        Case("ONE: a single token has one weight, 1, in both: the loss is 0", call(1, 4, 4)),
        Case("two tokens, D = 1: the second query divides its weight", (two, two[::-1].copy(), *np.ones((2, 1, 1)))),
        Case("7 tokens, D = 3, f = 5; larger scores", call(7, 3, 5, 3)),
        *far_queries(lambda q, k: (q, k, *maps), q, k, "; 6 tokens"),
        Case("LOW: scores −10¹² to −6·10¹²; 6 tokens", (*(x[:, ::-1].copy() for x in deepest(6, 6, 4)), *maps)),
        Case("70 tokens, D = 4", call(70, 4, 2)),
        Case("4 tokens, each of which gives its own key all the weight",
             (*2 * [10 * np.eye(4)], *(w / 10 for w in maps))),
        Case("5 tokens whose xW are as large as 20", (*call(5, 4, 4)[:2], *(12 * w for w in call(5, 4, 4)[2:]))),
    ]


SCORES = "np.where(seen, q @ k.T / math.sqrt(q.shape[1]), -np.inf)"

EXERCISE = Exercise(
    lesson="18", stars=2, reference=hedgehog_loss, where="eq. 18.6", cases=cases,
    hints=(
        "Compute two matrices of weights, p and a, each with rows that sum to 1 over the keys j ≤ i.",
        "a is a product: features of q, (N, 2f), by features of k, (N, 2f), transposed. Mask it, then divide by the "
        "sums of its rows.",
        "log of a hidden weight is −∞, and 0 · −∞ is NaN: use the visible entries alone, p[seen] and a[seen].",
    ),
    without={
        "np.tril(np.ones((len(q), len(k)), bool))": phrases.sees_future("eq. 18.6"),
        "a = a / a.sum(1, keepdims=True)":
            "Your a isn't divided by its row sums. Features can grow as large as they like, and the loss would fall "
            "forever: eq. 18.6 compares weights that sum to 1.",
        "math.sqrt(q.shape[1])": phrases.unscaled("lesson 01, section 1"),
    },
    mistakes=(
        Mistake("You swapped p and a: −Σ a log p. The softmax is the teacher, so p goes in front of the logarithm: "
                "eq. 18.6.",
                but("p[seen] * np.log(a[seen])", "a[seen] * np.log(p[seen])")),
        Mistake("The gradient is right up to a factor, but the value isn't. Σ p log(p/a) is the cross-entropy minus "
                "the entropy of p, and a logarithm to base 2 gives bits, where eq. 18.6 is in nats.",
                but("np.log(a[seen])", "np.log(a[seen] / p[seen])"), but("np.log(", "np.log2(")),
        Mistake("The future is in a denominator, p's or a's. Both are divided by their sums over the keys j ≤ i "
                "alone: mask first, then divide (eq. 18.6).",
                but(SCORES, "q @ k.T / math.sqrt(q.shape[1])"),
                but(SCORES, "q @ k.T / math.sqrt(q.shape[1])", "np.exp(s - s.max(1, keepdims=True))", "np.exp(s)"),
                but("np.where(seen, both_signs(q @ w_q) @ both_signs(k @ w_k).T, 0)",
                    "both_signs(q @ w_q) @ both_signs(k @ w_k).T")),
        Mistake("You take a different mean. Eq. 18.6 sums over keys and averages over queries, all N of them: the "
                "first one counts, too, though its loss is 0.",
                but("/ len(q)", "/ p.size"), but("/ len(q)", "/ seen.sum()"), but(" / len(q)", ""),
                but("/ len(q)", "/ max(1, len(q) - 1)")),
        Mistake("There's a factor in your map that isn't in eq. 18.5. Dividing a key's features by the largest of "
                "them doesn't cancel in a (section 6), and 1/√D belongs to the softmax: the map learns its own scale.",
                but("both_signs(k @ w_k)", "(both_signs(k @ w_k) / np.exp(abs(k @ w_k).max(1, keepdims=True)))"),
                but("q @ w_q", "q / math.sqrt(q.shape[1]) @ w_q"),
                but("q @ w_q", "q / q.shape[1] ** 0.25 @ w_q", "k @ w_k", "k / k.shape[1] ** 0.25 @ w_k")),
    ),
)
