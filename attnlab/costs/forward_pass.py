"""What the forward of each algorithm costs."""

from collections.abc import Callable
from functools import partial
from typing import Any

from attnlab.core.geometry import Band, chunk_sizes, tile_sizes
from attnlab.costs.cost import PassCost, check_sizes, of_method
from attnlab.costs.tiling import Tiling, paper_blocks, tiling


def forward(
    method: str, n: int, m: int, d: int, dv: int, *, heads: int = 1, itemsize: int = 2, block_q: int | None = None,
    block_k: int | None = None, sram: int | None = None, causal: bool = False, window: Any = None,
    offset: int | None = None, block_mask: Any = None, mask: bool = False, dropout: bool = False,
) -> PassCost:
    """Cost of the forward of ``method`` for ``heads`` heads of n queries, m keys, sizes d and dv.

    naive, safe      standard attention, which writes S and P (algorithm 0 of Dao et al. 2022)
    lazy, online     a query at a time, a key at a time
    chunked          Rabe & Staats; block_q and block_k are its chunk sizes, None: attnlab's own
    flash            FlashAttention, keys outside (algorithms 1 and 2); with ``block_mask``, algorithm 5
    flash2           FlashAttention-2, queries outside
    tiled            the same in the blocks of attnlab.tiled_attention
    paged            the same, causal, in pages of block_k keys, each read through a table, which is read too

    Block sizes None: FlashAttention's for an SRAM of ``sram`` elements; "tiled" needs none. Tiles that ``causal``,
    ``window`` or ``block_mask`` (T_r by T_c booleans, True = visible) hide cost nothing, but naive and safe, which
    have no tiles, pay for all. ``offset``: the key position under query 0, M − N by default. ``mask``, ``dropout``:
    whether there is a mask (n, m) to be read, whether weights are dropped. Raises KeyError for an unknown method,
    ValueError where block sizes are missing.
    """
    check_sizes(n=n, m=m, d=d, dv=dv, heads=heads)
    form = of_method(method, FORMS)
    hidden = dict(causal=causal or method == "paged", window=window, offset=offset, block_mask=block_mask)
    if method in ("naive", "safe"):
        hidden, block_q, block_k = {}, max(n, 1), max(m, 1)
    elif method in ("lazy", "online"):
        block_q, block_k = 1, 1
    elif method == "chunked":
        block_q, block_k = chunk_sizes(m, dv, block_q, block_k)
    else:
        own = partial(tile_sizes, band=Band.of(n, m, causal, window, offset), itemsize=itemsize)
        block_q, block_k = choose_blocks(method, block_q, block_k, sram, d, own)
    t = tiling(n, m, block_q, block_k, **hidden)
    products, exponentials, rest, reads, writes, fills = form(t, d, dv)
    reads |= {"mask": t.area} if mask else {}
    return PassCost(products, exponentials, rest + t.area * dropout, reads, writes, fills, itemsize).times(heads)


def choose_blocks(
    method: str, block_q: int | None, block_k: int | None, sram: int | None, d: int, own: Callable
) -> tuple[int, int]:
    """Block sizes. Those that are None follow from SRAM's size by FlashAttention's rule; tiled has attnlab's own."""
    if method == "tiled" and sram is None:
        return own((1, 1), block_q, block_k)
    if block_q is None or block_k is None:
        if sram is None:
            raise ValueError("block sizes are not given; give block_q and block_k, or sram, fast memory's elements")
        b_r, b_c = paper_blocks(sram, d)
        block_q, block_k = block_q or b_r, block_k or b_c
    return block_q, block_k


def _safe(t: Tiling, d: int, dv: int) -> tuple:
    """S = τ Q Kᵀ; maximum, subtraction, e^x, sum, division; O = P V: S and P cross once each way."""
    n, m, nm = t.n, t.m, t.area
    reads = {"Q": n * d, "K": m * d, "S": nm, "P": nm, "V": m * dv}
    return 2 * nm * (d + dv), nm, 5 * nm, reads, {"S": nm, "P": nm, "O": n * dv}, {}


def _naive(t: Tiling, d: int, dv: int) -> tuple:
    """The same without maximum and subtraction."""
    products, exponentials, rest, *moved = _safe(t, d, dv)
    return products, exponentials, rest - 2 * t.area, *moved


def _flash(t: Tiling, d: int, dv: int) -> tuple:
    """K and V once; Q, O, l, m at every visit of a block of queries to a block of keys."""
    rest = 5 * t.area + t.rows * (7 + 3 * dv)
    reads = {"Q": t.rows * d, "O": t.rows * dv, "l": t.rows, "m": t.rows, "K": t.keys * d, "V": t.keys * dv}
    writes = {"O": t.rows * dv, "l": t.rows, "m": t.rows}
    fills = {"O": t.n * dv, "l": t.n, "m": t.n}
    return 2 * t.area * (d + dv), t.area + 2 * t.rows, rest, reads, writes, fills


def _flash2(t: Tiling, d: int, dv: int) -> tuple:
    """Q once, K and V at every visit; O and lse are written once."""
    rest = 4 * t.area + t.rows * (4 + 2 * dv) + t.n * (dv + 1)
    return 2 * t.area * (d + dv), t.area + t.rows + t.n, rest, *_one_pass(t, d, dv)


def _lazy(t: Tiling, d: int, dv: int) -> tuple:
    """The same without a maximum: nothing is rescaled."""
    rest = 2 * t.area + t.rows * (1 + dv) + t.n * dv
    return 2 * t.area * (d + dv), t.area + t.n, rest, *_one_pass(t, d, dv)


def _chunked(t: Tiling, d: int, dv: int) -> tuple:
    """As flash2, and every summary (o, l, m) to HBM and back."""
    rest = 4 * t.area + t.rows * (4 + 2 * dv) + t.n * (dv + 1)
    reads, writes, fills = _one_pass(t, d, dv)
    summaries = {"o_c": t.rows * dv, "l_c": t.rows, "m_c": t.rows}
    return 2 * t.area * (d + dv), t.area + t.rows + t.n, rest, reads | summaries, writes | summaries, fills


def _paged(t: Tiling, d: int, dv: int) -> tuple:
    """As flash2, and an entry of the table for every tile."""
    products, exponentials, rest, reads, writes, fills = _flash2(t, d, dv)
    return products, exponentials, rest, reads | {"table": t.tiles}, writes, fills


def _one_pass(t: Tiling, d: int, dv: int) -> tuple[dict, dict, dict]:
    """Reads, writes and fills of queries outside, keys inside."""
    return {"Q": t.n * d, "K": t.cols * d, "V": t.cols * dv}, {"O": t.n * dv, "lse": t.n}, {}


FORMS = {
    "naive": _naive, "safe": _safe, "lazy": _lazy, "online": _flash2, "chunked": _chunked, "flash": _flash,
    "flash2": _flash2, "tiled": _flash2, "paged": _paged,
}  # fmt: skip
"""Of each algorithm: products, exponentials, rest; reads, writes and fills by array."""
