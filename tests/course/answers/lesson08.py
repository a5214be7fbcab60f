"""Answers to the exercises of lesson 08: right ones, written in other ways, and ones to refuse."""

import jax.numpy as jnp
import numpy as np
import torch

from attnlab.core.geometry import blocks
from tests.course.answers import edited


def step_by_rows(O, l, m, s, v):
    out, sums, tops = [], [], []
    for o_i, l_i, m_i, s_i in zip(O, l, m, s):
        top = max(m_i, s_i.max())
        if top == -np.inf:
            total, o = 0.0, np.zeros_like(o_i)
        else:
            p, old = np.exp(s_i - top), l_i * np.exp(m_i - top)
            total = old + p.sum()
            o = (old * o_i + p @ v) / total
        out.append(o), sums.append(total), tops.append(top)
    return np.array(out), np.array(sums), np.array(tops)


def step_by_lse(O, l, m, s, v):
    """A weighted average of the old output and the tile's own."""
    with np.errstate(all="ignore"):
        old, own = m + np.log(l), np.logaddexp.reduce(s, axis=1)
        new = np.logaddexp(old, own)
        shift = np.where(new == -np.inf, 0, new)
        O_new = np.exp(old - shift)[:, None] * O + np.exp(s - shift[:, None]) @ v
        m_new = np.maximum(m, s.max(1))
        return O_new, np.exp(shift - np.where(m_new == -np.inf, 0, m_new)) * (new > -np.inf), m_new


def step_in_torch(O, l, m, s, v):
    top = torch.maximum(m, s.amax(1))
    shift = torch.where(top == -torch.inf, 0, top)
    a, p = torch.exp(m - shift) * l, torch.exp(s - shift[:, None])
    total = a + p.sum(1)
    return (a[:, None] * O + p @ v) / torch.where(total == 0, 1, total)[:, None], total, top


def step_in_jax(O, l, m, s, v):
    """The tile's own maximum first, as in the paper."""
    def zero_if_empty(x):
        return jnp.where(x == -jnp.inf, 0, x)

    own = s.max(1)
    p = jnp.exp(s - zero_if_empty(own)[:, None])
    top = jnp.maximum(m, own)
    a, b = jnp.exp(m - zero_if_empty(top)), jnp.exp(own - zero_if_empty(top))
    total = a * l + b * p.sum(1)
    o = (a * l)[:, None] * O + b[:, None] * (p @ v)
    return o / jnp.where(total == 0, 1, total)[:, None], total, top


def step_with_a_least_factor(O, l, m, s, v):
    """The factor of the old terms never falls below e^−20."""
    top = np.maximum(m, s.max(1))
    shift = np.where(top == -np.inf, 0, top)
    old, p = np.exp(np.maximum(m - shift, -20)) * l, np.exp(s - shift[:, None])
    total = old + p.sum(1)
    return (old[:, None] * O + p @ v) / np.where(total == 0, 1, total)[:, None], total, top


def step_without_m(O, l, m, s, v):
    return step_by_rows(O, l, m, s, v)[:2]


def blocks_by_counting(D, M):
    found = []
    for tiles, rows, vectors in ((1, 2, 6), (2, 4, 3)):
        c = 0
        while True:
            r = min(c + 1, D)
            if tiles * r * (c + 1) + rows * D * (r + c + 1) + vectors * r > M:
                break
            c += 1
        found.append(c)
    return tuple(found)


def blocks_by_formula(D, M):
    """Above D linear; up to D by trial."""
    def best(tiles, rows, vectors):
        wide = (M - rows * D * D - vectors * D) // (tiles * D + rows * D)
        if wide >= D:
            return wide
        return max(c for c in range(D + 1) if tiles * c * c + 2 * rows * D * c + vectors * c <= M)

    return best(1, 2, 6), best(2, 4, 3)


def blocks_of_memory(D, M):
    """Three matrices, by feel."""
    return M // (3 * D), M // (6 * D)


def flash_as_printed(machine, q, k, v, block_q, block_k):
    return tuple(machine.fetch(x) for x in lines(machine, q, k, v, block_q, block_k))


