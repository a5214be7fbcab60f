"""Lesson 02, ★★★: softmax over the visible entries, right forward and backward."""

from math import inf
from typing import TYPE_CHECKING

from attnlab.check.exercise import Case, Exercise, Function, Mistake

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
    some, none, every = [True, True, False], [False, False, False], [True, True, True]
    big = rng.random((4, 5)) < 0.6
    big[1] = False
    small = {
        "everything visible": ([[1, 2, 0], [0.5, 0, 3]], [every, every]),
        "one entry of each row hidden": ([[0.5, 2, 1], [1, 0, 4]], [some, some]),
        "EMPTY: nothing visible in row 1; its weights and gradient are 0": ([[0.5, 2, 1], [1, 0, 4]], [some, none]),
        "a hidden score of 1000 beside 0 and 1": ([[0, 1, 1000], [1, 0, 0]], [some, every]),
        "ROWS: row 0 near 0, row 1 near 1000": ([[0, 1, 5], [1000, 1001, 0]], [some, every]),
        "POISON: NaN at hidden positions": ([[0, 1, np.nan], [2, 1, np.nan]], [some, some]),
        "a visible NaN is an error upstream and must stay visible": ([[0, np.nan, 2], [1, 0, 3]], [every, every]),
    }
    found = [Case(label, (np.array(x, float), np.array(mask))) for label, (x, mask) in small.items()]
    return [*found, Case("random, 4 rows, row 1 empty", (rng.normal(size=(4, 5)), big))]


def torch_softmax(s: "Tensor") -> "Tensor":
    """PyTorch's own: NaN in an empty row."""
    import torch

    return torch.softmax(s, -1)


def hidden(x: "Tensor", mask: "Tensor", score: float = -inf) -> "Tensor":
    """Hidden scores replaced."""
    import torch

    return torch.where(mask, x, score)


def added(x: "Tensor", mask: "Tensor") -> "Tensor":
    """−∞ added to hidden scores."""
    import torch

    return x + torch.zeros_like(x).masked_fill(~mask, -inf)


def zeroed(p: "Tensor", mask: "Tensor") -> "Tensor":
    """Hidden weights set to 0 afterwards."""
    import torch

    return torch.where(mask, p, 0.0)


def times_mask(x: "Tensor", mask: "Tensor") -> "Tensor":
    """Exponentials times the mask, the quotient repaired afterwards."""
    import torch

    m = hidden(x, mask).detach().amax(-1, keepdim=True)
    e = torch.exp(x - torch.where(m == -inf, 0, m)) * mask
    l = e.sum(-1, keepdim=True)
    return torch.where(l > 0, e / l, 0.0)


def times_mask_then_isnan(x: "Tensor", mask: "Tensor") -> "Tensor":
    """Exponentials of the hidden scores made harmless, the quotient repaired afterwards."""
    import torch

    m = hidden(x, mask).detach().amax(-1, keepdim=True)
    e = torch.exp(hidden(x, mask, 0.0) - m) * mask
    p = e / e.sum(-1, keepdim=True)
    return torch.where(p.isnan(), 0.0, p)


def shifted_by_all(guard: bool) -> Function:
    """The maximum is taken over hidden entries, too."""

    def wrong(x: "Tensor", mask: "Tensor") -> "Tensor":
        import torch

        e = torch.exp(hidden(x - x.detach().amax(-1, keepdim=True), mask))
        l = e.sum(-1, keepdim=True)
        return e / (torch.where(l == 0, 1, l) if guard else l)

    return wrong


def stopped_sum(x: "Tensor", mask: "Tensor") -> "Tensor":
    """No gradient through the sum."""
    import torch

    s = hidden(x, mask)
    m = s.detach().amax(-1, keepdim=True)
    e = torch.exp(s - torch.where(m == -inf, 0, m))
    l = e.sum(-1, keepdim=True).detach()
    return e / torch.where(l == 0, 1, l)


EXERCISE = Exercise(
    lesson="02",
    stars=3,
    reference=masked_softmax,
    cases=cases,
    gradients=(0,),
    library="torch",
    hints=(
        "Hide by selecting: where(mask, x, -inf). Adding -inf lets a NaN through, forward and backward.",
        "The maximum of an empty row is -inf; replace it by 0 before you subtract (eq. 2.7).",
        "The sum of an empty row is 0; replace it by 1 before you divide. Then no NaN arises, and none flows back.",
        "The maximum may be detached: by eq. 2.2 the result does not depend on it.",
    ),
    mistakes=(
        Mistake(
            "Your empty row is NaN: its maximum is -inf, and -inf - (-inf) is undefined. Shift by 0 and divide by 1 in "
            "that row (eq. 2.7).",
            lambda x, mask: torch_softmax(hidden(x, mask)), lambda x, mask: torch_softmax(added(x, mask)),
        ),
        Mistake(
            "Forward is right, but the gradient of the empty row is NaN. A where that stands after the NaN sends a "
            "gradient of 0 back into it, and 0 times NaN is NaN (eq. 2.8). Make maximum and sum harmless first "
            "(eq. 2.7), and hide scores by where, not by adding -inf or multiplying by the mask.",
            lambda x, mask: zeroed(torch_softmax(added(x, mask)), mask),
            lambda x, mask: torch_softmax(added(x, mask)).nan_to_num(),
            times_mask,
        ),
        Mistake(
            "You turn every NaN into 0, also that of a visible score, which comes from a bug elsewhere. Define the "
            "empty row by eq. 2.7; then there is no NaN to remove.",
            lambda x, mask: torch_softmax(hidden(x, mask)).nan_to_num(), times_mask_then_isnan,
        ),
        Mistake(
            "You put a large negative number in the place of hidden scores. In an empty row that is a shift like any "
            "other, and the hidden entries share the weight. A finite number is never a mask: use -inf and eq. 2.7.",
            lambda x, mask: torch_softmax(hidden(x, mask, -1e9)),
        ),
        Mistake(
            "You hide after normalizing: what is left of a row no longer adds up to 1. Hide before the sum is taken "
            "(lesson 01, eq. 1.7).",
            lambda x, mask: torch_softmax(x) * mask, lambda x, mask: zeroed(torch_softmax(x), mask),
        ),
        Mistake(
            "You multiply the scores by the mask. A score of 0 is a vote of e^0 = 1; an invisible one is -inf (lesson "
            "01, eq. 1.7).",
            lambda x, mask: torch_softmax(x * mask), lambda x, mask: torch_softmax(hidden(x, mask, 0.0)),
        ),
        Mistake(
            "Your maximum runs over hidden entries, too. A hidden score of 1000, or a hidden NaN, then wipes out the "
            "visible ones: hide first, then take the maximum (eq. 2.3).",
            shifted_by_all(True), shifted_by_all(False),
        ),
        Mistake(
            "The values are right, the gradient is not: you stop it at the sum. Every weight depends on every score "
            "of its row through the sum. Only the maximum may be detached, because by eq. 2.2 it cancels.",
            stopped_sum,
        ),
        Mistake(
            "Your mask is the other way round: True means attend (lesson 00, and lesson 01, eq. 1.7).",
            lambda x, mask: masked_softmax(x, ~mask),
        ),
    ),
)
