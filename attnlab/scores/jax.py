"""One tile of scores, in JAX."""

import functools

from attnlab.arrays.jax import Bias, Key, Keys, Mask, Rows, Shift, Tile, Visible
from attnlab.arrays.jax import accumulator, anywhere, einsum
from attnlab.arrays.jax_blocks import Block, at
from attnlab.geometry import Band
from attnlab.typing import Bool

import jax.numpy as jnp
from jax import Array


def cut(x: Array, rows: Block, cols: Block) -> Array:
    """The part of a mask or bias over one tile; an axis of size 1 stays 1."""
    x = at(x, rows, -2) if x.shape[-2] > 1 else x
    return at(x, cols, -1) if x.shape[-1] > 1 else x


def visibility(mask: Mask, bias: Bias | Shift, band: Band, rows: Block, cols: Block) -> Visible:
    """True where query i sees key j; None if no rule hides anything. No axis is expanded."""
    i, j = rows.positions[:, None], cols.positions[None, :]
    rules = [i >= rows.first] if rows.first is not None else []
    rules += [j >= cols.first] if cols.first is not None else []
    rules += [j >= i + (band.offset - band.left)] if band.left is not None else []
    rules += [j <= i + (band.offset + band.right)] if band.right is not None else []
    rules = [rule[None, None] for rule in rules]
    if mask is not None:
        rules.append(cut(mask, rows, cols))
    if bias is not None:
        rules.append(cut(bias, rows, cols) != -jnp.inf)
    return functools.reduce(jnp.logical_and, rules) if rules else None


def take(x: Key, cols: Block, visible: Visible) -> Keys:
    """A tile of K or V in the accumulation dtype; keys that no query of the tile sees become 0.

    A hidden key may hold NaN, and 0 · NaN is NaN: a weight of 0 alone would not keep it out.
    """
    x = at(x, cols, -2).astype(accumulator(x))
    return x if visible is None else jnp.where(anywhere(visible, (-3, -2))[..., None], x, 0)


def sees(visible: Visible) -> Bool[Array, "*#batch #Hk #G #R"] | bool:
    """True where a query sees any key of the tile."""
    return True if visible is None else anywhere(visible, -1)


def only(seen: Bool[Array, "*#batch #Hk #G #R"] | bool, x: Rows) -> Rows:
    """x with 0 for the queries that see nothing, which may hold NaN, and no gradient for them."""
    return x if seen is True else jnp.where(seen[..., None], x, 0)


def scores(q: Rows, k: Keys, visible: Visible, bias: Bias | Shift, rows: Block, cols: Block) -> Tile:
    """s = q kᵀ + bias of one tile, −∞ where invisible; q (or k) comes already scaled."""
    s = einsum("...hgqd,...hkd->...hgqk", only(sees(visible), q), k)
    if bias is not None:
        s += narrow(cut(bias, rows, cols), s.dtype)
    return s if visible is None else jnp.where(visible, s, -jnp.inf)


def narrow(bias: Array, dtype: jnp.dtype) -> Array:
    """The bias in the accumulation dtype; a finite number too large for it stays finite, a shift."""
    if bias.dtype == jnp.float64 and dtype != jnp.float64:
        largest = float(jnp.finfo(dtype).max)
        bias = jnp.where(jnp.isfinite(bias), jnp.clip(bias, -largest, largest), bias)
    return bias.astype(dtype)