def lines(machine, q, k, v, block_q, block_k):
    """All lines of the paper, in place."""
    n, m_keys = q.shape[0], k.shape[0]
    o = machine.full("O", (n, v.shape[1]), 0.0, q.dtype)
    l, m = machine.full("l", (n,), 0.0, q.dtype), machine.full("m", (n,), -np.inf, q.dtype)
    for j in range(-(-m_keys // block_k)):
        with machine.scope():
            cols = slice(j * block_k, min((j + 1) * block_k, m_keys))
            k_j, v_j = machine.load(k, cols), machine.load(v, cols)
            for i in range(-(-n // block_q)):
                with machine.scope():
                    rows = slice(i * block_q, min((i + 1) * block_q, n))
                    q_i, o_i, l_i, m_i = [machine.load(x, rows) for x in (q, o, l, m)]
                    p = machine.keep("S", q_i @ k_j.T)
                    p /= q.shape[1] ** 0.5
                    own = machine.keep("own", p.max(1))
                    p -= own[:, None]
                    np.exp(p, out=p)
                    top = machine.keep("top", np.maximum(m_i, own))
                    a, b = np.exp(m_i - top), np.exp(own - top)
                    total = machine.keep("total", a * l_i + b * p.sum(1))
                    o_i *= (a * l_i)[:, None]
                    o_i += b[:, None] * (p @ v_j)
                    o_i /= total[:, None]
                    machine.store(o, rows, o_i)
                    machine.store(l, rows, total)
                    machine.store(m, rows, top)
    return o, l, m


def fold(machine, q_i, k_j, v_j, o_i, l_i, m_i):
    """One visit, in place, of tiles that are on chip."""
    s = machine.keep("S", q_i @ k_j.T)
    s /= q_i.shape[1] ** 0.5
    top = machine.keep("m'", np.maximum(m_i, s.max(1)))
    s -= top[:, None]
    np.exp(s, out=s)
    m_i -= top
    l_i *= np.exp(m_i)
    o_i *= l_i[:, None]
    l_i += s.sum(1)
    o_i += s @ v_j
    o_i /= l_i[:, None]
    m_i[:] = top
    machine.free(s, top)


def new_state(machine, rows, dv):
    """(0, 0, −∞), made on chip."""
    r = rows.stop - rows.start
    return [machine.keep(*x) for x in (("O", np.zeros((r, dv))), ("l", np.zeros(r)), ("m", np.full(r, -np.inf)))]


def flash_to_and_fro(machine, q, k, v, block_q, block_k):
    """Less traffic than Algorithm 1: the first pass loads no state, and where a pass ends the next one begins."""
    n, dv = q.shape[0], v.shape[1]
    refs = [machine.empty(name, shape, q.dtype) for name, shape in (("O", (n, dv)), ("l", (n,)), ("m", (n,)))]
    order, kept, held = list(blocks(n, block_q)), None, []
    for j, cols in enumerate(blocks(k.shape[0], block_k)):
        pair = machine.load(k, cols), machine.load(v, cols)
        for rows in order:
            if rows != kept:
                for ref, tile in zip(refs, held[1:]):
                    machine.store(ref, kept, tile)
                machine.free(*held)
                held = [machine.load(q, rows)]
                held += [machine.load(x, rows) for x in refs] if j else new_state(machine, rows, dv)
                kept = rows
            fold(machine, held[0], *pair, *held[1:])
        machine.free(*pair)
        order.reverse()
    for ref, tile in zip(refs, held[1:]):
        machine.store(ref, kept, tile)
    machine.free(*held)
    return tuple(map(machine.fetch, refs))


def flash_first_block_apart(machine, q, k, v, block_q, block_k):
    """The first block of keys needs no state, so none is loaded."""
    n, dv = q.shape[0], v.shape[1]
    refs = [machine.empty(name, shape, q.dtype) for name, shape in (("O", (n, dv)), ("l", (n,)), ("m", (n,)))]
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            pair = machine.load(k, cols), machine.load(v, cols)
            for rows in blocks(n, block_q):
                with machine.scope():
                    q_i = machine.load(q, rows)
                    state = [machine.load(x, rows) for x in refs] if cols.start else new_state(machine, rows, dv)
                    fold(machine, q_i, *pair, *state)
                    for ref, tile in zip(refs, state):
                        machine.store(ref, rows, tile)
    return tuple(map(machine.fetch, refs))


def flash_with_fetched_keys(machine, q, k, v, block_q, block_k):
    """Keys and values come by fetch, which is not counted."""
    keys, values, load = machine.fetch(k), machine.fetch(v), machine.load
    fetched = {k: keys, v: values}
    machine.load = lambda ref, index: fetched[ref][index] if ref in fetched else load(ref, index)
    return flash_as_printed(machine, q, k, v, block_q, block_k)


def flash_loads_all_queries(machine, q, k, v, block_q, block_k):
    """Q stays on chip from the beginning."""
    with machine.scope():
        machine.load(q)
        results = lines(machine, q, k, v, block_q, block_k)
    return tuple(map(machine.fetch, results))


def flash_loads_twice(machine, q, k, v, block_q, block_k):
    """Right, but each block of keys is loaded again for its maximum."""
    with machine.scope():
        for j in range(0, k.shape[0], block_k):
            machine.free(machine.load(k, slice(j, j + block_k)))
    return flash_as_printed(machine, q, k, v, block_q, block_k)


def causal_by_rows(Q, K, V, Br, Bc):
    """Each query with the keys that it sees."""
    out = np.zeros((len(Q), V.shape[1]))
    for i, q in enumerate(Q):
        seen = max(i + 1 + len(K) - len(Q), 0)
        if seen:
            s = K[:seen] @ q / len(q) ** 0.5
            p = np.exp(s - s.max())
            out[i] = p @ V[:seen] / p.sum()
    return out


def causal_queries_outside(Q, K, V, Br, Bc):
    """Loops exchanged, one division a block; a large negative number starts the maximum, so no row is −∞."""
    offset, out = len(K) - len(Q), []
    for r in range(0, len(Q), Br):
        q = Q[r : r + Br]
        l, o, m = np.zeros(len(q)), np.zeros((len(q), V.shape[1])), np.full(len(q), -1e30)
        last = r + np.arange(len(q)) + offset
        for c in range(0, min(last[-1] + 1, len(K)), Bc):
            k, v = K[c : c + Bc], V[c : c + Bc]
            s = np.where(c + np.arange(len(k)) <= last[:, None], q @ k.T / q.shape[1] ** 0.5, -np.inf)
            new = np.maximum(m, s.max(1))
            p, old = np.exp(s - new[:, None]), np.exp(m - new)
            m, l, o = new, old * l + p.sum(1), old[:, None] * o + p @ v
        out.append(o / np.where(l == 0, 1, l)[:, None])
    return np.concatenate(out)


def causal_in_torch(Q, K, V, Br, Bc):
    s = Q @ K.T / Q.shape[1] ** 0.5
    n, m = s.shape
    seen = torch.arange(m) <= torch.arange(n)[:, None] + m - n
    return torch.softmax(s.masked_fill(~seen, -torch.inf), 1).nan_to_num() @ V


step_all_anew = edited(
    "tile_step", "    m_new = ",
    "    if (m == -INF).any():\n        O, l, m = fresh(len(m), v.shape[1])\n    m_new = ",
)
step_without_small = edited("tile_step", "    l_new = ", "    alpha[alpha < np.exp(-12)] = 0\n    l_new = ")
blocks_up_to_4096 = edited("largest_blocks", "M_sram + 1", "min(M_sram, 4096) + 1")
causal_zeroed = edited("causal_tiles", "    return O", "    O[: N - M] = 0\n    return O")


RIGHT = [
    ("tile_step", step_by_rows),
    ("tile_step", step_by_lse),
    ("tile_step", step_in_torch),
    ("tile_step", step_in_jax),
    ("largest_blocks", blocks_by_counting),
    ("largest_blocks", blocks_by_formula),
    ("flash_forward", flash_as_printed),
    ("flash_forward", flash_first_block_apart),
    ("flash_forward", flash_to_and_fro),
    ("causal_tiles", causal_by_rows),
    ("causal_tiles", causal_queries_outside),
    ("causal_tiles", causal_in_torch),
]


step_that_asks_whether_o_is_0 = edited(
    "tile_step", "m_new = np.maximum(m, s.max(1))",
    "m, l = np.where(O.any(1), m, -INF), np.where(O.any(1), l, 0)\n    m_new = np.maximum(m, s.max(1))",
)


causal_with_half_of_d = edited("causal_tiles", "Q.shape[1] ** 0.5", "(Q.shape[1] * 0.5)")


REFUSED = [
    ("tile_step", step_without_m, "tuple of 3"),
    ("tile_step", step_with_a_least_factor, "HIGH"),
    ("largest_blocks", blocks_of_memory, "expected 1"),
    ("flash_forward", flash_loads_all_queries, "OutOfSRAM"),
    ("flash_forward", flash_with_fetched_keys, "100 % are missing"),
    ("flash_forward", flash_loads_twice, "times the elements"),
    ("tile_step", step_all_anew, "none so far"),
    ("tile_step", step_without_small, "a million keys"),
    ("largest_blocks", blocks_up_to_4096, "tens of thousands"),
    ("causal_tiles", causal_zeroed, "4 queries, 5 keys"),
    ("tile_step", step_that_asks_whether_o_is_0, "so is O"),
    ("causal_tiles", causal_with_half_of_d, "D = 6"),
]
