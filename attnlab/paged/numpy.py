"""Paged attention in NumPy: the online fold, a tile of keys gathered through the table at a time."""

from attnlab.arrays.numpy import Lse, Out, Query, accumulator, matmul, quiet
from attnlab.geometry import Band, blocks
from attnlab.paged.call import Inputs, Options
from attnlab.scores.numpy import in_band, scores, take
from attnlab.softmax.numpy import one_if_empty, zero_if_empty
from attnlab.typing import Float

import numpy as np
from numpy import ndarray as Array

Pages = Float[Array, "P Hk S X"]
KeyRuns = Float[Array, "R S D"]
ValueRuns = Float[Array, "R S Dv"]
Runs = Float[Array, "R S X"]


def numbers(x: Array) -> np.ndarray:
    """The numbers of an array."""
    return x


@quiet
def paged_attention(options: Options, x: Inputs) -> tuple[Out, Lse]:
    """One sequence after the other; each tile of its queries reads the pages that it sees once."""
    (*_, hk, _, n, _), (size, dv) = x.query.shape, x.value_pages.shape[-2:]
    out = np.empty((*x.query.shape[:-1], dv), x.query.dtype)
    lse = np.empty(x.query.shape[:-1], accumulator(x.query))
    keys, values = (pages.reshape((-1, *pages.shape[2:])) for pages in (x.key_pages, x.value_pages))
    for b, length in enumerate(x.lengths.tolist()):
        band, table = Band(n, length, options.left, 0), x.block_table[b, : -(-length // size)]
        runs = hk * table.astype(np.int64) + np.arange(hk)[:, None]  # of pages of one head
        for rows in blocks(n, options.rows):
            q = options.scale * x.query[b, ..., rows, :].astype(lse.dtype, copy=False)
            out[b, ..., rows, :], lse[b, ..., rows] = fold(options, band, rows, q, keys, values, runs)
    return out, lse


def fold(
    options: Options, band: Band, rows: slice, q: Query, keys: KeyRuns, values: ValueRuns, runs: Array
) -> tuple[Out, Lse]:
    """out and lse of some queries of one sequence."""
    size, dv = values.shape[1:]
    m, l = np.full(q.shape[:-1], -np.inf, q.dtype), np.zeros(q.shape[:-1], q.dtype)
    o = np.zeros((*q.shape[:-1], dv), q.dtype)
    room = np.empty(len(runs) * options.pages * size * max(keys.shape[-1], dv), keys.dtype)
    for cols in band.key_blocks(rows, options.pages * size):
        visible = in_band(band, rows, cols)
        s = scores(q, take(gather(keys, runs, cols, room), visible), None, visible)
        m_next = np.maximum(m, s.max(-1))
        shift = zero_if_empty(m_next)
        s -= shift[..., None]
        alpha, p = np.exp(m - shift), np.exp(s, out=s)
        l = alpha * l + np.einsum("...k->...", p)
        o *= alpha[..., None]
        o += matmul(p, take(gather(values, runs, cols, room), visible))
        m = m_next
    return o / one_if_empty(l)[..., None], m + np.log(one_if_empty(l))


def gather(pages: Runs, runs: Array, cols: slice, room: Array) -> Float[Array, "Hk C X"]:
    """The keys (or values) of a tile, which begins with a page, copied to ``room``: the one copy that pages cost.

    Keys and values take turns in one room, as memory that has not been touched before is slow.
    """
    _, size, width = pages.shape
    runs = runs[:, cols.start // size : -(-cols.stop // size)]
    tile = room[: runs.size * size * width].reshape((*runs.shape, size, width))
    np.take(pages, runs, axis=0, out=tile, mode="clip")  # by default it would copy twice
    return tile.reshape((len(runs), -1, width))[:, : cols.stop - cols.start]


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
