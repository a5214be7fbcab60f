"""Attention in FP8, standard and with FlashAttention-3's two remedies: a scale per block, a random rotation."""

import math

import numpy as np
from numpy import ndarray as Array

LARGEST, ROWS, WIDTH = 448, 1024, 128


def e4m3(x: Array) -> Array:
    """``x`` rounded to e4m3, as floats."""
    from ml_dtypes import float8_e4m3fn

    return x.astype(float8_e4m3fn).astype(float)


def scaled(x: Array, block: int) -> Array:
    """``x`` rounded to e4m3, with a scale for each block of rows."""
    parts = np.split(x, range(block, len(x), block))
    scales = [np.abs(part).max() / LARGEST for part in parts]
    return np.concatenate([e4m3(part / scale) * scale for part, scale in zip(parts, scales)])


def gain(seed: int) -> float:
    """By how much the remedies divide the error of standard attention, for numbers drawn as FA-3 draws them.

    They're unit normals, with a normal of standard deviation 10 added to one in a thousand.
    """
    draw, size = np.random.default_rng(seed), (ROWS, WIDTH)
    q, k, v = (draw.normal(size=size) + (draw.random(size) < 1e-3) * draw.normal(0, 10, size) for _ in range(3))
    p, l = weights_and_sums(q, k)
    exact = p @ v / l
    p, l = weights_and_sums(scaled(q, ROWS), scaled(k, ROWS))  # standard: weights are divided, then rounded
    standard = e4m3(p / l) @ scaled(v, ROWS)
    turn = np.linalg.qr(draw.normal(size=(WIDTH, WIDTH)))[0]
    p, l = weights_and_sums(scaled(q @ turn, 128), scaled(k @ turn, 64))
    remedied = e4m3(p) @ scaled(v, 64) / l  # the fold: rounded, then divided
    return float(np.sqrt(((standard - exact) ** 2).mean() / ((remedied - exact) ** 2).mean()))


def weights_and_sums(q: Array, k: Array) -> tuple[Array, Array]:
    """Weights relative to each row's maximum, and their sums."""
    s = q @ k.T / math.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    return p, p.sum(1, keepdims=True)
