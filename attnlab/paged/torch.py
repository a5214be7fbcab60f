"""Paged attention in PyTorch: the online fold, a tile of keys gathered through the table at a time."""

from attnlab.arrays.torch import Lse, Out, Query, accumulator, add_matmul
from attnlab.geometry import Band, blocks
from attnlab.paged.call import Inputs, Options
from attnlab.scores.torch import in_band, scores, take
from attnlab.softmax.torch import exp_, one_if_empty, zero_if_empty
from attnlab.typing import Float

import numpy as np
import torch
from torch import Tensor as Array

Pages = Float[Array, "P Hk S X"]
KeyRuns = Float[Array, "R S D"]
ValueRuns = Float[Array, "R S Dv"]
Runs = Float[Array, "R S X"]


def numbers(x: Array | np.ndarray) -> np.ndarray:
    """The numbers of an array."""
    return x if isinstance(x, np.ndarray) else x.numpy(force=True)


@torch.compiler.disable  # it would unroll the loops
@torch.no_grad()
def paged_attention(options: Options, x: Inputs) -> tuple[Out, Lse]:
    """One sequence after the other; each tile of its queries reads the pages that it sees once."""
    (*_, hk, _, n, _), (size, dv) = x.query.shape, x.value_pages.shape[-2:]
    out = x.query.new_empty((*x.query.shape[:-1], dv))
    lse = x.query.new_empty(x.query.shape[:-1], dtype=accumulator(x.query))
    keys, values = (pages.reshape((-1, *pages.shape[2:])) for pages in (x.key_pages, x.value_pages))
    with torch.autocast(out.device.type, enabled=False):
        for b, length in enumerate(x.lengths.tolist()):
            band, table = Band(n, length, options.left, 0), x.block_table[b, : -(-length // size)]
            runs = hk * table.long() + torch.arange(hk, device=out.device)[:, None]  # of pages of one head
            for rows in blocks(n, options.rows):
                q = options.scale * x.query[b, ..., rows, :].to(lse.dtype)
                out[b, ..., rows, :], lse[b, ..., rows] = fold(options, band, rows, q, keys, values, runs)
    return out, lse


def fold(
    options: Options, band: Band, rows: slice, q: Query, keys: KeyRuns, values: ValueRuns, runs: Array
) -> tuple[Out, Lse]:
    """out and lse of some queries of one sequence."""
    size, dv = values.shape[1:]
    m, l = q.new_full(q.shape[:-1], -torch.inf), q.new_zeros(q.shape[:-1])
    o = q.new_zeros((*q.shape[:-1], dv))
    room = keys.new_empty(len(runs) * options.pages * size * max(keys.shape[-1], dv))
    for cols in band.key_blocks(rows, options.pages * size):
        visible = in_band(band, rows, cols, q.device)
        s = scores(q, take(gather(keys, runs, cols, room), visible), None, visible)
        m_next = torch.maximum(m, s.amax(-1))
        shift = zero_if_empty(m_next)
        alpha, p = exp_(m.sub_(shift)), exp_(s.sub_(shift[..., None]))
        l.mul_(alpha).add_(p.sum(-1))
        v = take(gather(values, runs, cols, room), visible)
        add_matmul(o.mul_(alpha[..., None]), p, v)
        m = m_next
        del s, p, v  # before the next tile is made
    return o.div_(one_if_empty(l)[..., None]), m + torch.log(one_if_empty(l))


def gather(pages: Runs, runs: Array, cols: slice, room: Array) -> Float[Array, "Hk C X"]:
    """The keys (or values) of a tile, which begins with a page, copied to ``room``: the one copy that pages cost.

    Keys and values take turns in one room, as memory that has not been touched before is slow.
    """
    _, size, width = pages.shape
    runs = runs[:, cols.start // size : -(-cols.stop // size)]
    tile = room[: runs.numel() * size * width].view((-1, size, width))
    torch.index_select(pages, 0, runs.reshape(-1), out=tile)
    return tile.view((len(runs), -1, width))[:, : cols.stop - cols.start]


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
