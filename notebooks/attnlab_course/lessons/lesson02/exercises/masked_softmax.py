"""Lesson 02, ★★★: softmax over the visible entries, right forward and backward."""

from math import inf
from typing import TYPE_CHECKING

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import ALONE, far_scores

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def masked_softmax(x: "Tensor", mask: "Tensor") -> "Tensor":
    """Softmax over the visible entries of each row; x and mask (..., n), mask boolean, True = attend."""
    import torch

    s = torch.where(mask, x, -inf)
    m = s.detach().amax(-1, keepdim=True)
    e = torch.exp(s - torch.where(m == -inf, 0, m))
    l = e.sum(-1, keepdim=True)
    return e / torch.where(l == 0, 1, l)


def cases() -> list[Case]:
    """Rows with something hidden, with nothing visible, with rubbish where nobody looks; two shapes, for JAX."""
    rng = np.random.default_rng(2)
    some, none, every, one = [True, True, False], [False, False, False], [True, True, True], [True, False, False]
    big = rng.random((4, 5)) < 0.6
    big[1] = False
    small = {
        "everything visible": ([[1, 2, 0], [0.5, 0, 3]], [every, every]),
        "one entry of each row hidden": ([[0.5, 2, 1], [1, 0, 4]], [some, some]),
        "EMPTY: nothing visible in row 1; its weights and gradient are 0": ([[999, 1000, 1], [1, 0, 4]], [some, none]),
        "a hidden score of 1000 beside 0 and 1": ([[0, 1, 1000], [1, 0, 0]], [some, every]),
        "LOW: one visible score a row, -1e300; its weight is 1": ([[ALONE, 0, 0], [ALONE, 1, 2]], [one, one]),
        "POISON: NaN at hidden positions": ([[0, 1, np.nan], [2, 1, np.nan]], [some, some]),
        "NAN: a visible NaN is an error upstream and must stay visible": ([[0, np.nan, 2], [1, 0, 3]], [every, every]),
        "a row of visible NaN is not empty: they must stay visible": ([[np.nan] * 3, [1, 0, 3]], [every, every]),
    }
    found = [Case(label, (np.array(x, float), np.array(mask))) for label, (x, mask) in small.items()]
    far = far_scores(lambda x: (x, np.array([some, every])), np.array([[0.0, 1, 5], [1, 0, 2]]), "; 2 hidden in row 0")
    return [*found, *far, Case("random, 4 rows, row 1 empty", (rng.normal(size=(4, 5)), big))]


def by_library(x: "Tensor", mask: "Tensor") -> "Tensor":
    """PyTorch's own softmax: NaN in an empty row."""
    import torch

    p = torch.softmax(torch.where(mask, x, -inf), -1)
    return p


HIDDEN, ADDED = "torch.where(mask, x, -inf)", "x + torch.zeros_like(x).masked_fill(~mask, -inf)"

EXERCISE = Exercise(
    lesson="02", stars=3, reference=masked_softmax, cases=cases, gradients=(0,), library="torch", where="eq. 2.7",
    hints=(
        "Hide by selecting: where(mask, x, -inf). Adding -inf lets a NaN through, forward and backward.",
        "The maximum of an empty row is -inf; replace it with 0 before you subtract, and the sum of 0 with 1 before "
        "you divide (eq. 2.7). Then no NaN arises, and none flows back.",
        "You can detach the maximum: by eq. 2.2, the result doesn't depend on it.",
    ),
    mistakes=(
        Mistake(phrases.empty_row("eq. 2.7"), by_library, but(HIDDEN, ADDED, of=by_library)),
        Mistake("The forward pass is right, but the gradient of the empty row is NaN. A where that comes after the NaN "
                "sends a gradient of 0 back into it, and 0 times NaN is NaN (eq. 2.8). Make maximum and sum harmless "
                "first (eq. 2.7), and hide scores with where, not by adding -inf or multiplying by the mask.",
                but(HIDDEN, ADDED, "return p", "return torch.where(mask, p, 0.0)", of=by_library),
                but(HIDDEN, ADDED, "return p", "return p.nan_to_num()", of=by_library),
                but("exp(s -", "exp(x -", "m))", "m)) * mask",
                    "e / torch.where(l == 0, 1, l)", "torch.where(l > 0, e / l, 0.0)")),
        Mistake(phrases.nan_hidden("eq. 2.7"),
                but("return p", "return p.nan_to_num()", of=by_library),
                but("torch.exp(s - torch.where(m == -inf, 0, m))", "torch.exp(torch.where(mask, x, 0.0) - m) * mask",
                    "e / torch.where(l == 0, 1, l)", "torch.where((e / l).isnan(), 0.0, e / l)")),
        Mistake("You hide scores with a finite number. It's a score like any other: if the visible ones are just as "
                "low, the hidden ones get weight. A hidden score is −∞ (eq. 2.7).",
                *(but("-inf", number, "return p", returned, of=by_library)
                  for number in ("-20.0", "-80.0", "-1e3", "-1e4", "-1e9", "-1e30")
                  for returned in ("return p", "return p * mask")),
                but("-inf", "torch.finfo(x.dtype).min", of=by_library)),
        Mistake("The values are right, but the gradient isn't: you stop it at the sum. Every weight depends on every "
                "score of its row through the sum. Only the maximum can be detached, because by eq. 2.2 it cancels.",
                but("e.sum(-1, keepdim=True)", "e.sum(-1, keepdim=True).detach()")),
    ),
)
