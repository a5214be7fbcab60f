"""Answers to the exercises of lesson 17: right ones, written in other ways, and ones to refuse."""

import itertools

import numpy as np
import torch

from attnlab.linear import delta_attention
from tests.course.answers import edited


def numbers_by_search(features, d, dv, state_itemsize, cache_itemsize):
    """The length, token by token."""
    state = state_itemsize * (features * dv + features)
    return state, next(n for n in itertools.count(1) if n * (d + dv) * cache_itemsize > state)


def numbers_in_numpy(features, d, dv, state_itemsize, cache_itemsize):
    state = np.empty((features, dv + 1), f"V{state_itemsize}").nbytes
    return np.array([state, np.floor_divide(state, (d + dv) * cache_itemsize) + 1])


def recurrent_in_place(tokens, U, Z):
    U, Z = U.copy(), Z.copy()
    for fq, fk, v in tokens:
        for f in range(len(Z)):
            U[f] += fk[f] * v
            Z[f] += fk[f]
        weights = float(np.dot(fq, Z))
    return fq @ U / weights if weights else np.zeros(U.shape[1]), U, Z


def recurrent_in_torch(tokens, U, Z):
    for fq, fk, v in tokens:
        U, Z = torch.addr(U, fk, v), Z + fk
        below = fq @ Z
    return torch.where(below == 0, 0, fq @ U / below), U, Z


def chunked_by_package(fq, fk, v, C, keep):
    """A constant gate, and Z as the last column of U."""
    gates = torch.full((1, len(v)), keep, dtype=v.dtype).log()
    w = torch.nn.functional.pad(v, (0, 1), value=1)
    sums = delta_attention(fq[None], fk[None], w[None], log_decay=gates, erase=False, chunk_size=C)[0]
    empty = sums[:, -1:] == 0
    return sums[:, :-1].where(~empty, 0) / sums[:, -1:].where(~empty, 1)


def chunked_with_growing_keys(fq, fk, v, C, keep):
    """The state as of the next chunk's first token, and keep^(i − j) as a product within the chunk."""
    state, rows = torch.zeros(fk.shape[1], v.shape[1] + 1, dtype=v.dtype), []
    for q, k, x in zip(*(y.split(C) for y in (fq, fk, v))):
        x = torch.nn.functional.pad(x, (0, 1), value=1)
        faded = keep ** torch.arange(len(q), dtype=v.dtype)[:, None]
        q, k = q * faded, k / faded
        sums = q @ state + (q @ k.mT).tril() @ x
        empty = sums[:, -1:] == 0
        rows.append(sums[:, :-1].where(~empty, 0) / sums[:, -1:].where(~empty, 1))
        state = (state + k.mT @ x) * keep ** len(q)
    return torch.cat(rows)


def fixed_by_shift(fq, fk, v, C):
    n = len(v) // C
    w = np.column_stack([v, np.ones(len(v))])
    q, k, x = (y.reshape(n, C, -1) for y in (fq, fk, w))
    own = np.einsum("ncf,ncd->nfd", k, x)
    before = np.concatenate([np.zeros_like(own[:1]), np.cumsum(own[:-1], 0)])
    sums = np.einsum("ncf,nfd->ncd", q, before) + np.tril(np.einsum("ncf,nef->nce", q, k)) @ x
    return (sums[..., :-1] / sums[..., -1:]).reshape(v.shape)


