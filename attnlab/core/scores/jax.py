"""One tile of scores, in JAX."""

import functools

from attnlab.core.arrays.jax import Keys, Rows, Shift, Tile, Values
from attnlab.core.arrays.jax import accumulator, anywhere, matmul_transposed
from attnlab.core.arrays.jax_blocks import Block, band_at, take_block
from attnlab.core.bundle import Inputs, Rules
from attnlab.core.geometry import Band
from attnlab.core.scores import Visible
from attnlab.core.shapes import Bool, Float

import jax.numpy as jnp
from jax import Array, lax


def tile(rules: Rules, x: Inputs, rows: Block, cols: Block) -> tuple[Keys, Values, Shift, Visible]:
    """What one tile reads from memory besides its queries: k, v and bias, and what is visible."""
    k, v, *rest = narrow_tile(rules, x, rows, cols)
    return k.astype(accumulator(k)), v.astype(accumulator(v)), *rest


def narrow_tile(rules: Rules, x: Inputs, rows: Block, cols: Block) -> tuple[Keys, Values, Shift, Visible]:
    """The same, with k and v of bfloat16 as they are if the query is, too: products of it are summed in float32."""
    visible = visibility(rules, x, rows, cols)
    k, v = (zero_unless(visible.keys, take_block(y, cols, -2)) for y in (x.key, x.value))
    if not x.query.dtype == k.dtype == jnp.bfloat16:
        k, v = k.astype(accumulator(k)), v.astype(accumulator(v))
    bias = None if x.bias is None else bias_in(over_tile(x.bias, rows, cols), jnp.dtype(accumulator(k)))
    return k, v, bias, visible


def visibility(rules: Rules, x: Inputs, rows: Block, cols: Block) -> Visible:
    """What the rules leave visible of a tile. No axis is expanded."""
    inside, given = visible_in_band(band_at(rules.band, x.offset), rows, cols, len(rules.heads)), []
    if x.mask is not None:
        given.append(over_tile(x.mask, rows, cols))
    if x.bias is not None:
        given.append(over_tile(x.bias, rows, cols) != -jnp.inf)
    if x.query_segments is not None:
        given.append(over_tile(x.query_segments, rows, cols) == over_tile(x.key_segments, rows, cols))
    if not given:
        return inside
    pairs = functools.reduce(jnp.logical_and, given if inside.pairs is None else [inside.pairs, *given])
    return Visible(pairs, anywhere(pairs, -1), anywhere(pairs, (-3, -2)))


def visible_in_band(band: Band, rows: Block, cols: Block, axes: int) -> Visible:
    """What causal and window leave visible of a tile, and nothing of the blocks before; with ``axes`` axes of heads.

    A query sees any key if it sees the first one that its band's left end allows, and so the other way round.
    """
    if all(x is None for x in (rows.first, cols.first, band.low, band.high)):
        return Visible()

    def sees(i: Array, j: Array, axes: int) -> Bool[Array, "..."]:
        rules = [i >= rows.begin] if rows.first is not None else []
        rules += [j >= cols.begin] if cols.first is not None else []
        rules += [j >= i + band.low] if band.low is not None else []
        rules += [j <= i + band.high] if band.high is not None else []
        return jnp.expand_dims(functools.reduce(jnp.logical_and, rules), range(axes))

    i, j = rows.positions, cols.positions
    first_key = jnp.clip(0 * i if band.low is None else i + band.low, cols.begin, j[-1])
    first_query = jnp.clip(0 * j if band.high is None else j - band.high, rows.begin, i[-1])
    return Visible(sees(i[:, None], j[None], axes), sees(i, first_key, axes), sees(first_query, j, axes - 1))


