"""Paged attention in PyTorch: the online fold, a tile of keys gathered through the table at a time."""

from attnlab.arrays.torch import Lse, Out, Query, accumulator, add_matmul
from attnlab.geometry import Band, blocks
from attnlab.paged.call import Inputs, Options
from attnlab.scores.torch import scores, take, visibility
from attnlab.softmax.torch import exp_, one_if_empty, zero_if_empty
from attnlab.typing import Float

import numpy as np
import torch
from torch import Tensor as Array

Pages = Float[Array, "P Hk S X"]


def values(x: Array) -> np.ndarray:
    """The numbers of an array."""
    return x if isinstance(x, np.ndarray) else x.numpy(force=True)


@torch.compiler.disable  # it would unroll the loops
@torch.no_grad()
def paged_attention(options: Options, x: Inputs) -> tuple[Out, Lse]:
    """One sequence after the other; each tile of its queries reads the pages that it sees once."""
    (*_, n, _), (size, dv) = x.query.shape, x.value_pages.shape[-2:]
    out = x.query.new_empty((*x.query.shape[:-1], dv))
    lse = x.query.new_empty(x.query.shape[:-1], dtype=accumulator(x.query))
    with torch.autocast(x.query.device.type, enabled=False):
        for b, length in enumerate(x.lengths.tolist()):
            band, table = Band(n, length, options.left, 0), x.block_table[b, : -(-length // size)]
            for rows in blocks(n, options.rows):
                q = options.scale * x.query[b, ..., rows, :].to(lse.dtype)
                found = fold(q, x.key_pages, x.value_pages, table, band, rows, options)
                out[b, ..., rows, :], lse[b, ..., rows] = found
    return out, lse


def fold(
    q: Query, key_pages: Pages, value_pages: Pages, table: Array, band: Band, rows: slice, options: Options
) -> tuple[Out, Lse]:
    """out and lse of some queries of one sequence."""
    size, dv = value_pages.shape[-2:]
    m, l = q.new_full(q.shape[:-1], -torch.inf), q.new_zeros(q.shape[:-1])
    o = q.new_zeros((*q.shape[:-1], dv))
    for cols in band.key_blocks(rows, options.pages * size):
        visible = visibility(None, None, band, rows, cols, q.device)
        k, v = (take(gather(pages, table, cols), visible) for pages in (key_pages, value_pages))
        s = scores(q, k, None, visible)
        m_next = torch.maximum(m, s.amax(-1))
        shift = zero_if_empty(m_next)
        alpha, p = exp_(m.sub_(shift)), exp_(s.sub_(shift[..., None]))
        l.mul_(alpha).add_(p.sum(-1))
        add_matmul(o.mul_(alpha[..., None]), p, v)
        m = m_next
        del k, v, s, p  # before the next tile is made
    return o.div_(one_if_empty(l)[..., None]), m + torch.log(one_if_empty(l))


def gather(pages: Pages, table: Array, cols: slice) -> Float[Array, "Hk C X"]:
    """The keys (or values) of a tile, which begins with a page: the one copy that pages cost."""
    _, heads, size, width = pages.shape
    ids = table[cols.start // size : -(-cols.stop // size)].long()
    if pages.is_contiguous():  # a page of a head is one run of memory
        rows = ids * heads + torch.arange(heads, device=ids.device)[:, None]
        tile = pages.view((-1, size, width)).index_select(0, rows.flatten())
    else:
        tile = pages.index_select(0, ids).transpose(0, 1)
    return tile.reshape((heads, -1, width))[:, : cols.stop - cols.start]


def zeros(shape: tuple[int, ...], like: Array) -> Pages:
    """Pages of the dtype of ``like``, on its device."""
    return like.new_zeros(shape, requires_grad=False)


def integers(x: np.ndarray, like: Array) -> Array:
    """A table or lengths, for pages ``like`` these."""
    return torch.from_numpy(x).to(like.device)


@torch.no_grad()
def copy(pages: Pages, source: np.ndarray, to: np.ndarray) -> Pages:
    """Pages, some of them copied to others, in place."""
    source, to = (torch.from_numpy(x).to(pages.device).long() for x in (source, to))
    pages[to] = pages[source]
    return pages


@torch.no_grad()
def write(pages: Pages, slots: Array | np.ndarray, x: Float[Array, "C Hk X"]) -> Pages:
    """Pages with the rows of some tokens at their slots, in place."""
    slots = torch.as_tensor(slots, device=pages.device).long()
    size = pages.shape[2]
    pages[slots // size, :, slots % size] = x
    return pages
