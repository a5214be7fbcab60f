"""Recall from a state that nobody trained: random keys and values, and (25.1) with constants for gate and rate."""

from attnlab.linear import delta_attention

import numpy as np
from numpy import ndarray as Array

VALUES, SIZE = 64, 64
"""How many values there are to tell apart, and how many numbers each has."""


def pairs(rng: np.random.Generator, draws: int, keys: int, times: int, texts: int) -> tuple[Array, Array]:
    """(which key each write is to, which value it writes), both (draws, texts, keys · times).

    Each key of a text is written equally often, in an order drawn at random.
    """
    order = rng.permuted(np.tile(np.arange(keys), (draws, texts, times)), axis=-1)
    return order, rng.integers(VALUES, size=order.shape)


def newest(order: Array, values: Array, keys: int) -> Array:
    """The value that each key was given last in the last text, (draws, keys)."""
    last = np.zeros((len(order), keys), int)
    for write, value in zip(order[:, -1].T, values[:, -1].T):
        last[np.arange(len(order)), write] = value
    return last


def recalled(
    keys: int, times: int = 1, *, a: float = 1, b: float = 1, erase: bool = True, first: float | None = None,
    texts: int = 1, features: int = 16, passes: int = 1, draws: int = 200, seed: int = 0,
) -> float:
    """The share of keys whose last value is read, if of 64 random values that with the largest dot product is taken.

    ``texts`` one after another have ``keys`` keys each, random vectors of length 1, and write each ``times`` times;
    the last text's keys are asked for. ``a`` and ``b`` of every token; ``first``: a of a text's first token.
    ``passes``: how often everything is read. As b → 0 the state is proportional to that of plain addition.
    """
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(draws, texts, keys, features))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    meanings = rng.normal(size=(VALUES, SIZE))
    order, values = pairs(rng, draws, keys, times, texts)
    key = np.take_along_axis(vectors, order[..., None], 2).reshape(draws, -1, features)
    decay = np.full(order.shape, a, float)
    decay[..., 0] = a if first is None else first
    with np.errstate(divide="ignore"):
        decay = np.log(decay).reshape(draws, -1)
    value, rate, state = meanings[values].reshape(draws, -1, SIZE), np.full(decay.shape, b, float), None
    for _ in range(passes):
        _, state = delta_attention(key, key, value, beta=rate, log_decay=decay, erase=erase, state=state,
                                   return_state=True)
    read = (vectors[:, -1] @ state @ meanings.T).argmax(-1)
    return float((read == newest(order, values, keys)).mean())
