"""Paged attention in JAX: the online fold, over tiles of keys that are found through the table; it may be traced."""

import functools
from typing import Any

from attnlab.core.arrays.jax import Lse, Out, Query, accumulator, matmul, matmul_transposed
from attnlab.core.arrays.jax_blocks import Block, block, block_range, put_block, take_block
from attnlab.core.shapes import Bool, Float, Int32
from attnlab.paged.cache import PagedCache
from attnlab.paged.call import TILE, PagedInputs, PagedOptions
from attnlab.softmax.jax import Triple, one_if_empty, zero_if_empty

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.lax import dynamic_slice_in_dim, fori_loop

KeyPages = Float[Array, "P Hk S D"]
ValuePages = Float[Array, "P Hk S Dv"]
Pages = Float[Array, "P Hk S X"]
Table = Int32[Array, " T"]
Rows = Float[Array, "Hk G R X"]
Tile = Float[Array, "Hk G R C"]
Visible = Bool[Array, "R C"]

jax.tree_util.register_dataclass(PagedCache, data_fields=["key_pages", "value_pages"], meta_fields=["manager"])


def numpy_if_known(x: Array | np.ndarray) -> np.ndarray | None:
    """The numbers of an array, None while it is traced."""
    return None if isinstance(x, Tracer) else np.asarray(x)


