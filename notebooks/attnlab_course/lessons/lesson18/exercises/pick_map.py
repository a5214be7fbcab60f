"""Lesson 18, ★★: the cheapest feature map whose weights are near enough to softmax's, measured on a head's own data."""

from collections.abc import Callable

from attnlab.linear.numpy import elu
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np
from numpy import ndarray as Array


def pick_map(q: Array, k: Array, maps: list[Callable], allowed: float) -> int:
    """Index of the map with the fewest features that's near softmax on this head; −1 if none is.

    q (N, D), k (M, D), all keys visible, scale 1/√D. ``maps``: functions from vectors (N, D) to features (N, F). A map
    is near if KL(p ‖ a), averaged over the queries, is at most ``allowed`` nats; p is softmax's row, and a is the
    map's, normalized. A map with a weight that isn't positive is never near. If two maps have equally many features,
    the first one wins.
    """
    s = q @ k.T / np.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    best, fewest = -1, np.inf
    for number, phi in enumerate(maps):
        fq, fk = phi(q), phi(k)
        a = fq @ fk.T
        if (a > 0).all() and fk.shape[1] < fewest:
            a = a / a.sum(1, keepdims=True)
            if (p * np.log(np.where(p > 0, p, 1) / a)).sum(1).mean() <= allowed:  # eq. 18.6
                best, fewest = number, fk.shape[1]
    return best


def taylor(x: Array) -> Array:
    """(18.3): 1 + D + D² features."""
    y = x / x.shape[1] ** 0.25
    return np.concatenate([np.ones((len(x), 1)), y, (y[:, :, None] * y[:, None] / np.sqrt(2)).reshape(len(x), -1)], 1)


def both_signs(x: Array) -> Array:
    """2 D features."""
    return np.exp(np.concatenate([x, -x], 1) / 2)


def cases() -> list[Case]:
    """Heads whose scores are small, moderate and large; maps in several orders."""
    def head(size: float, seed: int, n: int = 12, d: int = 4) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [size * rng.normal(size=(m, d)) for m in (n // 2, n)]

    def ones(x: Array) -> Array:
        return np.ones((len(x), 1))

    every, signed = [taylor, both_signs, elu, ones], [lambda x: x, taylor]  # some weights are negative
    apart = 0.3 * abs(np.random.default_rng(8).normal(size=(5, 4))), -0.3 * np.ones((3, 4))
    negative = 3 * np.eye(4), -3 * np.eye(4)[[1, 1, 1, 1]]
    return [
        Case("ONE: all scores are 0, and the cheapest is exact", (np.zeros((2, 4)), np.zeros((4, 4)), every, 0.0)),
        Case("small scores: one feature is near enough", (*head(0.3, 1), every, 0.05)),
        Case("moderate scores", (*head(1.0, 2), every, 0.25)),
        Case("moderate scores, the maps in another order", (*head(1.0, 2), every[::-1], 0.05)),
        Case("a map with negative weights comes first", (*head(1.0, 3), signed, 5.0)),
        Case("large scores: none is near", (*head(4.0, 4), every, 0.1)),
        Case("HIGH: scores of thousands", (*head(40.0, 5), [elu, ones], 1e5)),
        Case("two maps with equally many features: the first", (*head(1.0, 6), [both_signs, both_signs], 1.0)),
        Case("all weights negative: their shares look like weights", (*apart, signed, 5.0)),
        Case("a weight of exactly 0", (*negative, [lambda x: np.maximum(x, 0), ones], 5.0)),
    ]


EXERCISE = Exercise(
    lesson="18", stars=2, reference=pick_map, where="eq. 18.6", cases=cases,
    hints=(
        "For each map: a = φ(q) φ(k)ᵀ, each row divided by its sum. Then take the mean over rows of KL(p ‖ a) = Σ p "
        "log(p / a).",
        "Where p is 0 its term is 0, so keep log away from it. If any a isn't positive, the map is out.",
        "Remember the best map so far and how many features it has, and replace it only by one with fewer.",
    ),
    without={
        "a = a / a.sum(1, keepdims=True)": "The map's weights aren't divided by their sum (eq. 18.6).",
        "np.sqrt(q.shape[1])": "Your scores lack 1/√D, so this isn't the softmax of the head (eq. 18.1).",
    },
    mistakes=(
        Mistake("You take the nearest map. We want the cheapest that's near enough, because its features are the "
                "state (section 1).",
                but("fk.shape[1] < fewest", "True", "<= allowed:", "<= allowed and number == 0:")),
        Mistake("Your KL is the wrong way around. The map can't miss what softmax weights heavily, so p goes in front "
                "(eq. 18.6).",
                but("(p * np.log(np.where(p > 0, p, 1) / a))", "(a * np.log(a / np.where(p > 0, p, 1e-300)))")),
        Mistake("You go by the worst query. We ask for the mean over queries (eq. 18.6).",
                but(".sum(1).mean()", ".sum(1).max()")),
        Mistake("You let negative weights pass. Their logarithm is NaN, and a comparison with NaN is False, or else "
                "the absolute value hides them (eq. 18.6).",
                but("(a > 0).all() and ", "", "/ a)).sum", "/ abs(a))).sum")),
    ),
)
