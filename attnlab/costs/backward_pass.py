"""What the backward pass of each algorithm costs."""

from typing import Any

from attnlab.core.geometry import chunk_sizes, gradient_tile_sizes
from attnlab.costs.cost import PassCost, check_sizes, of_method
from attnlab.costs.forward_pass import choose_blocks
from attnlab.costs.tiling import Tiling, tiling


def backward(
    method: str, n: int, m: int, d: int, dv: int, *, heads: int = 1, itemsize: int = 2, block_q: int | None = None,
    block_k: int | None = None, sram: int | None = None, causal: bool = False, window: Any = None,
    offset: int | None = None, block_mask: Any = None, mask: bool = False, dropout: bool = False,
) -> PassCost:
    """Cost of the gradients by Q, K and V, from the gradient of O and what the forward left in HBM.

    naive, safe      from P (algorithm 3 of Dao et al. 2022); block_q: the rows that it streams past, 128 by default
    flash            P recomputed (algorithm 4); with ``block_mask`` that of algorithm 5
    flash2, tiled    P recomputed from lse, Δ = rowsum(dO ∘ O) in a pass of its own
    two kernels      as in attnlab.kernels.triton: one sums up dQ, the other dK and dV, and both recompute P and dP
    chunked          each summary recomputed when its turn comes, as checkpointing does; block_q and block_k are the
                     chunk sizes, None: attnlab's own

    Arguments as :func:`forward`. lazy and online have no backward pass of their own, only that of automatic
    differentiation, which keeps what the forward computed: they, like an unknown method, raise KeyError.
    """
    check_sizes(n=n, m=m, d=d, dv=dv, heads=heads)
    form = of_method(method, FORMS)
    hidden = dict(causal=causal, window=window, offset=offset, block_mask=block_mask)
    if form is _standard:
        t, mask = tiling(n, m, block_q or 128, max(m, 1)), False
    elif form is _chunked:
        t = tiling(n, m, *chunk_sizes(m, dv, block_q, block_k), **hidden)
    else:
        t = tiling(n, m, *choose_blocks(method, block_q, block_k, sram, d, gradient_tile_sizes), **hidden)
    products, exponentials, rest, reads, writes, fills = form(t, d, dv)
    area = t.area * (2 if form is _two_kernels else 1)  # where P is computed, with mask and dropout
    reads |= {"mask": area} if mask else {}
    return PassCost(products, exponentials, rest + 2 * area * dropout, reads, writes, fills, itemsize).times(heads)


def _standard(t: Tiling, d: int, dv: int) -> tuple:
    """dV = Pᵀ dO, dP = dO Vᵀ, dS = τ P ∘ (dP − rowsum(P ∘ dP)), dQ = dS K, dK = dSᵀ Q: seven matrices cross.

    The rest: five operations on every score, and the sums of dK and dV over blocks of queries.
    """
    n, m, nm = t.n, t.m, t.area
    reads = {"P": 2 * nm, "dO": 2 * n * dv, "V": m * dv, "dP": nm, "dS": 2 * nm, "K": m * d, "Q": n * d}
    writes = {"dV": m * dv, "dP": nm, "dS": nm, "dQ": n * d, "dK": m * d}
    return 4 * nm * (d + dv), 0, 5 * nm + t.t_r * m * (d + dv), reads, writes, {}


def _flash(t: Tiling, d: int, dv: int) -> tuple:
    """Five products. K, V, dK, dV once; Q, O, dO, l, m, dQ at every visit, dQ both ways."""
    rest = 6 * t.area + t.rows * (d + 2 * dv) + t.cols * (d + dv)
    reads = {
        "K": t.keys * d, "V": t.keys * dv, "Q": t.rows * d, "O": t.rows * dv, "dO": t.rows * dv, "dQ": t.rows * d,
        "l": t.rows, "m": t.rows,
    }  # fmt: skip
    return 2 * t.area * (3 * d + 2 * dv), t.area, rest, reads, _gradients(t, d, dv), {"dQ": t.n * d}


def _flash2(t: Tiling, d: int, dv: int) -> tuple:
    """The same five products; O is read once, for Δ, which with lse takes the place of O, l and m."""
    rest = 5 * t.area + t.rows * d + t.cols * (d + dv) + 2 * t.n * dv
    reads = {
        "K": t.keys * d, "V": t.keys * dv, "Q": t.rows * d, "dO": (t.rows + t.n) * dv, "O": t.n * dv, "dQ": t.rows * d,
        "lse": t.rows, "Δ": t.rows,
    }  # fmt: skip
    return 2 * t.area * (3 * d + 2 * dv), t.area, rest, reads, _gradients(t, d, dv) | {"Δ": t.n}, {"dQ": t.n * d}


def _two_kernels(t: Tiling, d: int, dv: int) -> tuple:
    """Seven products. One reads K, V at every visit and computes Δ, the other Q, dO, lse, Δ; no gradient is read."""
    rest = 10 * t.area + t.rows * d + t.cols * (d + dv) + 2 * t.n * dv
    reads = {
        "Q": (t.n + t.rows) * d, "dO": (t.n + t.rows) * dv, "O": t.n * dv, "lse": t.n + t.rows, "Δ": t.rows,
        "K": (t.cols + t.keys) * d, "V": (t.cols + t.keys) * dv,
    }  # fmt: skip
    writes = {"dQ": t.n * d, "dK": t.m * d, "dV": t.m * dv, "Δ": t.n}
    return 2 * t.area * (4 * d + 3 * dv), 2 * t.area, rest, reads, writes, {}


def _chunked(t: Tiling, d: int, dv: int) -> tuple:
    """S and o_c again, then four products; queries outside, so dK and dV cross both ways at every visit."""
    rest = 7 * t.area + t.rows * (2 + d + dv) + t.cols * (d + dv) + 2 * t.n * dv
    keys = {"dK": t.cols * d, "dV": t.cols * dv}
    reads = {"Q": t.n * d, "dO": t.n * dv, "O": t.n * dv, "lse": t.n, "K": t.cols * d, "V": t.cols * dv} | keys
    fills = {"dK": t.m * d, "dV": t.m * dv}
    return 6 * t.area * (d + dv), t.area + t.rows, rest, reads, keys | {"dQ": t.n * d}, fills


def _gradients(t: Tiling, d: int, dv: int) -> dict[str, int]:
    """dK and dV are written once, dQ at every visit."""
    return {"dK": t.m * d, "dV": t.m * dv, "dQ": t.rows * d}


FORMS = {
    "naive": _standard, "safe": _standard, "flash": _flash, "flash2": _flash2, "tiled": _flash2, "chunked": _chunked,
    "two kernels": _two_kernels,
}  # fmt: skip
"""Of each algorithm: products, exponentials, rest; reads, writes and fills by array."""