@functools.partial(jax.jit, static_argnums=0)
def paged_attention(options: PagedOptions, x: PagedInputs) -> tuple[Out, Lse]:
    """One sequence after the other; each tile of its queries reads the pages that it sees once."""
    rows, (pages, dv), count = x.query.shape[:-1], (len(x.key_pages), x.value_pages.shape[-1]), x.block_table.shape[1]
    if 0 in (*rows, pages, count):
        out, lse = jnp.zeros((*rows, dv), x.query.dtype), jnp.full(rows, -jnp.inf, accumulator(x.query))
    else:
        tile = max(TILE // x.key_pages.shape[2], 1)
        table = jnp.pad(x.block_table.astype(jnp.int32), ((0, 0), (0, -count % tile)))  # whole tiles
        one = functools.partial(attend_sequence, options, x.key_pages, x.value_pages)
        out, lse = jax.lax.map(lambda each: one(*each), (x.query, table, x.lengths.astype(jnp.int32)))
    fits = (x.lengths <= count * x.key_pages.shape[2]).reshape((-1, 1, 1, 1))
    return jnp.where(fits[..., None], out, jnp.nan), jnp.where(fits, lse, jnp.nan)


def attend_sequence(
    options: PagedOptions, key_pages: KeyPages, value_pages: ValuePages,
    query: Query, table: Table, length: Int32[Array, ""],
) -> tuple[Out, Lse]:
    """out and lse of the queries of one sequence."""
    (*_, n, _), (size, dv), dtype = query.shape, value_pages.shape[-2:], accumulator(query)
    capacity, pages = len(table) * size, max(TILE // size, 1)
    tile, step = pages * size, 1 if n == 1 else pages
    length = jnp.minimum(length, capacity)
    high = length - n  # query i sees j ≤ i + high
    low = None if options.left is None else high - options.left  # and j ≥ i + low
    out, lse = jnp.zeros((*query.shape[:-1], dv), query.dtype), jnp.zeros(query.shape[:-1], dtype)

    def query_block(b: Array, results: tuple[Out, Lse]) -> tuple[Out, Lse]:
        (out, lse), rows = results, block(b, min(options.rows, n), n)
        q = options.scale * take_block(query, rows, -2).astype(dtype)
        m, l = jnp.full(q.shape[:-1], -jnp.inf, dtype), jnp.zeros(q.shape[:-1], dtype)
        o = jnp.zeros((*q.shape[:-1], dv), dtype)

        def key_tile(turn: Array, carry: Triple) -> Triple:
            (m, l, o), cols = carry, Block(turn * tile, tile)
            ids = dynamic_slice_in_dim(table, turn * pages, pages)
            ids = jnp.where(cols.positions[::size] < length, ids, 0)  # others may be anything
            i, j = rows.positions[:, None], cols.positions[None]
            visible = (j <= i + high) if low is None else (j <= i + high) & (j >= i + low)
            s = jnp.where(visible, multiply_keys(q, key_pages, ids, step), -jnp.inf)
            m_next = jnp.maximum(m, s.max(-1))
            shift = zero_if_empty(m_next)
            alpha, p = jnp.exp(m - shift), jnp.exp(s - shift[..., None])
            l = alpha * l + p.sum(-1)
            return m_next, l, add_weighted(alpha[..., None] * o, p, value_pages, ids, step, visible)

        turns = block_range(0 if low is None else rows.start + low, rows.start + rows.size + high, tile, capacity)
        m, l, o = fori_loop(*turns, key_tile, (m, l, o))
        o = o / one_if_empty(l)[..., None]
        return put_block(out, o, rows, -2), put_block(lse, m + jnp.log(one_if_empty(l)), rows, -1)

    return fori_loop(0, -(-n // options.rows), query_block, (out, lse))


def multiply_keys(q: Rows, pages: KeyPages, ids: Int32[Array, " W"], step: int) -> Tile:
    """q kᵀ for the keys of some pages, ``step`` pages at a time."""
    size, s = step * pages.shape[2], jnp.zeros((*q.shape[:-1], len(ids) * pages.shape[2]), q.dtype)

    def part(turn: Array, s: Tile) -> Tile:
        k = gather(pages, dynamic_slice_in_dim(ids, turn * step, step)).astype(q.dtype)
        return put_block(s, matmul_transposed(q, k), Block(turn * size, size), -1)

    return fori_loop(0, len(ids) // step, part, s)


def add_weighted(o: Rows, p: Tile, pages: ValuePages, ids: Int32[Array, " W"], step: int, visible: Visible) -> Rows:
    """o + p v for the values of some pages, ``step`` pages at a time. Values that no query sees count as 0."""
    size, seen = step * pages.shape[2], visible.any(0)[:, None]

    def part(turn: Array, o: Rows) -> Rows:
        cols, v = Block(turn * size, size), gather(pages, dynamic_slice_in_dim(ids, turn * step, step))
        return o + matmul(take_block(p, cols, -1), jnp.where(take_block(seen, cols, 0), v.astype(o.dtype), 0))

    return fori_loop(0, len(ids) // step, part, o)


def gather(pages: Pages, ids: Int32[Array, " W"]) -> Float[Array, "Hk C X"]:
    """One page, or several copied one after the other. Reading pages one by one takes XLA half the time."""
    _, heads, _, width = pages.shape
    if len(ids) == 1:
        return pages[ids[0]]
    tile = pages[ids, jnp.arange(heads)[:, None]]  # (Hk, pages, S, X)
    return tile.reshape((heads, -1, width))


def make_pages(shape: tuple[int, ...], like: Array) -> Pages:
    """Pages of the dtype of ``like``, NaN: what is read before it is written shows. Under jax_debug_nans they're 0."""
    return jnp.full(shape, 0 if jax.config.jax_debug_nans else jnp.nan, like.dtype)


def as_integers(x: np.ndarray, like: Array) -> Array:
    """A block table or lengths as an array of the library and device of ``like``."""
    if isinstance(like, Tracer):
        raise TypeError(
            "key_pages is traced, and names would be looked up at trace time only: make cache.tables(names) outside of "
            "the traced function and call paged_attention(query, cache.key_pages, cache.value_pages, *tables) in it"
        )
    return jnp.asarray(x)


@jax.jit
def copy(pages: Pages, source: Array, to: Array) -> Pages:
    """The pages after some were copied to others."""
    return pages.at[to].set(pages[source])


@jax.jit
def write(pages: Pages, slots: Array, x: Float[Array, "C Hk X"]) -> Pages:
    """The pages with the rows of some tokens in their slots."""
    size = pages.shape[2]
    return pages.at[slots // size, :, slots % size].set(x)


def page_bounds(key_pages: KeyPages, counts: Any) -> tuple[Float[Array, "P Hk D"], Float[Array, "P Hk D"]]:
    """See :func:`attnlab.paged.page_bounds`."""
    if counts is None:
        return key_pages.min(-2), key_pages.max(-2)
    empty = (jnp.arange(key_pages.shape[2])[None] >= jnp.asarray(counts)[:, None])[:, None, :, None]
    return jnp.where(empty, jnp.inf, key_pages).min(-2), jnp.where(empty, -jnp.inf, key_pages).max(-2)
