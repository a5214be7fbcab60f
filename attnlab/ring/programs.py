"""Programs for a Cluster: reductions, what decoding could move instead of summaries, and heads for tokens. NumPy."""

from collections.abc import Generator
from typing import Any

from attnlab.ring.heads import HEADS, TOKENS, check_heads
from attnlab.ring.rank import Rank
from attnlab.softmax.numpy import merge

import numpy as np
from numpy import ndarray as Array

Steps = Generator[Any, Any, Any]  # yields what it waits for, is sent the arrays


def all_reduce(rank: Rank, x: Array, operation: np.ufunc) -> Steps:
    """``operation`` over the ranks' x, on every rank, as a ring: P − 1 steps to reduce, P − 1 to spread.

    A step carries a P-th of x, so that all ranks together send 2 (P − 1) times x. Each piece is reduced once and
    copied, so that all ranks agree to the last bit. ``total = yield from all_reduce(rank, x, numpy.add)``.
    """
    index, size = rank.index, rank.size
    pieces = np.array_split(x.ravel(), size)
    to, source = (index + 1) % size, (index - 1) % size
    for step in range(size - 1):
        rank.send(pieces[(index - step) % size], to=to)
        (arrived,) = yield rank.receive(source)
        mine = (index - step - 1) % size
        pieces[mine] = operation(arrived, pieces[mine])
    for step in range(size - 1):
        rank.send(pieces[(index + 1 - step) % size], to=to)
        (pieces[(index - step) % size],) = yield rank.receive(source)
    return np.concatenate(pieces).reshape(x.shape)


def doubling(rank: Rank, out: Array, lse: Array) -> Steps:
    """⊕ over the ranks' (out, lse), on every rank, in log₂ P exchanges with a partner at distance 1, 2, 4, ….

    Where P is no power of two, the ranks beyond the largest one hand theirs to a partner and get the result back. The
    lower rank's part comes first, so that all ranks agree to the last bit.
    """
    power = 2 ** (rank.size.bit_length() - 1)
    beyond = rank.index + power if rank.index + power < rank.size else None
    if rank.index >= power:
        rank.send(out, lse, to=rank.index - power)
        return (yield rank.receive(rank.index - power))
    if beyond is not None:
        out, lse = _merge((out, lse), (yield rank.receive(beyond)))
    distance = 1
    while distance < power:
        partner = rank.index ^ distance
        rank.send(out, lse, to=partner)
        theirs = yield rank.receive(partner)
        both = [(out, lse), theirs] if rank.index < partner else [theirs, (out, lse)]
        out, lse = _merge(*both)
        distance *= 2
    if beyond is not None:
        rank.send(out, lse, to=beyond)
    return out, lse


def move_query(
    rank: Rank, query: Array | None, key: Array, value: Array, *, scale: float | None = None, home: int = 0
) -> Steps:
    """Decoding where the query lives on one rank: it goes to all others, and their (out, lse) come back.

    ``query`` (..., Hq, N, D) on rank ``home``, disregarded elsewhere; ``key`` and ``value`` of this rank, of any
    length. Every query sees every key. Returns (out, lse) on ``home``, None elsewhere. A program for ``Cluster.run``.
    """
    others = [other for other in range(rank.size) if other != home]
    if rank.index != home:
        (query,) = yield rank.receive(home)
        rank.send(*rank.attend(query, key, value, scale=scale), to=home)
        return None
    for other in others:
        rank.send(query, to=other)
    out, lse = rank.attend(query, key, value, scale=scale)
    for other in others:
        out, lse = _merge((out, lse), (yield rank.receive(other)))
    return out.astype(query.dtype), lse


def move_keys(rank: Rank, query: Array, key: Array, value: Array, *, scale: float | None = None) -> Steps:
    """Decoding as a ring: the query is on every rank, and keys and values go round.

    ``query`` (..., Hq, N, D), the same on all ranks; ``key`` and ``value`` of this rank, of any length. Every query
    sees every key. Returns (out, lse) on every rank, in an order of its own: they agree to rounding. A program
    for ``Cluster.run``.
    """
    out, lse = rank.attend(query, key, value, scale=scale)
    for _ in range(rank.size - 1):
        rank.send(key, value, to=(rank.index + 1) % rank.size)
        key, value = yield rank.receive((rank.index - 1) % rank.size)
        out, lse = _merge((out, lse), rank.attend(query, key, value, scale=scale))
    return out.astype(query.dtype), lse


def all_to_all(rank: Rank, x: Array, cut: int, join: int) -> Steps:
    """Axis ``cut`` in P parts, of which rank r gets the r-th; what arrives is joined along ``join``, by rank."""
    parts = np.split(x, rank.size, cut)
    for step in range(1, rank.size):
        to = (rank.index + step) % rank.size
        rank.send(parts[to], to=to)
    for source in range(rank.size):
        if source != rank.index:
            (parts[source],) = yield rank.receive(source)
    return np.concatenate(parts, join)


def by_heads(rank: Rank, query: Array, key: Array, value: Array, **options: Any) -> Steps:
    """Attention to a sequence in contiguous shards (heads, C, D), split by heads meanwhile; ``options`` as for attend.

    attnlab.ring.heads says how; three exchanges there and one back. Returns out (heads, C, Dv) of the rank's tokens.
    """
    inputs = []
    for x in (query, key, value):
        check_heads(x.shape[HEADS], rank.size)
        inputs.append((yield from all_to_all(rank, x, HEADS, TOKENS)))
    out, _ = rank.attend(*inputs, **options)
    return (yield from all_to_all(rank, out.astype(query.dtype), TOKENS, HEADS))


def _merge(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    return merge(a, b, double=a[1].dtype == np.float64)
