"""What a function that rotates queries by their positions does: which elements make a pair, and by which angles."""

import math
from collections.abc import Callable
from typing import Any

from attnlab.conventions.calling import Call, said

import numpy as np

N, D = 4, 16
PAIRS = {"k, k + D/2": D // 2, "2k, 2k + 1": 1}  # how far apart


def rotary(function: Callable[[Any], Any], *, library: str = "numpy") -> dict[str, str]:
    """The conventions of ``function(x)``, which rotates 4 queries of size 16, (N, D), of a library by their positions.

    Wrap what takes more: ``lambda x: apply(x[None, None], cos, sin)[0, 0]``. Says which elements are paired, where
    token 0 stands, the base (by the first two frequencies), and what a scaling multiplies: positions (by less than 0,
    if it turns backwards), later frequencies or the vectors. Raises TypeError where x is refused, and ValueError
    where no pairing predicts what came, or some pair doesn't turn.
    """
    call = Call(function, library, "ND", None, math.inf, "ND")
    try:
        matrices = np.stack([call(np.zeros((N, D)) + unit)[0, 0] for unit in np.eye(D)], -1)  # (N, D, D)
    except Exception as error:
        raise TypeError(f"an array of {library}, (4, 16), gives {said(error)}; pass library=, or wrap it") from error
    found = {pairs: turns(matrices, apart) for pairs, apart in PAIRS.items()}
    pairs, turn = next(((pairs, turn) for pairs, turn in found.items() if turn is not None), ("", np.ones((N, 2))))
    frequency = np.angle(turn[1] / turn[0])
    if not frequency.all():
        raise ValueError("neither all k, k + D/2 nor all 2k, 2k + 1 rotate by place; let x (N, D) be what it rotates")
    first, base, start = frequency[0], (frequency[0] / frequency[1]) ** (D / 2), 0.0
    factors = {"positions by": first, "vectors by": abs(turn[0, 0])}
    factors |= {f"frequency {k} by": x for k, x in enumerate(frequency / first * base ** (np.arange(0, D, 2) / D))}
    multiplied = ", ".join(f"{what} {x:.3g}" for what, x in factors.items() if abs(x - 1) > 0.01) or "–"
    for angle, speed in zip(np.angle(turn[0])[::-1], frequency[::-1]):  # the slowest hasn't gone around
        start = (angle + 2 * np.pi * round((start * speed - angle) / (2 * np.pi))) / speed
    return {"pairs": pairs, "token 0 stands at": f"{start + 0.0:.4g}", "base": f"{base:,.0f}", "multiplied": multiplied}


def turns(matrices: np.ndarray, apart: int) -> np.ndarray | None:
    """What rotates each pair, as complex numbers (N, D/2), if that is all that the matrices (N, D, D) do."""
    one = np.flatnonzero(np.arange(D) % (2 * apart) < apart)
    other, turn = one + apart, matrices[:, one, one] + 1j * matrices[:, one + apart, one]
    rebuilt = np.zeros_like(matrices)
    rebuilt[:, one, one], rebuilt[:, other, other] = turn.real, turn.real
    rebuilt[:, other, one], rebuilt[:, one, other] = turn.imag, -turn.imag
    return turn if np.allclose(matrices, rebuilt, atol=1e-5) else None
