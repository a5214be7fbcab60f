"""Lesson 10, ★★★: the gradient of attention, a tile at a time."""

from attnlab.core.geometry import blocks
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, lifted
from attnlab_course.checker.promises import growth, inverse, peak

import numpy as np

Arrays = tuple[np.ndarray, ...]


def tiled_backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, lse: np.ndarray, dout: np.ndarray,
    dlse: np.ndarray, z: np.ndarray, block: int,
) -> Arrays:
    """(dq, dk, dv) of attention with dropout, tiles of block by block. z (N, M): the factors 0 or 1/(1 − r)."""
    (n, m), tau = z.shape, q.shape[-1] ** -0.5
    row = (out * dout).sum(-1) - dlse  # eq. 10.4
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for cols in blocks(m, block):
        for rows in blocks(n, block):
            s, z_ij = tau * q[rows] @ k[cols].T, z[rows, cols]
            p = np.exp(s - lse[rows, None])  # eq. 10.1
            dp = dout[rows] @ v[cols].T
            ds = p * (z_ij * dp - row[rows, None])  # eq. 10.8
            dv[cols] += (p * z_ij).T @ dout[rows]
            dk[cols] += tau * ds.T @ q[rows]
            dq[rows] += tau * ds @ k[cols]
    return dq, dk, dv


def arrays(seed: int, n: int, m: int, p: float = 0.0, dlse: bool = False, d: int = 4, dv: int = 3) -> Arrays:
    """Random inputs and what the forward pass returned, with dropout of ``p``; the loss may use lse."""
    rng = np.random.default_rng(seed)
    q, k, v, dout = (rng.normal(size=size) for size in ((n, d), (m, d), (m, dv), (n, dv)))
    z = (rng.random((n, m)) >= p) / (1 - p)
    out, lse = forward(q, k, v, z)
    return q, k, v, out, lse, dout, dlse * rng.normal(size=n), z


def forward(q: np.ndarray, k: np.ndarray, v: np.ndarray, z: np.ndarray | float) -> Arrays:
    """(out, lse)."""
    s = q.shape[-1] ** -0.5 * q @ k.T
    lse = np.logaddexp.reduce(s, axis=-1)
    return (np.exp(s - lse[:, None]) * z) @ v, lse


def cases() -> list[Case]:
    """One key; one block, several; the loss uses lse; dropout; large scores; all of it. Few shapes, for JAX."""
    plain, dropped, rest = arrays(1, 5, 7), arrays(4, 5, 7, p=0.5), arrays(3, 5, 7, dlse=True)
    lse_only = (*rest[:5], 0 * rest[5], *rest[6:])
    q, k, v, _, _, dout, dlse, z = arrays(5, 5, 7, p=0.5, dlse=True)
    q_low, k_low = lifted(q, k, 1.0)
    k_low[4:, 0] *= -9
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
        *far_queries(lambda q, k: (q, k, v, *forward(q, k, v, z), dout, dlse, z, 4), q, k, "; dropout; blocks of 4"),
        Case("BLOCK: the scores of the second block of keys are 10 less: their weights are small, and count",
             (q_low, k_low, v, *forward(q_low, k_low, v, z), dout, dlse, z, 4)),
        Case("dropout of one half, lse; blocks of 1: in some all is dropped", (*arrays(8, 3, 4, p=0.5, dlse=True), 1)),
        Case("RECT: seven queries, five keys, dropout, lse; blocks of 4", (*arrays(6, 7, 5, p=0.5, dlse=True), 4)),
        Case("square: four of everything, in blocks of 2", (*arrays(7, 4, 4, p=0.25, dlse=True, dv=4), 2)),
    ]  # fmt: skip


def long(n: int, block: int) -> tuple:
    """n queries and keys of size 8."""
    return *arrays(n, n, n, p=0.1, dlse=True, d=8, dv=8), block


SIZE, BLOCK = 1024, 64  # at which memory is measured
TILES = 3 * BLOCK**2 + 4 * BLOCK * 8  # three tiles of scores, and the rows and keys of one

EXERCISE = Exercise(
    lesson="10", stars=3, reference=tiled_backward, where="eq. 10.5", cases=cases,
    hints=(
        "Start from section 3. Two things are new: Δ becomes Δ − dlse (eq. 10.4), and z enters (eq. 10.8).",
        "In a tile: p = exp(τ·q kᵀ − lse), dp = dout vᵀ, ds = p ∘ (z ∘ dp − Δ). z goes with dp, and with p only in dv.",
        "dv[cols] += (p * z).T @ dout[rows]; dk[cols] += tau * ds.T @ q[rows]; dq[rows] += tau * ds @ k[cols].",
    ),
    without={
        "dlse": "The gradient through lse is missing. ∂lse/∂s = p, so Δ becomes Δ − dlse (eq. 10.4).",
        "z_ij": "z is missing from dv or from dP. The output was made with p·z, so dv is (P ∘ Z)ᵀ dO, and a dropped "
                "weight's value can't reach its score: dS = P ∘ (z ∘ dP − Δ) (eq. 10.8).",
        "tau": phrases.scale_in_gradient("eq. 10.5", what="the scores, dq or dk"),
    },
    mistakes=(
        Mistake(phrases.delta_of_tile("eq. 10.2"),
                but("row[rows, None]", "((p * z_ij * dp).sum(-1) - dlse[rows])[:, None]"),
                but("row[rows, None]", "((p * dp).sum(-1) - dlse[rows])[:, None]")),
        Mistake(phrases.overwritten("eq. 10.5", what="dq, dk or dv", block="block or tile"),
                but("dq[rows] +=", "dq[rows] ="), but("dk[cols] +=", "dk[cols] =", "dv[cols] +=", "dv[cols] ="),
                but("+=", "=")),
        Mistake("Your Δ belongs to an output without dropout. Δ is the dot product of dout and the out that was "
                "returned, dropout included: both sides carry z (eq. 10.8).",
                but("(out *", "(forward(q, k, v, 1.0)[0] *")),
        Mistake("z acts on dP, and P stays whole: dS = P ∘ (z ∘ dP − Δ). You drop P in front of the parenthesis (eq. "
                "10.8).",
                but("p * (z_ij * dp", "p * z_ij * (dp"), but("p * (z_ij * dp", "p * z_ij * (z_ij * dp")),
        Mistake("The gradient is right, but you hold the matrix of scores, or a strip of it: a side of your tile is as "
                "long as the sequence. Split queries and keys (eq. 10.5).",
                but("blocks(m, block)", "blocks(m, m)", "blocks(n, block)", "blocks(n, n)"),
                but("blocks(n, block)", "blocks(n, n)"), but("blocks(m, block)", "blocks(m, m)")),
    ),
    costs=(
        Cost(growth(lambda n: long(n, 32), 256, 512), 2.2,
             "Its memory grew {found:.1f}× when there were twice as many queries and keys; Δ and copies of the inputs "
             "grow 2×, a matrix 4×."),
        Cost(inverse(growth(lambda block: long(256, block), 32, 256)), 0.5, "In blocks of 32 it held {found:.2f} times "
             "what it held in one block of 256: are its tiles of block by block?"),
        Cost(peak(lambda n: long(n, BLOCK), SIZE, 2 * SIZE + TILES), 3,
             "It held {found:.1f} times 2N numbers and the arrays of a tile, beyond its result; {limit} is enough."),
    ),
)
