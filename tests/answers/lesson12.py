"""Answers to the exercises of lesson 12: right ones, written in other ways, and ones to refuse."""

import math

import jax.numpy as jnp
import numpy as np
import torch


def load_by_loops(memory, base, strides, start, block, length, width):
    tile = np.zeros((block, width))
    for r in range(block):
        for c in range(width):
            if start + r < length:
                tile[r, c] = memory[base + (start + r) * strides[0] + c * strides[1]]
    return tile


def load_by_view(memory, base, strides, start, block, length, width):
    """The rows that there are through a strided view, zeros below."""
    rows = max(0, min(block, length - start))
    first = memory[base + start * strides[0] :] if rows else memory[:0]
    steps = [step * memory.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(first, (rows, width), steps)
    return np.pad(view, ((0, block - rows), (0, 0)))


def load_in_torch(memory, base, strides, start, block, length, width):
    rows = torch.arange(start, start + block)[:, None]
    offsets = base + rows * strides[0] + torch.arange(width) * strides[1]
    found = torch.take(memory, torch.where(rows < length, offsets, 0))
    return torch.where(rows < length, found, 0.0)


def load_in_jax(memory, base, strides, start, block, length, width):
    rows = start + jnp.arange(block)[:, None]
    offsets = base + rows * strides[0] + jnp.arange(width) * strides[1]
    return memory.at[jnp.where(rows < length, offsets, memory.size)].get(mode="fill", fill_value=0.0)


def load_transposed(memory, base, strides, start, block, length, width):
    return load_by_loops(memory, base, strides, start, block, length, width).T


def load_fills_with_ones(memory, base, strides, start, block, length, width):
    tile = load_by_loops(memory, base, strides, start, block, length, width)
    tile[max(length - start, 0) :] = 1.0
    return tile


def waves_by_counting(batch, heads, n, block_q, sms):
    programs = sum(1 for _ in range(batch * heads) for _ in range(0, n, block_q))
    slots = 0
    while slots < programs:
        slots += sms
    return programs, slots // sms, slots - programs


def waves_by_ceil(batch, heads, n, block_q, sms):
    programs = batch * heads * math.ceil(n / block_q)
    return [programs, (programs + sms - 1) // sms, -programs % sms]


def waves_in_floats(batch, heads, n, block_q, sms):
    programs = batch * heads * math.ceil(n / block_q)
    waves = np.ceil(programs / sms)
    return programs, waves, waves * sms - programs


def waves_without_idle(batch, heads, n, block_q, sms):
    return waves_by_counting(batch, heads, n, block_q, sms)[:2]


def exp2_whole_rows(s, v, block):
    """No fold at all: one block of all keys, weights by dividing by 2^m."""
    t = s / np.log(2)
    m = t.max(1, initial=-1e300)
    p = np.exp2(t - m[:, None])
    l = p.sum(1)
    lse = np.where(l > 0, m + np.log2(np.where(l > 0, l, 1)), -np.inf)
    return p @ v / np.where(l > 0, l, 1)[:, None], lse * np.log(2)


def exp2_by_lse(s, v, block):
    """Each block is attention of its own; two are joined by their lse, in base two. Divides by sums of its own."""
    out, total = np.zeros((len(s), v.shape[1])), np.full(len(s), -np.inf)
    for first in range(0, s.shape[1], block):
        t = s[:, first : first + block] * np.log2(np.e)
        new = np.logaddexp2(total, np.logaddexp2.reduce(t, axis=1))
        shift = np.where(new == -np.inf, 0, new)
        out = np.exp2(total - shift)[:, None] * out + np.exp2(t - shift[:, None]) @ v[first : first + block]
        total = new
    return out, total * np.log(2)


def exp2_in_torch(s, v, block):
    m, l, o = torch.full(s.shape[:1], -torch.inf, dtype=s.dtype), torch.zeros(len(s), dtype=s.dtype), 0.0
    for t, values in zip((s * math.log2(math.e)).split(block, 1), v.split(block)):
        new = torch.maximum(m, t.amax(1))
        shift = torch.where(new == -torch.inf, 0.0, new)
        a, p = torch.exp2(m - shift), torch.exp2(t - shift[:, None])
        m, l, o = new, a * l + p.sum(1), a[:, None] * o + p @ values
    l = torch.where(l == 0, 1.0, l)
    return o / l[:, None], (m + torch.log2(l)) * math.log(2)


def exp2_in_jax(s, v, block):
    t = s * jnp.log2(jnp.e)
    m = t.max(1)
    p = jnp.exp2(t - jnp.where(m == -jnp.inf, 0, m)[:, None])
    l = jnp.where(m == -jnp.inf, 1, p.sum(1))
    return p @ v / l[:, None], (m + jnp.log2(l)) * jnp.log(2)


def exp2_output_only(s, v, block):
    return exp2_whole_rows(s, v, block)[0]


def exp2_empty_row_is_mean(s, v, block):
    """A row that sees nothing becomes the mean of the values."""
    return exp2_whole_rows(np.where((s == -np.inf).all(1)[:, None], -1e30, s), v, block)


def exp2_divides_weights(s, v, block):
    """Right values; the weights are divided, not the output."""
    t = s * np.log2(np.e)
    m = t.max(1)
    p = np.exp2(t - np.where(m == -np.inf, 0, m)[:, None])
    l = np.where(m == -np.inf, 1, p.sum(1))
    return (p / l[:, None]) @ v, (m + np.log2(l)) * np.log(2)


def program_by_rows(memory, pid, q, k, v, o, shape, block_q, block_k, causal):
    """Slices of the rows and keys that there are, in place of masks; one block's scores kept for each tile."""
    heads, n, m, d = shape
    blocks = math.ceil(n / block_q)
    head, first = pid // blocks, pid % blocks * block_q
    rows, cols = np.arange(first, min(first + block_q, n)), np.arange(d)
    queries = memory.load(q + (head * n + rows)[:, None] * d + cols)
    end = min(m, max(0, int(rows[-1]) + m - n + 1)) if causal else m
    top, total, out = np.full(len(rows), -np.inf), np.zeros(len(rows)), np.zeros((len(rows), d))
    for key in range(0, end, block_k):
        keys = np.arange(key, min(key + block_k, m))
        offsets = (head * m + keys)[:, None] * d + cols
        s = queries @ memory.load(k + offsets).T / math.sqrt(d)
        if causal:
            s[keys > rows[:, None] + m - n] = -np.inf
        new = np.maximum(top, s.max(1))
        base = np.where(np.isinf(new), 0, new)
        p = np.exp(s - base[:, None])
        out *= np.exp(top - base)[:, None]
        total *= np.exp(top - base)
        out += p @ memory.load(v + offsets)
        total += p.sum(1)
        top = new
    memory.store(o + (head * n + rows)[:, None] * d + cols, out / np.maximum(total, 1e-300)[:, None])
    return memory.fetch(o, (heads, n, d))


def program_by_lse(memory, pid, q, k, v, o, shape, block_q, block_k, causal):
    """All scores of the visible keys first, then the weights by lse; rows stored one at a time."""
    heads, n, m, d = shape
    head, block = divmod(pid, -(-n // block_q))
    rows, cols = range(block * block_q, min((block + 1) * block_q, n)), np.arange(d)
    end = max(min(rows[-1] + m - n + 1, m), 0) if causal else m
    keys = np.arange(end)
    offsets = head * m * d + keys[:, None] * d + cols
    key, value = memory.load(k + offsets), memory.load(v + offsets)
    for i in rows:
        own = head * n * d + i * d + cols
        s = key @ memory.load(q + own) * d**-0.5
        s = np.where(keys <= i + m - n, s, -np.inf) if causal else s
        lse = np.logaddexp.reduce(s, initial=-np.inf)
        memory.store(o + own, np.exp(s - lse) @ value if np.isfinite(lse) else 0.0)
    return memory.fetch(o, (heads, n, d))


def program_returns_its_tile(memory, pid, *rest):
    result = program_by_rows(memory, pid, *rest)
    return result[0]


def program_stores_twice(memory, pid, q, k, v, o, shape, *rest):
    """Right, but clears its rows first."""
    _, n, _, d = shape
    block_q = rest[0]
    head, block = divmod(pid, -(-n // block_q))
    rows = np.arange(block * block_q, min((block + 1) * block_q, n))
    memory.store(o + (head * n + rows)[:, None] * d + np.arange(d), 0.0)
    return program_by_rows(memory, pid, q, k, v, o, shape, *rest)


def program_runs_the_grid(memory, pid, q, k, v, o, shape, block_q, *rest):
    """Computes all programs' rows."""
    for other in range(shape[0] * -(-shape[1] // block_q)):
        result = program_by_rows(memory, other, q, k, v, o, shape, block_q, *rest)
    return result


def grid_by_rows(memory, pid, q, k, v, o, shape, block):
    return program_by_rows(memory, pid, q, k, v, o, shape, block, block, False)


def grid_at_once(memory, pid, q, k, v, o, shape, block):
    """All keys of the head at once."""
    heads, n, m, d = shape
    head, i = divmod(pid, math.ceil(n / block))
    rows, keys, cols = np.arange(i * block, min((i + 1) * block, n)), np.arange(m), np.arange(d)
    own, theirs = ((head * length + at)[:, None] * d + cols for length, at in ((n, rows), (m, keys)))
    s = memory.load(q + own) @ memory.load(k + theirs).T / math.sqrt(d)
    memory.store(o + own, np.exp(s - np.logaddexp.reduce(s, axis=1)[:, None]) @ memory.load(v + theirs))
    return memory.fetch(o, (heads, n, d))


def grid_returns_a_tile(memory, pid, *rest):
    return grid_at_once(memory, pid, *rest)[0]


RIGHT = [
    ("tile_load", load_by_loops),
    ("tile_load", load_by_view),
    ("tile_load", load_in_torch),
    ("tile_load", load_in_jax),
    ("grid_waves", waves_by_counting),
    ("grid_waves", waves_by_ceil),
    ("fold_exp2", exp2_whole_rows),
    ("fold_exp2", exp2_by_lse),
    ("fold_exp2", exp2_in_torch),
    ("fold_exp2", exp2_in_jax),
    ("fold_program", program_by_rows),
    ("fold_program", program_by_lse),
    ("grid_program", grid_by_rows),
    ("grid_program", grid_at_once),
]

REFUSED = [
    ("tile_load", load_transposed, "expected shape"),
    ("tile_load", load_fills_with_ones, "RAGGED"),
    ("grid_waves", waves_in_floats, "expected dtype int64"),
    ("grid_waves", waves_without_idle, "tuple of 3"),
    ("fold_exp2", exp2_output_only, "tuple of 2"),
    ("fold_exp2", exp2_empty_row_is_mean, "EMPTY"),
    ("fold_exp2", exp2_divides_weights, "4.0 times for each number"),
    ("fold_program", program_returns_its_tile, "expected shape"),
    ("fold_program", program_stores_twice, "2.00 times the numbers of the output"),
    ("fold_program", program_runs_the_grid, "program 0 of 2"),
    ("grid_program", grid_returns_a_tile, "expected shape"),
]