def fixed_by_later_half(fq, fk, v, C):
    """The inclusive state less the keys of the chunk that come after the query."""
    w = np.column_stack([v, np.ones(len(v))])
    q, k, x = (y.reshape(len(v) // C, C, -1) for y in (fq, fk, w))
    after = np.triu(q @ k.swapaxes(1, 2), 1)
    sums = q @ np.cumsum(k.swapaxes(1, 2) @ x, 0) - after @ x
    return (sums[..., :-1] / sums[..., -1:]).reshape(v.shape)


def chunked_by_all_states(fq, fk, v, C, keep):
    """In chunks, after the states before all of them have been computed."""
    out, states = [], [(fk.new_zeros(fk.shape[1], v.shape[1]), fk.new_zeros(fk.shape[1]))]
    for k, w in zip(fk.split(C), v.split(C)):
        old, (U, Z) = keep ** torch.arange(len(k), 0, -1).to(k)[:, None] * k, states[-1]
        states.append((keep ** len(k) * U + old.T @ w, keep ** len(k) * Z + old.sum(0)))  # as of the next chunk's first
    for q, k, w, (U, Z) in zip(fq.split(C), fk.split(C), v.split(C), states):
        t = torch.arange(len(q)).to(q)[:, None]
        a = q @ k.T * (keep ** (t - t.T)).tril()
        q = q * keep**t
        below = (q @ Z + a.sum(1))[:, None]
        out.append(torch.where(below == 0, 0, (q @ U + a @ w) / torch.where(below == 0, 1, below)))
    return torch.cat(out)


def chunk_by_search(n, F, Dv, rate, start, memory):
    """All chunks that fit."""
    C = np.arange(1, n + 1)
    seconds = 2 * C * (F + Dv) / rate + start / C
    return C[np.where(C * (C + 2 * F) + F * (Dv + 1) <= memory, seconds, np.inf).argmin()]


def chunk_by_powers_of_two(n, F, Dv, rate, start, memory):
    """The best power of two."""
    sizes = [2**p for p in range(n.bit_length()) if 4**p + 2 * 2**p * F + F * (Dv + 1) <= memory]
    return min(sizes, key=lambda C: 2 * C * (F + Dv) / rate + start / C)


def chunk_beside_the_root(n, F, Dv, rate, start, memory):
    """Both neighbors of the root, and the largest that fits."""
    root, most = int((start * rate / 2 / (F + Dv)) ** 0.5), n
    while most * most + 2 * most * F + F * (Dv + 1) > memory:
        most -= 1
    near = {min(max(root + step, 1), most) for step in (0, 1)}
    return min(near, key=lambda C: 2 * C * (F + Dv) / rate + start / C)


RIGHT = [
    ("chunk_for", chunk_beside_the_root),
    ("chunk_for", chunk_by_search),
    ("state_and_break_even", numbers_by_search),
    ("state_and_break_even", numbers_in_numpy),
    ("linear_recurrent", recurrent_in_place),
    ("linear_recurrent", recurrent_in_torch),
    ("linear_chunked", chunked_by_package),
    ("linear_chunked", chunked_with_growing_keys),
    ("fixed_parallel", fixed_by_shift),
    ("fixed_parallel", fixed_by_later_half),
]

recurrent_with_a_small_number = edited("linear_recurrent", "total if total > 0 else 0 * v", "(total + 1e-6)")
break_even_by_whole_ratio = edited(
    "state_and_break_even", "state // ((d + dv) * cache_itemsize) + 1",
    "features * (dv + 1) * (state_itemsize // cache_itemsize) // (d + dv) + 1",
)


def recurrent_with(guarded):
    """The recurrence with another idea of when the output is 0."""

    def linear_recurrent(tokens, U, Z):
        seen = []
        for q, k, v in tokens:
            U, Z = U + np.outer(k, v), Z + k
            seen.append(q @ Z)
        with np.errstate(all="ignore"):
            return np.zeros(U.shape[1]) if guarded(q, seen) else q @ U / seen[-1], U, Z

    return linear_recurrent


recurrent_nearly_empty = recurrent_with(lambda q, seen: np.isclose(seen[-1], 0))
recurrent_without_features = recurrent_with(lambda q, seen: not q.any())
recurrent_once_empty = recurrent_with(lambda q, seen: 0 in seen)


def chunked_with(empty):
    """In chunks, with another idea of which rows are empty."""

    def linear_chunked(fq, fk, v, C, keep):
        U, Z, out = fk.new_zeros(fk.shape[1], v.shape[1]), fk.new_zeros(fk.shape[1]), []
        for q, k, x in zip(fq.split(C), fk.split(C), v.split(C)):
            faded = keep ** torch.arange(len(q)).to(q)[:, None]
            q, k = q * faded, k / faded
            a = (q @ k.T).tril()
            above, below = q @ U + a @ x, (q @ Z + a.sum(1))[:, None]
            none = empty(a, above, below)
            out.append(torch.where(none, 0, above / torch.where(none, 1, below)))
            U, Z = keep ** len(q) * (U + k.T @ x), keep ** len(q) * (Z + k.sum(0))
        return torch.cat(out)

    return linear_chunked


chunked_empty_by_values = chunked_with(lambda a, above, below: (above == 0).all(1, keepdim=True))
chunked_nearly_empty = chunked_with(lambda a, above, below: below.abs() < 1e-12)
chunked_empty_by_chunk = chunked_with(lambda a, above, below: a.sum(1, keepdim=True) == 0)


REFUSED = [
    ("chunk_for", chunk_by_powers_of_two, "and they fit"),
    ("state_and_break_even", break_even_by_whole_ratio, "2 bytes in the state"),
    ("linear_recurrent", recurrent_nearly_empty, "10⁻⁸"),
    ("linear_recurrent", recurrent_without_features, "shares none"),
    ("linear_recurrent", recurrent_once_empty, "the last one has"),
    ("linear_chunked", chunked_empty_by_values, "add up to 0"),
    ("linear_chunked", chunked_nearly_empty, "10⁻⁸"),
    ("linear_chunked", chunked_empty_by_chunk, "chunk before"),
    ("linear_recurrent", recurrent_with_a_small_number, "features below 0.0002"),
    ("linear_chunked", chunked_by_all_states, "more states than one"),
]
