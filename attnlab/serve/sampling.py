"""From logits to a token, in float64: a function of the logits and of one number u, which depends on no state."""

from typing import Any

from attnlab.dropout.numpy import threefry

import numpy as np

Array = np.ndarray


def uniform(seed: int, sample: int, position: int) -> float:
    """The draw in [0, 1) for the token at ``position`` of a sample: a multiple of 2⁻³².

    First word of Threefry-2x32 with key (seed, sample) and counter (position, 0), over 2³². Nothing is remembered
    between draws, so a sequence that is computed again draws the same.
    """
    sample, position = (np.full((1, 1), x, np.uint32) for x in (sample, position))
    return threefry(np.uint32(seed), sample, position, np.zeros(1, np.uint32)).item() / 2**32


def log_softmax(logits: Any) -> Array:
    """Logarithms of the probabilities, along the last axis, in float64."""
    x = np.asarray(logits, np.float64)
    return x - np.logaddexp.reduce(x, -1, keepdims=True)


def probabilities(logits: Any, temperature: float, top_k: int | None = None, top_p: float = 1.0) -> Array:
    """Chances of the next token: (V,) logits -> (V,) float64 that sum to 1.

    softmax(logits / temperature), then the ``top_k`` likeliest tokens only, of these the fewest whose share is at least
    ``top_p``; of equally likely tokens the smaller ids. ``temperature`` 0: the likeliest one.
    """
    x = np.asarray(logits, np.float64)
    order = np.argsort(-x, kind="stable")[: 1 if temperature == 0 else top_k]
    p = np.exp((x[order] - x[order[0]]) / (temperature or 1.0))
    share = np.cumsum(p / p.sum())
    count = np.searchsorted(share, top_p) + 1 if top_p < 1 else len(p)
    chances = np.zeros_like(x)
    chances[order[:count]] = p[:count] / p[:count].sum()
    return chances


def choose(logits: Any, u: float, temperature: float, top_k: int | None = None, top_p: float = 1.0) -> int:
    """The token that u in [0, 1) stands for: the first whose chances, summed in order of ids, exceed u."""
    chances = probabilities(logits, temperature, top_k, top_p)
    total = np.cumsum(chances)
    return int(np.searchsorted(total, u * total[-1], side="right"))
