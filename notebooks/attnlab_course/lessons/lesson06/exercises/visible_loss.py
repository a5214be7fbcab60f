"""Lesson 06, ★★: a loss whose value is right and whose gradient has three faults, repaired."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE, far_queries

import numpy as np
import torch
from torch import Tensor


def visible_loss(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """Sum of the outputs of attention of query (N, D) over the keys (M, D) that are visible (M,), with its gradient."""
    s = torch.where(visible, query @ key.T / query.shape[1] ** 0.5, -torch.inf)
    m = s.detach().amax(1, keepdim=True)
    e = torch.exp(s - m)
    l = e.sum(1, keepdim=True)
    return (e @ value / l).sum()


def call(n: int, m: int, hidden: list[int], high: float = 0, seen: float = 0, d: int = 4) -> tuple:
    """Random arrays; the scores of hidden keys lie near ``high``, the others near ``seen``."""
    rng = np.random.default_rng(10 * n + m)
    q, k, v = rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.normal(size=(m, 3))
    visible = np.ones(m, bool)
    visible[hidden] = False
    q[:, 0] = d**0.5
    k[:, 0] += np.where(visible, seen, high)
    return q, k, v, visible


def cases() -> list[Case]:
    """Everything visible; something hidden; something hidden with a score that no exponential holds; many keys."""
    (q, k, v, visible), (*single, hidden), far = call(3, 3, [1]), call(2, 3, [2], high=200), call(2, 4, [0])
    far[1][2:, 0] += 1000
    far[2][1] = 1e30
    return [
        Case("two queries, three keys, key 1 hidden", call(2, 3, [1])),
        Case("two queries, three keys, D = 7, key 1 hidden", call(2, 3, [1], d=7)),
        Case("HIGH: two queries, three keys; the scores of key 2, which is hidden, lie near 2000",
             call(2, 3, [2], high=2000)),
        Case("HIGH, float32: two queries, three keys; the scores of key 2, which is hidden, lie near 200",
             (*(x.astype(np.float32) for x in single), hidden)),
        Case("two queries, four keys, key 0 hidden; key 1 has the value 10³⁰ and scores near 0, keys 2 and 3 near 1000",
             far),
        *far_queries(lambda q, k: (q, k, v, visible), q, k, "; three queries, three keys, key 1 hidden"),
        Case("LOW: two queries, three keys, keys 0 and 1 hidden; the scores of key 2 are −1e300",
             call(2, 3, [0, 1], seen=ALONE)),
        Case("131 queries, 70 keys, all visible", call(131, 70, [])),
    ]


LATE = ("torch.where(visible, query @ key.T / query.shape[1] ** 0.5, -torch.inf)",
        "query @ key.T / query.shape[1] ** 0.5",
        "m = s.detach()", "m = torch.where(visible, s, -torch.inf).detach()",
        "torch.exp(s - m)", "torch.where(visible, torch.exp(s - m), 0)")
STOPPED, OUTSIDE = ("e.sum(1, keepdim=True)", "e.sum(1, keepdim=True).detach()"), ("e @ value", "e @ value.detach()")
TRY = "each of dq, dk and dv, with and without a hidden key"

EXERCISE = Exercise(
    lesson="06", stars=2, reference=visible_loss, cases=cases, gradients=(0, 1, 2), library="torch",
    where="eq. 1.9 of lesson 01",
    hints=(
        "Compare all three gradients with those of torch.softmax(s.masked_fill(~visible, -torch.inf), 1) @ value. One "
        "input with nothing hidden shows two faults; the third needs a hidden key with a score in the thousands.",
        "Which array does each line treat as a constant (eq. 6.9)? What does the recomputed function reach by name?",
        "`where` comes after the exponential; l is detached; value isn't an argument of what's recomputed.",
    ),
    without={
        "m": phrases.unshifted("eq. 6.9"),
        "query.shape[1] ** 0.5": phrases.unscaled("lesson 01, eq. 1.1"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("section 7, eq. 6.9", inputs=TRY), but(*LATE, *STOPPED, *OUTSIDE)),
        Mistake(phrases.one_fixed("section 7, eq. 6.9", inputs=TRY),
                but(*LATE, *STOPPED), but(*LATE, *OUTSIDE), but(*STOPPED, *OUTSIDE)),
        Mistake("A hidden key with a large score makes the gradient NaN: the exponential overflows before `where` puts "
                "a 0 in its place. Hide the score, then take the exponential (section 7, lesson 02, eq. 2.8).",
                but(*LATE)),
        Mistake(phrases.l_constant("eqs. 6.5 and 6.9"), but(*STOPPED)),
        Mistake(phrases.no_gradient("section 7", what="Values"), but(*OUTSIDE)),
    ),
)
