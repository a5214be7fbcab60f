"""Lesson 10, ★★★: the gradient of attention, a tile at a time."""

from collections.abc import Callable, Iterator
from typing import Any

from attnlab.check.promises import growth, peak
from attnlab.check.exercise import Case, Cost, Exercise, Function, Mistake

import numpy as np

Arrays = tuple[np.ndarray, ...]
SIZE, BLOCK = 1024, 64  # at which memory is measured
TILES = 3 * BLOCK**2 + 4 * BLOCK * 8  # three tiles of scores, and the rows and keys of one


def tiled_backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, lse: np.ndarray, dout: np.ndarray,
    dlse: np.ndarray, z: np.ndarray, block: int,
) -> Arrays:
    """(dq, dk, dv) of attention with dropout, tiles of block by block. z (N, M): the factors 0 or 1/(1 − p)."""
    return backward(q, k, v, out, lse, dout, dlse, z, block)


def whole_row(tile: dict[str, Any]) -> np.ndarray:
    """Δ − dlse of the tile's queries (eq. 10.4)."""
    return (tile["out"] * tile["dout"]).sum(-1) - tile["dlse"]


def scores_gradient(p: np.ndarray, dp: np.ndarray, z: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Equation 10.8."""
    return p * (z * dp - row[:, None])


def backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, lse: np.ndarray, dout: np.ndarray,
    dlse: np.ndarray, z: np.ndarray, block: int, *, weigh: Function = lambda s, lse: np.exp(s - lse[:, None]),
    row_of: Function = whole_row, ds_of: Function = scores_gradient,
    dv_of: Function = lambda p, z, dout: (p * z).T @ dout, scales: Callable = lambda c: (c, c),
    add: tuple[bool, bool] = (True, True), tail: bool = True, tile_q: int | None = None, tile_k: int | None = None,
) -> Arrays:
    """The gradient, each step of which can be replaced by a wrong one; ``scales`` of dq and dk, ``add`` to them."""
    c, (n, m) = q.shape[-1] ** -0.5, z.shape
    c_q, c_k = scales(c)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for cols in cuts(m, tile_k or block, tail):
        for rows in cuts(n, tile_q or block, tail):
            p = weigh(c * q[rows] @ k[cols].T, lse[rows])
            dp = dout[rows] @ v[cols].T
            tile = {"out": out[rows], "dout": dout[rows], "dlse": dlse[rows], "p": p, "dp": dp, "z": z[rows, cols]}
            tile |= {"q": q[rows], "k": k, "v": v, "lse": lse[rows]}
            ds = ds_of(p, dp, z[rows, cols], row_of(tile))
            dv[cols] = add[1] * dv[cols] + dv_of(p, z[rows, cols], dout[rows])
            dk[cols] = add[1] * dk[cols] + c_k * ds.T @ q[rows]
            dq[rows] = add[0] * dq[rows] + c_q * ds @ k[cols]
    return dq, dk, dv


def cuts(length: int, block: int, tail: bool) -> Iterator[slice]:
    """The blocks of a length; without ``tail`` only the whole ones."""
    for start in range(0, length if tail else length // block * block, block):
        yield slice(start, min(start + block, length))


def wrong(**steps: Any) -> Function:
    """The gradient with these steps replaced."""

    def attempt(
        q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, lse: np.ndarray, dout: np.ndarray,
        dlse: np.ndarray, z: np.ndarray, block: int,
    ) -> Arrays:
        with np.errstate(all="ignore"):
            return backward(q, k, v, out, lse, dout, dlse, z, block, **steps)

    return attempt


def own_shift(s: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """e^{s − m}, with the tile's own m."""
    return np.exp(s - s.max(-1, keepdims=True))


def own_softmax(s: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """The softmax of the tile."""
    e = own_shift(s, lse)
    return e / e.sum(-1, keepdims=True)


def own_sum(s: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """The right weights, divided by the tile's l once more."""
    return np.exp(s - lse[:, None]) / own_shift(s, lse).sum(-1, keepdims=True)


def before_dropout(tile: dict[str, Any]) -> np.ndarray:
    """Δ with the output that dropout has not touched."""
    s = tile["q"].shape[-1] ** -0.5 * tile["q"] @ tile["k"].T
    o = np.exp(s - tile["lse"][:, None]) @ tile["v"]
    return (o * tile["dout"]).sum(-1) - tile["dlse"]


def tile_sum(tile: dict[str, Any]) -> np.ndarray:
    """The sum of p ∘ z ∘ dp over the keys of the tile."""
    return (tile["p"] * tile["z"] * tile["dp"]).sum(-1) - tile["dlse"]


def tile_sum_bare(tile: dict[str, Any]) -> np.ndarray:
    """The sum of p ∘ dp over the keys of the tile."""
    return (tile["p"] * tile["dp"]).sum(-1) - tile["dlse"]


def no_dlse(tile: dict[str, Any]) -> np.ndarray:
    """Δ without dlse."""
    return (tile["out"] * tile["dout"]).sum(-1)


def plus_dlse(tile: dict[str, Any]) -> np.ndarray:
    """Δ + dlse."""
    return (tile["out"] * tile["dout"]).sum(-1) + tile["dlse"]


def only_dlse(tile: dict[str, Any]) -> np.ndarray:
    """− dlse, without Δ."""
    return -tile["dlse"]


def nothing(tile: dict[str, Any]) -> np.ndarray:
    """No term for the row."""
    return 0.0 * tile["dlse"]


def arrays(seed: int, n: int, m: int, p: float = 0.0, dlse: bool = False, d: int = 4, dv: int = 3) -> Arrays:
    """Random inputs and what the forward pass returned, with dropout of ``p``; the loss may use lse."""
    rng = np.random.default_rng(seed)
    q, k, v, dout = (rng.normal(size=size) for size in ((n, d), (m, d), (m, dv), (n, dv)))
    z = (rng.random((n, m)) >= p) / (1 - p)
    out, lse = forward(q, k, v, z)
    return q, k, v, out, lse, dout, dlse * rng.normal(size=n), z


def forward(q: np.ndarray, k: np.ndarray, v: np.ndarray, z: np.ndarray) -> Arrays:
    """(out, lse)."""
    s = q.shape[-1] ** -0.5 * q @ k.T
    lse = np.logaddexp.reduce(s, axis=-1)
    return (np.exp(s - lse[:, None]) * z) @ v, lse


def cases() -> list[Case]:
    """One key; one block, several; the loss uses lse; dropout; large scores; all of it. Few shapes, for JAX."""
    plain, dropped, rest = arrays(1, 5, 7), arrays(4, 5, 7, p=0.5), arrays(3, 5, 7, dlse=True)
    lse_only = (*rest[:5], 0 * rest[5], *rest[6:])
    q, k, v, _, _, dout, dlse, z = arrays(5, 5, 7, p=0.5, dlse=True)
    q, k = q + np.array([[100.0, 0, 0, 0]]), k + np.array([[20.0, 0, 0, 0]])
    return [
        Case("ONE: one query, one key: the weight is 1 whatever the score, so dq and dk are 0",
             (*arrays(0, 1, 1, d=1, dv=1), 1)),
        Case("one block holds all five queries and seven keys, D = 4, Dv = 3", (*plain, 8)),
        Case("BLOCK: the same in blocks of 4", (*plain, 4)),
        Case("RAGGED: the same in blocks of 2", (*plain, 2)),
        Case("LSEGRAD: the loss is a function of lse alone (dout = 0), one block", (*lse_only, 8)),
        Case("the loss uses out and lse, blocks of 4", (*rest, 4)),
        Case("dropout of one half, one block", (*dropped, 8)),
        Case("BLOCK: dropout of one half, blocks of 4", (*dropped, 4)),
        Case("HIGH: scores near 1000, dropout, lse; blocks of 4", (q, k, v, *forward(q, k, v, z), dout, dlse, z, 4)),
        Case("RECT: seven queries, five keys, dropout, lse; blocks of 4", (*arrays(6, 7, 5, p=0.5, dlse=True), 4)),
        Case("square: four of everything, in blocks of 2", (*arrays(7, 4, 4, p=0.25, dlse=True, dv=4), 2)),
    ]  # fmt: skip


def long(n: int, block: int) -> tuple:
    """n queries and keys of size 8."""
    return *arrays(n, n, n, p=0.1, dlse=True, d=8, dv=8), block


EXERCISE = Exercise(
    lesson="10",
    stars=3,
    reference=tiled_backward,
    cases=cases,
    hints=(
        "Take the function of section 3. Two things are new: Δ becomes Δ − dlse (eq. 10.4), and z enters (eq. 10.8).",
        "Δ of all queries needs no tile: (out * dout).sum(-1) - dlse, once, before the loops.",
        "In a tile: p = exp(τ·q kᵀ − lse), dp = dout vᵀ, ds = p ∘ (z ∘ dp − Δ). z stands beside dp, and beside p in dv "
        "only.",
        "dv[cols] += (p * z).T @ dout[rows]; dk[cols] += tau * ds.T @ q[rows]; dq[rows] += tau * ds @ k[cols]. All "
        "three add up, and slices may reach beyond the end.",
    ),
    mistakes=(
        Mistake(
            "Your Δ is the row sum of p ∘ dp over the tile. The row runs over all keys; out and dout know them all: "
            "Δ = rowsum(dO ∘ O) (eq. 10.2). With one block the two agree, so a small test does not show it.",
            wrong(row_of=tile_sum), wrong(row_of=tile_sum_bare),
        ),
        Mistake(
            "Your weights are relative to the tile's maximum and never divided: rows are scaled by l. Subtract lse, "
            "which holds both (eq. 10.1).",
            wrong(weigh=own_shift),
        ),
        Mistake(
            "You normalize within the tile. lse knows the whole row: p = e^{s − lse} (eq. 10.1).",
            wrong(weigh=own_softmax),
        ),
        Mistake(
            "You divide twice: lse contains log l, so e^{s − lse} is divided already (eq. 10.1).",
            wrong(weigh=own_sum), wrong(weigh=lambda s, lse: np.exp(s - lse[:, None]) / np.exp(lse)[:, None]),
        ),
        Mistake(
            "You multiply e^s by e^−lse, or divide them: both overflow or vanish near scores of 709. Subtract inside "
            "the exponential (eq. 10.1).",
            wrong(weigh=lambda s, lse: np.exp(s) * np.exp(-lse)[:, None]),
            wrong(weigh=lambda s, lse: np.exp(s) / np.exp(lse)[:, None]),
        ),
        Mistake(
            "dq holds the part of the last block of keys only: you assign where you should add. A query meets every "
            "block (eq. 10.5).",
            wrong(add=(False, True)),
        ),
        Mistake(
            "dk and dv hold the part of the last block of queries only: you assign where you should add. A key meets "
            "every block (eq. 10.5).",
            wrong(add=(True, False)),
        ),
        Mistake(
            "dq, dk and dv hold the part of the last tile only: all three are sums over tiles, so add (eq. 10.5).",
            wrong(add=(False, False)),
        ),
        Mistake(
            "The gradient through lse is missing: for a loss on lse alone you return 0. ∂lse/∂s = p, so Δ becomes "
            "Δ − dlse (eq. 10.4).",
            wrong(row_of=no_dlse),
        ),
        Mistake(
            "dlse has the wrong sign. dS = P ∘ (dP − (Δ − dlse)): it adds p·dlse to dS (eq. 10.4).",
            wrong(row_of=plus_dlse),
        ),
        Mistake(
            "Δ is missing: dS is not P ∘ dP. Each row of dS adds up to dlse, 0 without one; subtract Δ (eq. 10.3).",
            wrong(row_of=only_dlse), wrong(row_of=nothing),
        ),
        Mistake(
            "Your Δ belongs to an output without dropout. Δ is the dot product of dout with the out that was returned, "
            "dropout included: both sides carry z (eq. 10.8).",
            wrong(row_of=before_dropout),
        ),
        Mistake(
            "z acts on dP, and P stays whole: dS = P ∘ (z ∘ dP − Δ). You drop P in front of the bracket (eq. 10.8).",
            wrong(ds_of=lambda p, dp, z, row: p * z * (dp - row[:, None])),
            wrong(ds_of=lambda p, dp, z, row: p * z * (z * dp - row[:, None])),
        ),
        Mistake(
            "z is missing at dP: what a dropped weight would have contributed must not reach its score. "
            "dS = P ∘ (z ∘ dP − Δ) (eq. 10.8).",
            wrong(ds_of=lambda p, dp, z, row: p * (dp - row[:, None])),
        ),
        Mistake(
            "z is missing in dv: the output was made with p·z, so dv is (P ∘ Z)ᵀ dO (eq. 10.8).",
            wrong(dv_of=lambda p, z, dout: p.T @ dout),
        ),
        Mistake(
            "z does not enter at all: these are gradients of attention without dropout. It belongs to dv and to dP "
            "(eq. 10.8).",
            wrong(dv_of=lambda p, z, dout: p.T @ dout, ds_of=lambda p, dp, z, row: p * (dp - row[:, None])),
        ),
        Mistake(
            "The factor 1/√D is missing in dq: the score is τ·q·k, so τ returns (eq. 10.5).",
            wrong(scales=lambda c: (1, c)),
        ),
        Mistake(
            "The factor 1/√D is missing in dk: the score is τ·q·k, so τ returns (eq. 10.5).",
            wrong(scales=lambda c: (c, 1)),
        ),
        Mistake(
            "The factor 1/√D is missing in dq and in dk: the score is τ·q·k, so τ returns in both (eq. 10.5).",
            wrong(scales=lambda c: (1, 1)),
        ),
        Mistake(
            "Positions after the last whole block are left out. Round the number of blocks up; the last one is "
            "shorter (eq. 10.5).",
            wrong(tail=False),
        ),
        Mistake(
            "The gradient is right, but you hold all N × M weights at once. Recompute the weights of a tile, use them "
            "and forget them (section 3).",
            wrong(tile_q=10**9, tile_k=10**9),
        ),
        Mistake(
            "The gradient is right, but you hold a strip of the matrix: one side of your tile is as long as the "
            "sequence. Cut queries and keys (eq. 10.5).",
            wrong(tile_q=10**9), wrong(tile_k=10**9),
        ),
    ),
    costs=(
        Cost(growth(lambda n: long(n, 32), 256, 512), 2.2,
             "Its memory grew {found:.1f}× when there were twice as many queries and keys; Δ and copies of the inputs "
             "grow 2×, a matrix 4×."),
        Cost(peak(lambda n: long(n, BLOCK), SIZE, 2 * SIZE + TILES), 3,
             "It held {found:.1f} times 2N numbers and the arrays of a tile, beyond its result; {limit} is enough."),
    ),
)  # fmt: skip
