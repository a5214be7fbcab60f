"""Paged attention in NumPy: the online fold, over tiles of keys that are found through the table."""

from attnlab.arrays.numpy import Lse, Out, accumulator, quiet
from attnlab.geometry import Band, blocks
from attnlab.paged.call import Inputs, Options, seen
from attnlab.scores.numpy import in_band
from attnlab.softmax.numpy import one_if_empty, zero_if_empty
from attnlab.typing import Float, Integer

import numpy as np
from numpy import ndarray as Array

KeyPages = Float[Array, "P Hk S D"]
ValuePages = Float[Array, "P Hk S Dv"]
Pages = Float[Array, "P Hk S X"]
Rows = Float[Array, "Hk R D"]
Keys = Float[Array, "Hk C X"]
Runs = Integer[Array, "Hk W"] | int
Tiles = list[Array] | list[int]


def numbers(x: Array) -> np.ndarray:
    """The numbers of an array."""
    return x


@quiet
def paged_attention(options: Options, x: Inputs) -> tuple[Out, Lse]:
    """One sequence after the other; each tile of its queries reads the pages that it sees once."""
    (*_, n, _), (hk, size, dv) = x.query.shape, x.value_pages.shape[-3:]
    out = np.empty((*x.query.shape[:-1], dv), x.query.dtype)
    lse = np.empty(x.query.shape[:-1], accumulator(x.query))
    pages = [np.ascontiguousarray(y) for y in (x.key_pages, x.value_pages)]
    for b, length in enumerate(x.lengths.tolist()):
        band, found = Band(n, length, options.left, 0), tiles(options, x.block_table[b, : -(-length // size)], hk)
        for rows in blocks(n, options.rows):
            q = options.scale * x.query[b, ..., rows, :].astype(lse.dtype, copy=False)
            o, m = fold(options, band, rows, q.reshape((hk, -1, q.shape[-1])), *pages, found)
            out[b, ..., rows, :], lse[b, ..., rows] = o.reshape((*q.shape[:-1], dv)), m.reshape(q.shape[:-1])
    return out, lse


def fold(
    options: Options, band: Band, rows: slice, q: Rows, key_pages: KeyPages, value_pages: ValuePages, found: Tiles
) -> tuple[Float[Array, "Hk R Dv"], Float[Array, "Hk R"]]:
    """out and lse of some queries of one sequence. The heads of a group are rows of one product."""
    _, hk, size, dv = value_pages.shape
    m, l = np.full(q.shape[:-1], -np.inf, q.dtype), np.zeros(q.shape[:-1], q.dtype)
    o = np.zeros((*q.shape[:-1], dv), q.dtype)
    # keys and values take turns in one room, as memory that has not been touched before is slow
    room = np.empty(hk * options.pages * size * max(q.shape[-1], dv), value_pages.dtype)
    for tile in band.key_blocks(rows, options.pages * size):
        runs, cols = found[tile.start // (options.pages * size)], seen(band, rows, tile)
        part = slice(cols.start - tile.start, cols.stop - tile.start)
        s = q @ gather(key_pages, runs, room)[:, part].astype(q.dtype, copy=False).swapaxes(-1, -2)
        visible = in_band(band, rows, cols)
        if visible is not None:
            np.copyto(s.reshape((hk, -1, *visible.shape[-2:])), -np.inf, where=~visible)
        m_next = np.maximum(m, s.max(-1))
        shift = zero_if_empty(m_next)
        s -= shift[..., None]
        alpha, p = np.exp(m - shift), np.exp(s, out=s)
        l = alpha * l + np.einsum("...k->...", p)
        o *= alpha[..., None]
        o += p @ gather(value_pages, runs, room)[:, part].astype(q.dtype, copy=False)
        m = m_next
        del s, p  # before the next tile is made
    return o / one_if_empty(l)[..., None], m + np.log(one_if_empty(l))


def tiles(options: Options, table: Array, heads: int) -> Tiles:
    """What is read at a time: a page as long as a tile, or the pages of a tile: which heads of which, head by head."""
    if options.pages == 1:
        return table.tolist()
    runs = heads * table.astype(np.int64) + np.arange(heads)[:, None]
    return [runs[:, part] for part in blocks(len(table), options.pages)]


def gather(pages: Pages, runs: Runs, room: Array) -> Keys:
    """A page where it lies, or several, copied to ``room`` one after the other: the one copy that pages cost."""
    _, heads, size, width = pages.shape
    if isinstance(runs, int):
        return pages[runs]
    tile = room[: runs.size * size * width].reshape((*runs.shape, size, width))
    np.take(pages.reshape((-1, size, width)), runs, axis=0, out=tile, mode="clip")  # by default it would copy twice
    return tile.reshape((heads, -1, width))


def zeros(shape: tuple[int, ...], like: Array) -> Pages:
    """Pages of the dtype of ``like``."""
    return np.zeros(shape, like.dtype)


def integers(x: np.ndarray, like: Array) -> Array:
    """A table or lengths, for pages ``like`` these."""
    return x


def copy(pages: Pages, source: np.ndarray, to: np.ndarray) -> Pages:
    """Pages, some of them copied to others, in place."""
    pages[to] = pages[source]
    return pages


def write(pages: Pages, slots: Array, x: Float[Array, "C Hk X"]) -> Pages:
    """Pages with the rows of some tokens at their slots, in place."""
    block, place = np.divmod(slots, pages.shape[2])
    pages[block, :, place] = x
    return pages
