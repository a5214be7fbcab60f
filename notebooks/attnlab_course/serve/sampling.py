"""From logits to a token, in float64: a function of the logits and of one number u, which depends on no state."""

from typing import Any

from attnlab.core.dropout.numpy import threefry

import numpy as np

Array = np.ndarray


def uniform(seed: Any, sample: Any, position: Any) -> Any:
    """The draw in [0, 1) for the token at ``position`` of a sample: a multiple of 2⁻³².

    Integers give a number, arrays of them (that broadcast) an array: what a batch draws takes one call. First word of
    Threefry-2x32 with key (seed, sample) and counter (position, 0), over 2³². Nothing is remembered between draws, so
    a sequence that's computed again draws the same.
    """
    keys = (np.atleast_1d(np.asarray(x, np.uint32)) for x in (seed, sample, position))
    draws = threefry(*keys, np.zeros(1, np.uint32)) / 2**32
    return draws if any(np.ndim(x) for x in (seed, sample, position)) else draws.item()


def log_softmax(logits: Any) -> Array:
    """Logarithms of the probabilities, along the last axis, in float64."""
    x = np.asarray(logits, np.float64)
    return x - np.logaddexp.reduce(x, -1, keepdims=True)


def probabilities(logits: Any, temperature: float, top_k: int | None = None, top_p: float = 1.0) -> Array:
    """Chances of the next token: (..., V) logits -> (..., V) float64 that sum to 1.

    softmax(logits / temperature), then the ``top_k`` likeliest tokens only, of these the fewest whose share is at least
    ``top_p``, to a millionth, as shares are rounded; of equally likely tokens the smaller ids. ``temperature`` 0: the
    likeliest one.
    """
    x = np.asarray(logits, np.float64)
    order = np.argsort(-x, -1, kind="stable")[..., : 1 if temperature == 0 else top_k]
    x, chances = np.take_along_axis(x, order, -1), np.zeros_like(x)
    p = np.exp((x - x[..., :1]) / (temperature or 1.0))
    if top_p < 1:
        share = np.cumsum(p / p.sum(-1, keepdims=True), -1)
        p[..., 1:][share[..., :-1] >= top_p - 1e-6] = 0  # what came before is enough
    np.put_along_axis(chances, order, p / p.sum(-1, keepdims=True), -1)
    return chances


def choose(logits: Any, u: Any, temperature: float, top_k: int | None = None, top_p: float = 1.0) -> Any:
    """The token that u in [0, 1) stands for: the first whose chances, summed in order of ids, exceed u.

    Logits (V,) give a number, (B, V) with a u each an array (B,). ``temperature`` 0 takes the likeliest, of equals the
    smallest id, whatever u.
    """
    if temperature == 0:
        tokens = np.argmax(logits, -1)
    else:
        total = np.cumsum(probabilities(logits, temperature, top_k, top_p), -1)
        tokens = (total <= np.asarray(u)[..., None] * total[..., -1:]).sum(-1)
    return tokens if np.ndim(tokens) else int(tokens)
