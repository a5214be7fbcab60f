"""Guess and verify: some tokens are guessed cheaply, one pass of the model says which of them to keep.

    p   chances of the model, q   chances of the draft, both after temperature, top-k and top-p
    keep a guess x with probability min(1, p(x) / q(x)), else draw from (p − q)₊: what comes out has the law p

``accept`` is that rule; ``accept_keyed`` needs no q: each place draws the token that plain sampling would draw there,
from the number keyed by its position, and stops where a guess differs. Then the text is plain sampling's, token for
token, whatever the draft. What no guess can change is the text's law; what a good guess saves is passes.
Sources: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding", algorithm 1; Daliri, Musco
and Suresh 2024, "Coupling without Communication and Drafter-Invariant Speculative Decoding" (the race).
"""

import math
from collections.abc import Sequence
from typing import Any

from attnlab.core.dropout.numpy import threefry
from attnlab_course.serve.sampling import choose, uniform

import numpy as np


def accept(draft: Sequence[int], draft_chances: Any, chances: Any, draws: Sequence[Any]) -> list[int]:
    """The accepted guesses and one token more: 1 to k + 1 tokens with the law of the model.

    ``draft``: k guessed tokens, each drawn from its row of ``draft_chances`` (k, V). ``chances`` (k + 1, V): the
    model's, where row j follows the first j guesses. ``draws``: 2k + 1 numbers in [0, 1), independent of one another
    and of those that chose the guesses: the first k accept, number k + j replaces the guess at place j, the last one
    draws the bonus token after k accepted guesses. Chances may be fractions. Raises ValueError for a guess with
    chance 0, which can't have come from the draft, and for lengths that don't fit.
    """
    k = len(draft)
    for name, found, wanted in (("draft_chances", len(draft_chances), k), ("chances", len(chances), k + 1),
                                ("draws", len(draws), 2 * k + 1)):  # fmt: skip
        if found != wanted:
            raise ValueError(f"{name} has length {found}; with {k} guesses it must be {wanted}")
    for j, x in enumerate(draft):
        p, q = chances[j], draft_chances[j]
        if q[x] == 0:
            raise ValueError(f"draft[{j}] is {x}, which has chance 0 in draft_chances; it was not drawn from them")
        if draws[j] * q[x] >= p[x]:
            left = [max(a - b, 0) for a, b in zip(p, q)]  # nothing, where p and q are the same but for rounding
            return [*draft[:j], _drawn(left if any(left) else p, draws[k + j])]
    return [*draft, _drawn(chances[k], draws[2 * k])]


def accept_keyed(
    draft: Sequence[int], logits: Any, seed: int, sample: int, position: int, temperature: float,
    top_k: int | None = None, top_p: float = 1.0,
) -> list[int]:
    """The tokens that plain sampling draws from ``position`` on, up to the first that differs from its guess.

    ``draft``: k guessed tokens; ``logits`` (k + 1, V), where row j follows the first j guesses. 1 to k + 1 tokens,
    the same for any draft and any k; temperature 0 is greedy. The numbers are ``uniform(seed, sample, position + j)``.
    Raises ValueError if logits doesn't have k + 1 rows.
    """
    if len(logits) != len(draft) + 1:
        raise ValueError(f"logits has {len(logits)} rows; with {len(draft)} guesses it must have {len(draft) + 1}")
    tokens: list[int] = []
    for j, row in enumerate(logits):
        tokens.append(choose(row, uniform(seed, sample, position + j), temperature, top_k, top_p))
        if j == len(draft) or tokens[j] != draft[j]:
            break
    return tokens


def prompt_lookup(tokens: Sequence[int], k: int, *, most: int = 8, least: int = 2) -> list[int]:
    """A guess that costs nothing: what followed the last ``most`` to ``least`` tokens when they were there before.

    The longest suffix that occurs earlier counts, and its latest earlier occurrence; at most ``k`` tokens, [] if even
    the shortest suffix is new.
    """
    tokens = list(tokens)
    for size in range(min(most, len(tokens) - 1), least - 1, -1):
        suffix = tokens[-size:]
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == suffix:
                return tokens[start + size : start + size + k]
    return []


def race(chances: Any, seed: int, sample: int, position: int) -> int:
    """The token x with the least −log(u_x) / p(x): it has the law p, and two similar laws mostly have one winner.

    ``chances`` (V,). u_x is the first word of Threefry with key (seed, sample) and counter (position, x + 1), over
    2³²; counter 0 is ``uniform``'s. Chances of 0 never win. V numbers per draw.
    """
    p = np.asarray(chances, np.float64)
    row, column = np.full((1, 1), position, np.uint32), np.arange(1, len(p) + 1, dtype=np.uint32)
    u = threefry(np.uint32(seed), np.full((1, 1), sample, np.uint32), row, column)[0] / 2**32
    times = [-math.log(y or 2**-33) / x if x else math.inf for x, y in zip(p, u)]
    return int(np.argmin(times))


def _drawn(weights: Sequence[Any], u: Any) -> int:
    """The token that u in [0, 1) stands for, by weights that needn't sum to 1."""
    rest = u * sum(weights)
    for token, weight in enumerate(weights):
        rest -= weight
        if rest < 0:
            return token
    return max(token for token, weight in enumerate(weights) if weight)  # u next to 1, rounded
