"""The definition of attention in float64: one row at a time, explicit loops, nothing shared with attnlab.

Arrays are NumPy; query (..., Hq, N, D), key (..., Hk, M, D), value (..., Hk, M, Dv), or 2-D for one head.
Options are those of every attention function: causal, window, mask, bias, scale, dropout, seed; and segments as
query_segments and key_segments.
"""

import math
from typing import NamedTuple

import numpy as np

WORD = 0xFFFFFFFF


def threefry(seed, h, i, j):
    """First word of Threefry-2x32-20 with key (seed, h) and counter (i, j), on Python integers."""
    keys = [seed, h, 0x1BD11BDA ^ seed ^ h]
    x, y = (i + keys[0]) & WORD, (j + keys[1]) & WORD
    for step in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[step % 2]:
            x = (x + y) & WORD
            y = ((y << rotation) | (y >> (32 - rotation))) & WORD
            y ^= x
        x = (x + keys[(step + 1) % 3]) & WORD
        y = (y + keys[(step + 2) % 3] + step + 1) & WORD
    return x


def kept(seed, h, i, j, p):
    """Whether dropout keeps the probability of head h, query i, key j."""
    return threefry(seed, h, i, j) >= round(p * 2**32)


class Attention(NamedTuple):
    """Result; ``size`` is the largest |score| that a row sums up, term by term, for error bounds."""

    out: np.ndarray
    lse: np.ndarray
    size: np.ndarray


class Gradients(NamedTuple):
    """Gradients of Σ out·dout + Σ lse·dlse."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    bias: np.ndarray | None


class Row(NamedTuple):
    """Query i of head h against the keys that it sees."""

    at: tuple  # index of the row in the output
    source: tuple  # index of its keys and values
    seen: list  # visible key positions
    score: np.ndarray  # of those
    size: float
    weight: np.ndarray  # softmax over those
    keep: np.ndarray  # dropout: 0 or 1 / (1 - p)


def sides(window):
    """(left, right) of a window with None for unbounded."""
    left, right = window if isinstance(window, tuple | list) else (window, window)
    return (None if left in (None, -1) else left), (None if right in (None, -1) else right)


def in_band(i, j, n, m, causal, window, offset=None):
    """Whether causal and window let query i see key j; by default the last query is aligned with the last key."""
    position = i + (m - n if offset is None else offset)
    left, right = sides(window)
    if causal and j > position:
        return False
    if left is not None and j < position - left:
        return False
    return right is None or j <= position + right


def element(x, index):
    """x[index] where x broadcasts to something of which index is a full index: (position, value)."""
    index = index[len(index) - x.ndim :]
    position = tuple(0 if size == 1 else k for k, size in zip(index, x.shape))
    return position, x[position]


def visible(at, j, n, m, options):
    """Whether every given rule lets the row ``at`` see key j."""
    if not in_band(at[-1], j, n, m, options.get("causal", False), options.get("window"), options.get("offset")):
        return False
    mask, bias = options.get("mask"), options.get("bias")
    if mask is not None and not element(mask, (*at, j))[1]:
        return False
    if options.get("query_segments") is not None:
        ours, theirs = (options[name] for name in ("query_segments", "key_segments"))
        if element(ours, (*at[:-2], at[-1]))[1] != element(theirs, (*at[:-2], j))[1]:
            return False
    return bias is None or element(bias, (*at, j))[1] != -np.inf


def rows(query, key, value, options):
    """Every row of the call, in order."""
    query, key = np.asarray(query, np.float64), np.asarray(key, np.float64)
    *heads, n, d = query.shape
    m = key.shape[-2]
    scale = options.get("scale")
    scale = 1 / math.sqrt(max(d, 1)) if scale is None else scale
    group = heads[-1] // key.shape[-3] if heads and key.shape[-3] else 1
    for flat, head in enumerate(np.ndindex(*heads)):
        source = (*head[:-1], head[-1] // group) if heads else ()
        for i in range(n):
            at = (*head, i)
            seen = [j for j in range(m) if visible(at, j, n, m, options)]
            score, size = row_scores(query[at], key[source], seen, at, scale, options.get("bias"))
            keep = row_dropout(flat, i, seen, options)
            yield Row(at, source, seen, score, size, softmax(score), keep)


def row_scores(q, keys, seen, at, scale, bias):
    """Scores of one row, and the largest sum of absolute terms in one."""
    score, size = np.zeros(len(seen)), 0.0
    for k, j in enumerate(seen):
        shift = 0.0 if bias is None else float(element(bias, (*at, j))[1])
        score[k] = scale * float(np.sum(q * keys[j])) + shift
        size = max(size, abs(scale) * float(np.sum(np.abs(q * keys[j]))) + abs(shift))
    return score, size


def row_dropout(h, i, seen, options):
    """Factor of each probability of one row: 0 where dropped, 1 / (1 - p) where kept."""
    p = options.get("dropout", 0.0)
    if p in (0, 1):
        return np.full(len(seen), 1.0 - p)
    return np.array([kept(options["seed"], h, i, j, p) / (1 - p) for j in seen], float)


def softmax(score):
    """Over the visible keys of a row; 0 where no score is above −∞."""
    if not len(score) or score.max() == -np.inf:
        return np.zeros(len(score))
    e = np.exp(score - score.max())
    return e / e.sum()


def log_sum_exp(score):
    """log Σ e^score, −∞ for an empty row."""
    if not len(score) or score.max() == -np.inf:
        return -np.inf
    return score.max() + math.log(np.exp(score - score.max()).sum())


def attention(query, key, value, **options):
    """out, lse and the size of the scores."""
    value = np.asarray(value, np.float64)
    out = np.zeros((*query.shape[:-1], value.shape[-1]))
    lse, size = np.full(query.shape[:-1], -np.inf), np.zeros(query.shape[:-1])
    for row in rows(query, key, value, options):
        for w, keep, j in zip(row.weight, row.keep, row.seen):
            out[row.at] += w * keep * value[row.source][j] if keep else 0
        lse[row.at], size[row.at] = log_sum_exp(row.score), row.size
    return Attention(out, lse, size)


def gradients(query, key, value, dout, dlse=None, **options):
    """dq, dk, dv and dbias by the chain rule, a row at a time."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    scale = options.get("scale")
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    dq, dk, dv = np.zeros(query.shape), np.zeros(key.shape), np.zeros(value.shape)
    bias = options.get("bias")
    dbias = None if bias is None else np.zeros(bias.shape)
    for row in rows(query, key, value, options):
        if not row.seen:
            continue
        k, v = key[row.source][row.seen], value[row.source][row.seen]
        dp = row.keep * (v @ dout[row.at])
        ds = row.weight * (dp - row.weight @ dp) + (0 if dlse is None else dlse[row.at] * row.weight)
        dq[row.at] += scale * ds @ k
        for c, j in enumerate(row.seen):
            dk[row.source][j] += scale * ds[c] * query[row.at]
            dv[row.source][j] += row.weight[c] * row.keep[c] * dout[row.at]
            if dbias is not None:
                dbias[element(bias, (*row.at, j))[0]] += ds[c]
    return Gradients(dq, dk, dv, dbias)