def shown(x: Inputs, part: Block, size: int, axis: int = -1) -> Bool[Array, " blocks"] | None:
    """Which blocks of keys (axis −1) the arrays given show to a part of the queries, or the other way round (−2).

    None where none is given. One pass over them, and a byte a key; where the devices of a mesh hold parts of them,
    one small all-reduce.
    """
    length, across = (x.key if axis == -1 else x.query).shape[-2], -3 - axis
    blocks = -(-length // size)

    def by_block(given: Array) -> Bool[Array, " blocks"]:
        if given.shape[across] != 1:  # first: XLA would compare all of it
            given = take_block(given, part, across)
        rule = given if given.dtype == bool else given != -jnp.inf
        seen = anywhere(rule, tuple(i for i in range(rule.ndim) if i != rule.ndim + axis))
        seen = lax.pad(jnp.broadcast_to(seen, (length,)), False, [(0, blocks * size - length, 0)])
        return anywhere(seen.reshape((blocks, size)), -1)

    found = [by_block(given) for given in (x.mask, x.bias) if given is not None]
    found += [] if x.query_segments is None else [near(x, part, size, axis)]
    return functools.reduce(jnp.logical_and, found) if found else None


def near(x: Inputs, part: Block, size: int, axis: int) -> Bool[Array, " blocks"]:
    """Which blocks have a segment in the range of the segments of ``part``. The others are hidden."""
    length, across = (x.key if axis == -1 else x.query).shape[-2], -3 - axis
    ours, theirs = (x.query_segments, x.key_segments)[:: -1 if axis == -2 else 1]
    ours = take_block(ours, part, across) if ours.shape[across] != 1 else ours
    theirs = jnp.moveaxis(theirs, axis, -1)
    theirs = jnp.broadcast_to(theirs, (*theirs.shape[:-1], length))
    blocks = -(-length // size)
    theirs = jnp.pad(theirs, [(0, 0)] * (theirs.ndim - 1) + [(0, blocks * size - length)], mode="edge")
    theirs = theirs.reshape((*theirs.shape[:-1], blocks, size))
    low, high = ours.min((-2, -1))[..., None, None], ours.max((-2, -1))[..., None, None]
    meet = (low <= theirs.max(-1)) & (theirs.min(-1) <= high)
    return anywhere(meet, tuple(range(meet.ndim - 1)))


def over_tile(x: Array, rows: Block, cols: Block) -> Array:
    """The part of a mask or bias over one tile; an axis of size 1 stays 1."""
    x = take_block(x, rows, -2) if x.shape[-2] != 1 else x
    return take_block(x, cols, -1) if x.shape[-1] != 1 else x


def zero_unless(seen: Bool[Array, "*#rows"] | bool, x: Float[Array, "*rows X"]) -> Float[Array, "*rows X"]:
    """x with 0, and no gradient, for the queries that see nothing, or the keys that nobody sees.

    They may hold NaN, and 0 · NaN is NaN: a weight of 0 alone would not keep it out.
    """
    return x if seen is True else jnp.where(seen[..., None], x, 0)


def scores(q: Rows, k: Keys, bias: Shift, visible: Visible, factor: float = 1.0) -> Tile:
    """s = q kᵀ + bias of one tile, −∞ where invisible; q (or k) comes already scaled, the bias already cut.

    ``factor`` is what is left of the scale.
    """
    s = matmul_transposed(zero_unless(visible.queries, q), k)
    s = s if factor == 1 else factor * s
    s = s if bias is None else s + bias
    return s if visible.pairs is None else jnp.where(visible.pairs, s, -jnp.inf)


def bias_in(bias: Array, dtype: jnp.dtype) -> Array:
    """The bias in the accumulation dtype; a finite number too large for it stays finite, a shift."""
    if bias.dtype == jnp.float64 and dtype != jnp.float64:
        largest = float(jnp.finfo(dtype).max)
        beyond = jnp.isfinite(bias) & (jnp.abs(bias) > largest)  # not clip: at a bound its derivative is 1/2
        bias = jnp.where(beyond, jnp.sign(bias) * largest, bias)
    return bias.astype(dtype)
