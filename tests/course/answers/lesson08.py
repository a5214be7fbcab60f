"""Answers to the exercises of lesson 08: right ones, written in other ways, and ones to refuse."""


import jax.numpy as jnp
import numpy as np
import torch

from tests.course.answers import edited


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


def step_without_m(O, l, m, s, v):
    return step_by_lse(O, l, m, s, v)[:2]


def blocks_by_counting(D, M):
    found = []
    for queries_stay in (True, False):
        b = 0
        while True:
            rows = min(b + 1, D)
            vectors = 3 * (b + 1) if queries_stay else 6 * rows
            if (b + 1) * rows + 2 * D * (b + 1 + rows) + vectors > M:
                break
            b += 1
        found.append(b)
    return tuple(found)


def blocks_by_formula(D, M):
    """Above D linear; up to D by trial."""
    def best(stay, rows):
        wide = (M - 2 * D * D - rows * D) // (D + 2 * D + stay)
        if wide >= D:
            return wide
        return max(b for b in range(D + 1) if b * b + 4 * D * b + (stay + rows) * b <= M)

    return best(3, 0), best(0, 6)


def blocks_of_memory(D, M):
    """Three matrices, by feel."""
    return M // (3 * D), M // (3 * D)


def outer_by_lse(machine, q, k, v, block_q, block_k):
    """(O, lse) folded by merging, always normalized."""
    n, dv = q.shape[0], v.shape[1]
    o, lse = machine.empty("O", (n, dv), q.dtype), machine.empty("lse", (n,), q.dtype)
    for i in range(0, n, block_q):
        rows = slice(i, i + block_q)
        with machine.scope():
            q_i = machine.load(q, rows)
            out, total = np.zeros((len(q_i), dv)), np.full(len(q_i), -np.inf)
            for j in range(0, k.shape[0], block_k):
                with machine.scope():
                    k_j, v_j = (machine.load(x, slice(j, j + block_k)) for x in (k, v))
                    s = machine.keep("S", q_i @ k_j.T / q.shape[1] ** 0.5)
                    own = np.logaddexp.reduce(np.asarray(s), axis=1)
                    both = np.logaddexp(total, own)
                    out = np.exp(total - both)[:, None] * out + np.exp(s - both[:, None]) @ v_j
                    total = both
            machine.store(o, rows, machine.keep("O", np.asarray(out)))
            machine.store(lse, rows, machine.keep("lse", total))
    return machine.fetch(o), machine.fetch(lse)


def outer_by_package(machine, q, k, v, block_q, block_k):
    from attnlab_course.instruments.machine import flash2_forward

    return tuple(machine.fetch(x) for x in flash2_forward(machine, q, k, v, block_q=block_q, block_k=block_k))


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
step_with_a_least_factor = edited(  # of the old terms
    "tile_step", "np.exp(m - zero_if_empty(m_new))", "np.exp(np.maximum(m - zero_if_empty(m_new), -20))",
)
step_with_epsilon = edited("tile_step", "one_if_empty(l_new)", "(l_new + 1e-6)")
step_without_small = edited("tile_step", "    l_new = ", "    alpha[alpha < np.exp(-12)] = 0\n    l_new = ")
blocks_up_to_4096 = edited("largest_blocks", "M_sram + 1", "min(M_sram, 4096) + 1")
outer_skips_low = edited(
    "flash_forward_q_outer", "                    m_new =",
    "                    if (s.max(1) < m_i - 5).all():\n                        continue\n                    m_new =",
)
causal_zeroed = edited("causal_tiles", "    return O", "    O[: N - M] = 0\n    return O")


RIGHT = [
    ("flash_forward_q_outer", outer_by_lse),
    ("flash_forward_q_outer", outer_by_package),
    ("tile_step", step_by_lse),
    ("tile_step", step_in_torch),
    ("tile_step", step_in_jax),
    ("largest_blocks", blocks_by_counting),
    ("largest_blocks", blocks_by_formula),
    ("causal_tiles", causal_queries_outside),
    ("causal_tiles", causal_in_torch),
]


step_that_asks_whether_o_is_0 = edited(
    "tile_step", "m_new = np.maximum(m, s.max(1))",
    "m, l = np.where(O.any(1), m, -INF), np.where(O.any(1), l, 0)\n    m_new = np.maximum(m, s.max(1))",
)


causal_with_half_of_d = edited("causal_tiles", "Q.shape[1] ** 0.5", "(Q.shape[1] * 0.5)")


REFUSED = [
    ("flash_forward_q_outer", outer_skips_low, "up to 12 apart"),
    ("tile_step", step_without_m, "tuple of 3"),
    ("tile_step", step_with_epsilon, "You add a small number to the sum"),
    ("tile_step", step_with_a_least_factor, "HIGH"),
    ("largest_blocks", blocks_of_memory, "expected 1"),
    ("tile_step", step_all_anew, "none so far"),
    ("tile_step", step_without_small, "a million keys"),
    ("largest_blocks", blocks_up_to_4096, "tens of thousands"),
    ("causal_tiles", causal_zeroed, "4 queries, 5 keys"),
    ("tile_step", step_that_asks_whether_o_is_0, "so is O"),
    ("causal_tiles", causal_with_half_of_d, "D = 6"),
]
