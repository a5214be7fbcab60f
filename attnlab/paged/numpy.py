"""Paged attention in NumPy: the online fold, over tiles of keys that are found through the table."""

from collections.abc import Iterator
from typing import Any

from attnlab.core.arrays.numpy import Lse, Out, accumulator, quiet
from attnlab.core.geometry import Band, blocks
from attnlab.core.scores.numpy import in_band
from attnlab.core.shapes import Float
from attnlab.paged.call import PagedInputs, PagedOptions, visible_keys
from attnlab.softmax.numpy import one_if_empty, zero_if_empty

import numpy as np
from numpy import ndarray as Array

KeyPages = Float[Array, "P Hk S D"]
ValuePages = Float[Array, "P Hk S Dv"]
Pages = Float[Array, "P Hk S X"]
Rows = Float[Array, "Hk R D"]
Keys = Float[Array, "Hk C X"]
Groups = list[Array] | list[int]


def numpy_if_known(x: Array) -> np.ndarray:
    """The numbers of an array."""
    return x


@quiet
def paged_attention(options: PagedOptions, x: PagedInputs) -> tuple[Out, Lse]:
    """One sequence after the other; each tile of its queries reads the pages that it sees once."""
    (*_, n, _), (hk, size, dv) = x.query.shape, x.value_pages.shape[-3:]
    out = np.empty((*x.query.shape[:-1], dv), x.query.dtype)
    lse = np.empty(x.query.shape[:-1], accumulator(x.query))
    pages = [y if by_tokens(y) else np.ascontiguousarray(y) for y in (x.key_pages, x.value_pages)]
    for b, length in enumerate(x.lengths.tolist()):
        band, found = Band(n, length, options.left, 0), page_groups(options, x.block_table[b, : -(-length // size)])
        for rows in blocks(n, options.rows):
            q = options.scale * x.query[b, ..., rows, :].astype(lse.dtype, copy=False)
            o, m = fold(options, band, rows, q.reshape((hk, -1, q.shape[-1])), *pages, found)
            out[b, ..., rows, :], lse[b, ..., rows] = o.reshape((*q.shape[:-1], dv)), m.reshape(q.shape[:-1])
    return out, lse


def fold(
    options: PagedOptions, band: Band, rows: slice, q: Rows, key_pages: KeyPages, value_pages: ValuePages, found: Groups
) -> tuple[Float[Array, "Hk R Dv"], Float[Array, "Hk R"]]:
    """out and lse of some queries of one sequence. The heads of a group are rows of one product."""
    _, hk, size, dv = value_pages.shape
    m, l = np.full(q.shape[:-1], -np.inf, q.dtype), np.zeros(q.shape[:-1], q.dtype)
    o = np.zeros((*q.shape[:-1], dv), q.dtype)
    # keys and values take turns in one buffer, because memory that has not been touched before is slow
    buffer = np.empty(hk * options.pages * size * max(q.shape[-1], dv), value_pages.dtype)
    for cols in band.key_blocks(rows, options.keys):
        cols = visible_keys(band, rows, cols)
        parts = [q @ k.swapaxes(-1, -2) for _, k in key_parts(options, cols, key_pages, found, buffer)]
        s = parts[0] if len(parts) == 1 else np.concatenate(parts, -1)
        visible = in_band(band, rows, cols)
        if visible is not None:
            np.copyto(s.reshape((hk, -1, *visible.shape[-2:])), -np.inf, where=~visible)
        m_next = np.maximum(m, s.max(-1))
        shift = zero_if_empty(m_next)
        s -= shift[..., None]
        alpha, p = np.exp(m - shift), np.exp(s, out=s)
        l = alpha * l + np.einsum("...k->...", p)
        o *= alpha[..., None]
        for part, v in key_parts(options, cols, value_pages, found, buffer):
            o += p[..., part] @ v
        m = m_next
        del parts, s, p, v  # before the next tile is made
    return o / one_if_empty(l)[..., None], m + np.log(one_if_empty(l))


def page_groups(options: PagedOptions, table: Array) -> Groups:
    """The pages to read at a time: one large page, or as many small ones as a tile has."""
    if options.pages == 1:
        return table.tolist()
    return [table[part].astype(np.int64) for part in blocks(len(table), options.pages)]


def by_tokens(pages: Pages) -> bool:
    """Whether tokens come before heads in memory: the pages are then a view of (P, S, Hk, X)."""
    return not pages.flags.c_contiguous and pages.swapaxes(1, 2).flags.c_contiguous


def key_parts(
    options: PagedOptions, cols: slice, pages: Pages, found: Groups, buffer: Array
) -> Iterator[tuple[slice, Keys]]:
    """Each group of pages in a tile: its place there, and its keys (or values) in the accumulation dtype."""
    size = options.pages * pages.shape[2]
    for part in blocks(cols.stop, size, cols.start):
        x, first = gather(pages, found[part.start // size], buffer), max(part.start, cols.start)
        x = x[:, first - part.start : part.stop - part.start].astype(accumulator(x), copy=False)
        yield slice(first - cols.start, part.stop - cols.start), x


def gather(pages: Pages, ids: Array | int, buffer: Array) -> Keys:
    """One page as a view, or several copied into ``buffer``, in the order in which the pages store them."""
    _, heads, size, width = pages.shape
    if isinstance(ids, int):
        return pages[ids]
    buffer = buffer[: ids.size * heads * size * width]
    if by_tokens(pages):
        tile = buffer.reshape((ids.size, size, heads, width))
        np.take(pages.swapaxes(1, 2), ids, axis=0, out=tile, mode="clip")  # by default it would copy twice
        return tile.reshape((-1, heads, width)).swapaxes(0, 1)
    runs = heads * ids + np.arange(heads)[:, None]
    tile = buffer.reshape((*runs.shape, size, width))
    np.take(pages.reshape((-1, size, width)), runs, axis=0, out=tile, mode="clip")
    return tile.reshape((heads, -1, width))


def make_pages(shape: tuple[int, ...], like: Array) -> Pages:
    """Pages of the dtype of ``like``, NaN: what is read before it is written shows."""
    return np.full(shape, np.nan, like.dtype)


def as_integers(x: np.ndarray, like: Array) -> Array:
    """A block table or lengths as an array of the library and device of ``like``."""
    return x


def copy(pages: Pages, source: np.ndarray, to: np.ndarray) -> Pages:
    """Copy some pages to others, in place."""
    pages[to] = pages[source]
    return pages


def write(pages: Pages, slots: Array, x: Float[Array, "C Hk X"]) -> Pages:
    """Write the rows of some tokens into their slots, in place."""
    block, place = np.divmod(slots, pages.shape[2])
    pages[block, :, place] = x
    return pages


@quiet
def page_bounds(key_pages: KeyPages, counts: Any) -> tuple[Float[Array, "P Hk D"], Float[Array, "P Hk D"]]:
    """See :func:`attnlab.paged.page_bounds`."""
    if counts is None:
        return key_pages.min(-2), key_pages.max(-2)
    empty = (np.arange(key_pages.shape[2]) >= counts[:, None])[:, None, :, None]
    far = key_pages.dtype.type(np.inf)
    return np.where(empty, far, key_pages).min(-2), np.where(empty, -far, key_pages).max(-2)
