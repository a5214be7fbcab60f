"""Two reductions of (out, lse) over ranks, programs for a Cluster: the fewest steps, and the fewest bytes."""

from attnlab import merge
from attnlab.ring.programs import Steps
from attnlab.ring.rank import Rank

import numpy as np
from numpy import ndarray as Array


def one_shot(rank: Rank, out: Array, lse: Array) -> Steps:
    """⊕ over the ranks' (out, lse), on every rank: each sends its own to all others, and merges by itself.

    All merge in the same order, so that all ranks agree to the last bit.
    """
    for other in range(rank.size):
        if other != rank.index:
            rank.send(out, lse, to=other)
    parts = []
    for other in range(rank.size):
        parts.append((out, lse) if other == rank.index else (yield rank.receive(other)))
    total = parts[0]
    for part in parts[1:]:
        total = merge(*total, *part)
    return total


def halving(rank: Rank, out: Array, lse: Array) -> Steps:
    """⊕ over the ranks' (out, lse), on every rank, in 2 log₂ P steps: halving, then doubling. P is a power of two.

    First each rank gives half of its rows away and merges the partner's other half into what it keeps, at distance
    P/2, …, 2, 1 (a reduce-scatter). Then the finished rows go back the same way (an all-gather).
    """
    rows = np.concatenate([out, lse[..., None]], -1).reshape(lse.size, -1)
    distance, low, high, turns = rank.size // 2, 0, lse.size, []
    while distance:
        partner, middle = rank.index ^ distance, (low + high) // 2
        halves = [slice(low, middle), slice(middle, high)]
        keep, give = halves if rank.index < partner else halves[::-1]
        rank.send(rows[give], to=partner)
        (theirs,) = yield rank.receive(partner)
        pair = (rows[keep], theirs) if rank.index < partner else (theirs, rows[keep])
        rows[keep] = _merged(*pair)
        turns.append((partner, keep, give))
        low, high, distance = keep.start, keep.stop, distance // 2
    for partner, keep, give in reversed(turns):
        rank.send(rows[keep], to=partner)
        (rows[give],) = yield rank.receive(partner)
    return rows[:, :-1].reshape(out.shape), rows[:, -1].reshape(lse.shape)


def _merged(a: Array, b: Array) -> Array:
    """⊕ of rows of (out, lse)."""
    out, lse = merge(a[:, :-1], a[:, -1], b[:, :-1], b[:, -1])
    return np.concatenate([out, lse[:, None]], -1)
