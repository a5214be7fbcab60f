"""Paged attention in PyTorch: the online fold, over tiles of keys that are found through the table.

On a GPU a Triton kernel does the same in one launch; these loops ask for the lengths and launch a few for each tile.
"""

from typing import Any

from attnlab.core.arrays.torch import Lse, Out, accumulator, uncompiled
from attnlab.core.geometry import Band, blocks
from attnlab.core.scores.torch import in_band
from attnlab.core.shapes import Float, Integer
from attnlab.core.torch_operator import is_empty_shell
from attnlab.kernels.triton.gpu import paged_on_gpu
from attnlab.paged.call import PagedInputs, PagedOptions, visible_keys
from attnlab.softmax.torch import exp_, one_if_empty, zero_if_empty

import numpy as np
import torch
from torch import Tensor as Array

KeyPages = Float[Array, "P Hk S D"]
ValuePages = Float[Array, "P Hk S Dv"]
Pages = Float[Array, "P Hk S X"]
Rows = Float[Array, "Hk R D"]
Keys = Float[Array, "Hk C X"]
Ids = Integer[Array, " W"] | int
Tiles = list[Array] | list[int]


def numpy_if_known(x: Array | np.ndarray) -> np.ndarray | None:
    """The numbers of an array, None of a meta or fake tensor."""
    if isinstance(x, np.ndarray):
        return x
    return None if is_empty_shell(x) else x.numpy(force=True)


@uncompiled
@torch.no_grad()
@paged_on_gpu
def paged_attention(options: PagedOptions, x: PagedInputs) -> tuple[Out, Lse]:
    """One sequence after the other; each tile of its queries reads the pages that it sees once."""
    (*_, n, _), (hk, size, dv) = x.query.shape, x.value_pages.shape[-3:]
    out = x.query.new_empty((*x.query.shape[:-1], dv))
    lse = x.query.new_empty(x.query.shape[:-1], dtype=accumulator(x.query))
    pages = [y if by_tokens(y) else y.contiguous() for y in (x.key_pages, x.value_pages)]
    with torch.autocast(out.device.type, enabled=False):
        for b, length in enumerate(x.lengths.tolist()):
            band, found = Band(n, length, options.left, 0), tiles(options, x.block_table[b, : -(-length // size)])
            for rows in blocks(n, options.rows):
                q = options.scale * x.query[b, ..., rows, :].to(lse.dtype)
                o, m = fold(options, band, rows, q.reshape((hk, -1, q.shape[-1])), *pages, found)
                out[b, ..., rows, :], lse[b, ..., rows] = o.view((*q.shape[:-1], dv)), m.view(q.shape[:-1])
    return out, lse


def fold(
    options: PagedOptions, band: Band, rows: slice, q: Rows, key_pages: KeyPages, value_pages: ValuePages, found: Tiles
) -> tuple[Float[Array, "Hk R Dv"], Float[Array, "Hk R"]]:
    """out and lse of some queries of one sequence. The heads of a group are rows of one product."""
    _, hk, size, dv = value_pages.shape
    m, l = q.new_full(q.shape[:-1], -torch.inf), q.new_zeros(q.shape[:-1])
    o = q.new_zeros((*q.shape[:-1], dv))
    # keys and values take turns in one buffer, because memory that has not been touched before is slow
    buffer = value_pages.new_empty(hk * options.pages * size * max(q.shape[-1], dv))
    for tile in band.key_blocks(rows, options.keys):
        ids, cols = found[tile.start // options.keys], visible_keys(band, rows, tile)
        part = slice(cols.start - tile.start, cols.stop - tile.start)
        s = torch.bmm(q, gather(key_pages, ids, buffer)[:, part].to(q.dtype).mT)
        visible = in_band(band, rows, cols, q.device)
        if visible is not None:
            s.view((hk, -1, *visible.shape[-2:])).masked_fill_(~visible, -torch.inf)
        m_next = torch.maximum(m, s.amax(-1))
        shift = zero_if_empty(m_next)
        alpha, p = exp_(m.sub_(shift)), exp_(s.sub_(shift[..., None]))
        l.mul_(alpha).add_(p.sum(-1))
        o.mul_(alpha[..., None]).baddbmm_(p, gather(value_pages, ids, buffer)[:, part].to(q.dtype))
        m = m_next
        del s, p  # before the next tile is made
    return o.div_(one_if_empty(l)[..., None]), m + torch.log(one_if_empty(l))


def tiles(options: PagedOptions, table: Array) -> Tiles:
    """The pages to read at a time: one page as long as a tile, or as many as a tile has."""
    if options.pages == 1:
        return table.tolist()
    return [table[part].long() for part in blocks(len(table), options.pages)]


def by_tokens(pages: Pages) -> bool:
    """Whether tokens come before heads in memory: the pages are then a view of (P, S, Hk, X)."""
    return not pages.is_contiguous() and pages.transpose(1, 2).is_contiguous()


def gather(pages: Pages, ids: Ids, buffer: Array) -> Keys:
    """One page as a view, or several copied into ``buffer``, in the order in which the pages store them."""
    _, heads, size, width = pages.shape
    if isinstance(ids, int):
        return pages[ids]
    count = len(ids) * heads * size * width
    if by_tokens(pages):
        tile = buffer[:count].view((-1, size, heads, width))
        torch.index_select(pages.transpose(1, 2), 0, ids, out=tile)
        return tile.view((-1, heads, width)).transpose(0, 1)
    tile = buffer[:count].view((-1, size, width))
    runs = (heads * ids + torch.arange(heads, device=ids.device)[:, None]).view(-1)
    torch.index_select(pages.view((-1, size, width)), 0, runs, out=tile)
    return tile.view((heads, -1, width))


def make_pages(shape: tuple[int, ...], like: Array) -> Pages:
    """Pages of the dtype of ``like``, on its device, NaN: what is read before it is written shows."""
    return like.new_full(shape, torch.nan, requires_grad=False)


def as_integers(x: np.ndarray, like: Array) -> Array:
    """A block table or lengths as an array of the library and device of ``like``."""
    return torch.from_numpy(x).to(like.device)


@torch.no_grad()
def copy(pages: Pages, source: np.ndarray, to: np.ndarray) -> Pages:
    """Copy some pages to others, in place."""
    source, to = (torch.from_numpy(x).to(pages.device).long() for x in (source, to))
    pages[to] = pages[source]
    return pages


@torch.no_grad()
def write(pages: Pages, slots: Array | np.ndarray, x: Float[Array, "C Hk X"]) -> Pages:
    """Write the rows of some tokens into their slots, in place."""
    slots = torch.as_tensor(slots, device=pages.device).long()
    size = pages.shape[2]
    pages[slots // size, :, slots % size] = x
    return pages


def page_bounds(key_pages: KeyPages, counts: Any) -> tuple[Float[Array, "P Hk D"], Float[Array, "P Hk D"]]:
    """See :func:`attnlab.paged.page_bounds`."""
    if counts is None:
        return key_pages.amin(-2), key_pages.amax(-2)
    device = key_pages.device
    slots, counts = torch.arange(key_pages.shape[2], device=device), torch.as_tensor(counts, device=device)
    empty = (slots >= counts[:, None])[:, None, :, None]
    return tuple(extreme(key_pages.masked_fill(empty, x), -2)
                 for extreme, x in ((torch.amin, torch.inf), (torch.amax, -torch.inf)))
