"""Which probabilities dropout keeps, in JAX."""

import math

from attnlab.core.arrays.jax import Seed, Tile
from attnlab.core.arrays.jax_blocks import Block
from attnlab.core.bundle import Rules
from attnlab.core.dropout import PARITY, ROTATIONS
from attnlab.core.shapes import Bool, UInt32

import jax.numpy as jnp
from jax import Array


def drop(p: Tile, seed: Seed, rules: Rules, rows: Block, cols: Block) -> Tile:
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout."""
    if rules.dropout == 0:
        return p
    factor = 0 if rules.dropout == 1 else 1 / (1 - rules.dropout)
    return jnp.where(kept(seed, rules.heads, rows, cols, rules.dropout), factor * p, 0)


def kept(seed: Seed, heads: tuple[int, ...], rows: Block, cols: Block, p: float) -> Bool[Array, "*heads R C"]:
    """True where dropout keeps: a pure function of seed, flat head index and (i, j)."""
    h = jnp.arange(math.prod(heads), dtype=jnp.uint32).reshape((*heads, 1, 1))
    i = rows.positions.astype(jnp.uint32).reshape((*[1] * len(heads), -1, 1))
    j = cols.positions.astype(jnp.uint32).reshape((*[1] * len(heads), 1, -1))
    word, threshold = threefry(seed, h, i, j), round(p * 2**32)
    return word >= jnp.uint32(threshold) if threshold < 2**32 else jnp.zeros(word.shape, bool)


def threefry(
    seed: UInt32[Array, ""], h: UInt32[Array, "*heads 1 1"],
    i: UInt32[Array, "*ones R 1"], j: UInt32[Array, "*ones 1 C"],
) -> UInt32[Array, "*heads R C"]:
    """First word of Threefry-2x32 with 20 rounds, key (seed, h), counter (i, j)."""
    key = (seed, h, h ^ seed ^ jnp.uint32(PARITY))
    x, y = i + key[0], j + key[1]
    for r in range(20):
        x += y
        y = x ^ (y << ROTATIONS[r % 8] | y >> (32 - ROTATIONS[r % 8]))
        if r % 4 == 3:
            n = r // 4 + 1
            x += key[n % 3]
            y += key[(n + 1) % 3] + jnp.uint32(n)
    return x
