"""Answers to the exercises of lesson 11: right ones, written in other ways, and ones to refuse."""

import math

import numpy as np
import torch
from attnlab_course.instruments.machine import flash_forward

import attnlab
from attnlab.core.geometry import Band
from tests.course.answers import edited


def classes_by_band(n, m, block_q, block_k, window):
    """The package's geometry."""
    band, table = Band(n, m, *window), np.zeros((-(-n // block_q), -(-m // block_k)), int)
    for i in range(len(table)):
        rows = slice(i * block_q, min((i + 1) * block_q, n))
        for cols in band.key_blocks(rows, block_k):
            table[i, cols.start // block_k] = 1 + band.full(rows, cols)
    return table


def classes_in_torch(n, m, block_q, block_k, window):
    """Full plus visible."""
    left, right = (math.inf if side is None else side for side in window)
    i0, j0 = torch.arange(0, n, block_q)[:, None], torch.arange(0, m, block_k)
    i1, j1 = (i0 + block_q).clamp(max=n) - 1, (j0 + block_k).clamp(max=m) - 1
    seen = (j0 - i1 - m + n <= right) & (j1 - i0 - m + n >= -left)
    whole = (j1 - i0 - m + n <= right) & (j0 - i1 - m + n >= -left)
    return seen.int() + whole.int()


def classes_by_strips(n, m, block_q, block_k, window):
    """Right but for its memory: the positions of one row of tiles at a time."""
    left, right = (n + m if side is None else side for side in window)
    table, columns = [], np.arange(0, m, block_k)
    for first in range(0, n, block_q):
        position = np.arange(first, min(first + block_q, n))[:, None] + m - n
        strip = abs(2 * (np.arange(m) - position) + left - right) <= left + right
        seen, width = np.add.reduceat(strip.sum(0), columns), np.diff([*columns, m])
        table.append(np.where(seen == 0, 0, np.where(seen == width * len(position), 2, 1)))
    return np.array(table)


def picked_by_mask_of_copies(q, k, v, index, top):
    """All keys, those that aren't picked replaced by zeros before they are used."""
    order = sorted(range(len(k)), key=lambda j: (-index[j], j))[:top]
    picked = np.isin(np.arange(len(k)), [j for j in order if index[j] > -np.inf])
    keys, values = (np.where(picked[:, None], x, 0) for x in (k, v))
    return attnlab.safe_attention(q, keys, values, mask=np.tile(picked, (len(q), 1)))


def picked_in_torch(q, k, v, index, top):
    order = torch.argsort(index, descending=True, stable=True)[:top]
    order = order[torch.isfinite(index[order])]
    return torch.softmax(q @ k[order].T / q.shape[1] ** 0.5, -1) @ v[order]


def sparse_by_package(machine, q, k, v, block_mask, block_q, block_k):
    results = flash_forward(machine, q, k, v, block_q=block_q, block_k=block_k, block_mask=block_mask)
    return tuple(machine.fetch(x) for x in results)


def sparse_by_pairs(machine, q, k, v, block_mask, block_q, block_k):
    """One loop over the visible tiles, columns first; l and m in one array."""
    n, d = q.shape
    o = machine.full("out", (n, v.shape[1]), 0.0, float)
    stats = machine.full("stats", (2, n), 0.0, float)
    current, keys = -1, ()
    for j, i in zip(*np.nonzero(block_mask.T)):
        if j != current:
            machine.free(*keys)
            cols = slice(j * block_k, (j + 1) * block_k)
            current, keys = j, (machine.load(k, cols), machine.load(v, cols))
        rows = slice(i * block_q, (i + 1) * block_q)
        q_i, o_i, old = machine.load(q, rows), machine.load(o, rows), machine.load(stats, (slice(None), rows))
        l_i, m_i = old[0], np.where(old[0] == 0, -np.inf, old[1])
        s = machine.keep("S", q_i @ keys[0].T / np.sqrt(d))
        top = np.maximum(m_i, s.max(axis=1))
        p, weight = np.exp(s - top[:, None]), np.exp(m_i - top) * l_i
        total = weight + p.sum(axis=1)
        new = machine.keep("new", np.array([total, top]))
        o_i[:] = (weight[:, None] * o_i + p @ keys[1]) / total[:, None]
        machine.store(o, rows, o_i)
        machine.store(stats, (slice(None), rows), new)
        machine.free(q_i, o_i, old, s, new)
    machine.free(*keys)
    l, m = machine.fetch(stats)
    return machine.fetch(o), l, np.where(l == 0, -np.inf, m)


def sparse_loads_queries_early(machine, q, k, v, block_mask, block_q, block_k):
    """Right, but each block of queries is loaded once more, to look at it."""
    for i in range(0, q.shape[0], block_q):
        machine.free(machine.load(q, slice(i, i + block_q)))
    return sparse_by_package(machine, q, k, v, block_mask, block_q, block_k)


def sparse_at_once(q, k, v, block_mask, block):
    rows, cols = np.arange(len(q)) // block, np.arange(len(k)) // block
    s = np.where(block_mask[rows[:, None], cols], q @ k.T / q.shape[1] ** 0.5, -np.inf)
    p = np.exp(s - np.where(np.isinf(s.max(1)), 0, s.max(1))[:, None])
    return p @ v / np.maximum(p.sum(1, keepdims=True), 1e-300)


def sparse_rows_by_package(q, k, v, block_mask, block):
    return attnlab.tiled_attention(q, k, v, block_q=block, block_k=block, block_mask=block_mask)


RIGHT = [
    ("classify_tiles", classes_by_band),
    ("classify_tiles", classes_in_torch),
    ("picked_attention", picked_by_mask_of_copies),
    ("picked_attention", picked_in_torch),
    ("sparse_forward", sparse_by_package),
    ("sparse_forward", sparse_by_pairs),
    ("sparse_rows", sparse_at_once),
    ("sparse_rows", sparse_rows_by_package),
]

def classes_by_samples(n, m, block_q, block_k, window):
    """Four corners and the center of a tile."""
    left, right = (n + m if side is None else side for side in window)
    tiles = np.zeros((-(-n // block_q), -(-m // block_k)), int)
    for at in np.ndindex(tiles.shape):
        i0, j0 = at[0] * block_q, at[1] * block_k
        i1, j1 = min(i0 + block_q, n) - 1, min(j0 + block_k, m) - 1
        points = [(i, j) for i in (i0, i1) for j in (j0, j1)]
        seen = [-left <= j - i - m + n <= right for i, j in [*points, ((i0 + i1) // 2, (j0 + j1) // 2)]]
        tiles[at] = all(seen[:4]) + any(seen)
    return tiles


def classes_by_mask_in_torch(n, m, block_q, block_k, window):
    """Right but for its memory: the mask of all positions."""
    left, right = (n + m if side is None else side for side in window)
    distance = torch.arange(m, dtype=torch.int32) - torch.arange(n, dtype=torch.int32)[:, None] - (m - n)
    rows = ((distance >= -left) & (distance <= right)).split(block_q)
    return np.array([[int(tile.any()) + int(tile.all()) for tile in row.split(block_k, 1)] for row in rows])


classes_left_of_zero = edited(
    "classify_tiles", "(n + m if side is None else side for side in window)", "window[0] or n + m, window[1]",
    "    i0,", "    right = n + m if right is None else right\n    i0,",
)
classes_up_to_65536 = edited("classify_tiles", "n + m if", "2**16 if")
classes_of_wide_windows = edited("classify_tiles", "side is None", "side is None or side >= min(n, m)")
def picked_per_head(q, k, v, index, top):
    """Each head picks from its own scores: what the indexer is there to avoid."""
    s = np.where(index > -np.inf, q @ np.nan_to_num(k).T / q.shape[1] ** 0.5, -np.inf)
    out = np.zeros((len(q), v.shape[1]))
    for head, scores in enumerate(s):
        picked = np.argsort(-scores, kind="stable")[: min(top, (scores > -np.inf).sum())]
        p = np.exp(scores[picked] - scores.max())
        out[head] = p @ np.nan_to_num(v)[picked] / max(p.sum(), 1e-300)
    return out


picked_by_threshold = edited(
    "picked_attention", 'np.argsort(-index, kind="stable")[:top]',
    "np.flatnonzero(index >= np.sort(index)[-min(top, len(index))])",
)
rows_by_the_first = edited("sparse_rows", "m_new = ", "m_new = m if np.isfinite(m).all() else ")

REFUSED = [
    ("classify_tiles", classes_by_strips, "when n and m doubled"),
    ("picked_attention", picked_by_threshold, "equal scores"),
    ("picked_attention", picked_per_head, "the best two of four"),
    ("sparse_forward", sparse_loads_queries_early, "times the elements"),
    ("classify_tiles", classes_by_samples, "between the corners and the center"),
    ("classify_tiles", classes_by_mask_in_torch, "2 × 2 tiles"),
    ("classify_tiles", classes_left_of_zero, "window (0, 4)"),
    ("classify_tiles", classes_up_to_65536, "M = 3000000"),
    ("classify_tiles", classes_of_wide_windows, "RECT: N = 12"),
    ("sparse_rows", rows_by_the_first, "key 2 alone"),
]
