"""One tile of scores, in JAX."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from attnlab.contract import Rules
from attnlab.scores import PARITY, ROTATIONS
from attnlab.scores.jax_blocks import Block, at
from attnlab.tiles import Band
from attnlab.typing import Bool, Float, UInt32

import jax
import jax.numpy as jnp
from jax import Array

Query = Float[Array, "*batch Hk G N D"]
Key = Float[Array, "*batch Hk M D"]
Value = Float[Array, "*batch Hk M Dv"]
Mask = Bool[Array, "*#batch #Hk #G #N #M"] | None
Bias = Float[Array, "*#batch #Hk #G #N #M"] | None
Seed = UInt32[Array, ""] | None
Out = Float[Array, "*batch Hk G N Dv"]
Lse = Float[Array, "*batch Hk G N"]

Rows = Float[Array, "*batch Hk G R D"]
Keys = Float[Array, "*batch Hk C D"]
Values = Float[Array, "*batch Hk C Dv"]
Tile = Float[Array, "*batch Hk G R C"]
Visible = Bool[Array, "*#batch #Hk #G #R #C"] | None
Shift = Float[Array, "*#batch #Hk #G #R #C"] | None

einsum = functools.partial(jnp.einsum, precision="highest")
"""By default a GPU or TPU rounds float32 factors to TF32 or bfloat16."""


def compiled(core: Callable) -> Callable:
    """Decorator of a core: compiled once for given shapes, rules and block sizes, whatever the arrays and the seed.

    With no query, or no key to see, nothing is left to compute.
    """
    core = jax.jit(core, static_argnames=list(inspect.signature(core).parameters)[6:])

    @functools.wraps(core)
    def call(q: Any, k: Any, v: Any, mask: Any, bias: Any, seed: Any, rules: Rules, **sizes: Any) -> tuple[Any, Any]:
        if 0 in (*q.shape[:-1], k.shape[-2]):
            return jnp.zeros((*q.shape[:-1], v.shape[-1]), q.dtype), jnp.full(q.shape[:-1], -jnp.inf, accumulator(q))
        return core(q, k, v, mask, bias, seed if seed is None else jnp.uint32(seed), rules, **sizes)

    return call


def accumulator(x: Array) -> type:
    """The dtype of m, l and o: float64 for float64, float32 for everything else."""
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


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


def anywhere(x: Bool[Array, "..."], axes: int | tuple[int, ...]) -> Bool[Array, "..."]:
    """x.any(axes): the largest byte, which a CPU finds faster."""
    return x.astype(jnp.uint8).max(axes).astype(bool)


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


def drop(p: Tile, seed: Seed, rules: Rules, rows: Block, cols: Block) -> Tile:
    """p with dropped probabilities set to 0 and the others divided by 1 − dropout."""
    if rules.dropout == 0:
        return p
    factor = 0 if rules.dropout == 1 else 1 / (1 - rules.dropout)
    return jnp.where(kept(seed, rules.heads, rows, cols, rules.dropout), factor * p, 0)


def kept(seed: Seed, heads: tuple[int, ...], rows: Block, cols: Block, p: float) -> Bool[Array, "*heads R C"]:
    """True where dropout keeps: a pure function of seed, flat head index and (i, j)."""
    h = jnp.arange(math.prod(heads), dtype=jnp.uint32).reshape((*heads, 1, 1))
    i, j = rows.positions[:, None].astype(jnp.uint32), cols.positions.astype(jnp.uint32)
    word, threshold = threefry(seed, h, i, j), round(p * 2**32)
    return word >= jnp.uint32(threshold) if threshold < 2**32 else jnp.zeros(word.shape, bool)


def threefry(
    seed: UInt32[Array, ""], h: UInt32[Array, "*heads 1 1"], i: UInt32[Array, "R 1"], j: UInt32[Array, " C"]
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
