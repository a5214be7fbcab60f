"""Lesson 18, ★★: two keys whose weights stand in another order than their products with the query."""

from typing import Any

from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.promises import growth

import numpy as np
from numpy import ndarray as Array


def is_monotone(s: Array, a: Array) -> tuple[int, int, int] | bool:
    """True if no query gives more weight to a key with a smaller score; otherwise one counterexample, (i, j, r).

    s (N, M): scores; a (N, M): weights. A counterexample has s[i, j] < s[i, r] but a[i, j] > a[i, r]. Keys with equal
    scores can have any weights. Hold no table of M × M pairs.
    """
    for i, (score, weight) in enumerate(zip(s, a)):
        order = np.lexsort((weight, score))  # by score; equal scores by weight
        score, weight = score[order], weight[order]
        for n in np.flatnonzero(weight[:-1] > weight[1:]):
            return i, int(order[n]), int(order[n + 1])
    return True


def judge(case: Case, got: Any) -> str | None:
    """None if the triple is a counterexample, or if there is none and that was said."""
    s, a = case.args
    there = (s[:, :, None] < s[:, None, :]) & (a[:, :, None] > a[:, None, :])
    if got is True or (isinstance(got, np.bool_) and got):
        if not there.any():
            return None
        i, j, r = (int(x[0]) for x in np.nonzero(there))
        return (f"it is not monotone: query {i} has s = {s[i, j]}, a = {a[i, j]} for key {j}, and s = {s[i, r]}, "
                f"a = {a[i, r]} for key {r}.")
    try:
        i, j, r = (int(x) for x in got)
        found = bool(there[i, j, r])
    except (TypeError, ValueError, IndexError):
        return f"expected True or (i, j, r), got {got!r}."
    if found:
        return None
    return (f"({i}, {j}, {r}) isn't a counterexample: s = {s[i, j]} and {s[i, r]}, a = {a[i, j]} and {a[i, r]}; the "
            "smaller score must come first and have more weight.")


def monotone(n: int) -> tuple[Array, Array]:
    """Two queries, ``n`` keys, and weights that are the scores."""
    s = np.random.default_rng(n).normal(size=(2, n))
    return s, s


def cases() -> list[Case]:
    """Small tables first, then the maps of the lesson."""
    rng = np.random.default_rng(18)
    q, k = rng.normal(size=(2, 12, 4))
    s = q @ k.T
    weights = {
        "the softmax: monotone": np.exp(s),
        "Taylor, scores above −1 only: monotone": 1 + s + s**2 / 2,
        "e^q·e^k: weights that are no function of the score": np.exp(q) @ np.exp(k).T,
        "Taylor with scores below −1": 1 + 3 * s + 9 * s**2 / 2,
    }
    small = np.clip(s, -1, None)
    rows = [
        ("one key: monotone", [1], [5]),
        ("two keys, the smaller score has more weight", [1, 2], [4, 3]),
        ("the same, the larger score first", [2, 1], [3, 4]),
        ("equal scores may have any weights: monotone", [1, 1], [4, 3]),
        ("scores −∞ and 1, the smaller score has more weight", [-np.inf, 1], [4, 3]),
        ("equal scores between: scores 1, 1, 2 with weights 5, 1, 3", [1, 1, 2], [5, 1, 3]),
        ("equal scores above: scores 2, 2, 1 with weights 4, 2, 3", [2, 2, 1], [4, 2, 3]),
        ("equal weights for different scores: monotone", [1, 3, 2], [4, 4, 4]),
        ("two keys whose scores and weights differ by a billionth", [1, 1 + 1e-9], [3 + 1e-9, 3]),
        ("two keys whose scores and weights are as small as 10^−170", [1e-170, 2e-170], [2e-170, 1e-170]),
        ("weights of either sign: scores 1, 2 with weights 0, −1", [1, 2], [0, -1]),
        ("a query that gives everything more weight than another: monotone", [[3, 4], [1, 2]], [[1, 2], [3, 4]]),
        ("the second of three queries only", [[1, 2]] * 3, [[1, 2], [2, 1], [1, 2]]),
        ("query 18 of 20 only", [[1, 2]] * 20, [[1, 2]] * 18 + [[2, 1], [1, 2]]),
    ]
    return [
        *(Case(label, tuple(np.atleast_2d(np.array(x, float)) for x in tables)) for label, *tables in rows),
        *(Case(label, (small if "only" in label else s, 1 + small + small**2 / 2 if "only" in label else a))
          for label, a in weights.items()),
    ]


BY_SCORE = "np.lexsort((weight, score))", "np.argsort(score, kind='stable')"
RISING = "weight[:-1] > weight[1:]", "(weight[:-1] > weight[1:]) & (score[:-1] < score[1:])"
FOUND = "int(order[n]), int(order[n + 1])"

EXERCISE = Exercise(
    lesson="18", stars=2, reference=is_monotone, where="section 2", cases=cases, judge=judge,
    hints=(
        "One query at a time: different queries have different scales, so you can't compare their weights.",
        "All pairs of keys are M² comparisons per query. Sort the keys by score instead; what do the weights have to "
        "do?",
        "In order of score, the weights can never fall. Careful with equal scores: sort those by weight.",
    ),
    mistakes=(
        Mistake("You compare neighbors in order of score, and leave equal scores out. Among equal scores the weight "
                "may rise and fall, and a counterexample can hide behind them: sort equal scores by weight. See the "
                "definition before eq. 18.5.",
                but(*BY_SCORE, *RISING)),
        Mistake("That isn't a counterexample: keys with equal scores may differ in weight, and keys with equal "
                "weights in score. The weight can't *fall* as the score rises (before eq. 18.5).",
                but(*BY_SCORE), but("weight[:-1] > weight[1:]", "weight[:-1] >= weight[1:]")),
        Mistake("Your triple isn't (i, j, r) as asked: key j has the smaller score and more weight, and j and r are "
                "numbers of keys, order[n], not places in the sorted order (section 2).",
                but(FOUND, "int(order[n + 1]), int(order[n])"), but(FOUND, "int(n), int(n) + 1")),
        Mistake("You compare keys in the order they come in, or each one only with those after it. The smaller score "
                "can be anywhere: sort by score (section 2).",
                but(BY_SCORE[0], "np.arange(len(score))", *RISING)),
    ),
    costs=(
        Cost(growth(monotone, 500, 1000), 3,
             "Its memory grew {found:.1f}× with twice as many keys: a table of all pairs. Sorted by score, neighbors "
             "will do."),
    ),
)
