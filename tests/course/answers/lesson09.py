"""Answers to the exercises of lesson 09: right ones, written in other ways, and ones to refuse."""

import math

import numpy as np

from attnlab import costs
from tests.course.answers import edited


def traffic_by_loop(N, D, Bc):
    moved, start = 0, 0
    while start < N:
        keys = min(Bc, N - start)
        moved += 2 * keys * D + N * (3 * D + 4)
        start += keys
    return moved


def traffic_by_package(N, D, Bc):
    return costs.forward("flash", N, N, D, D, block_q=1, block_k=Bc).elements


def bytes_by_package(N, D, sram_bytes, itemsize):
    found = (costs.forward(name, N, N, D, D, itemsize=itemsize, sram=sram_bytes // itemsize)
             for name in ("safe", "flash"))
    return tuple(cost.bytes for cost in found)


def bytes_by_arrays(N, D, sram_bytes, itemsize):
    block = math.ceil(sram_bytes // itemsize / (4 * D))
    passes = math.ceil(N / block)
    rows = {"Q": 1, "K": 1, "V": 1, "O": 1}, {"Q": passes, "O": 2 * passes, "K": 1, "V": 1}
    standard, flash = (N * D * sum(x.values()) for x in rows)
    return np.array([standard + 2 * 2 * N * N, flash + 4 * N * passes]) * itemsize


def bytes_without_rounding(N, D, sram_bytes, itemsize):
    block = max(sram_bytes // itemsize / (4 * D), 1)
    return itemsize * (4 * N * N + 4 * N * D), itemsize * (2 * N * D + math.ceil(N / block) * (3 * N * D + 4 * N))


def block_by_bisection(N, D, itemsize, budget):
    def spent(block):
        return itemsize * (2 * N * D + -(-N // block) * (3 * N * D + 4 * N))

    if spent(N) > budget:
        return 0
    low, high = 1, N
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if spent(middle) <= budget else (middle + 1, high)
    return low


def block_by_division(N, D, itemsize, budget):
    a_pass, once = itemsize * N * (3 * D + 4), itemsize * 2 * N * D
    if budget < once + a_pass:
        return 0
    passes, _ = divmod(budget - once, a_pass)
    block, rest = divmod(N, passes)
    return block + (rest > 0)


def block_by_search(N, D, itemsize, budget):
    for block in range(1, N + 1):
        if itemsize * (2 * N * D + -(-N // block) * (3 * N * D + 4 * N)) <= budget:
            return block
    return 0


def outer_in_place(machine, q, k, v, block_q, block_k):
    """With keep and free, tile by tile, no scopes."""
    n, dv = q.shape[0], v.shape[1]
    o, lse = machine.empty("O", (n, dv), q.dtype), machine.empty("lse", (n,), q.dtype)
    for i in range(0, n, block_q):
        rows = slice(i, min(i + block_q, n))
        q_i = machine.load(q, rows)
        q_i /= math.sqrt(q.shape[1])
        o_i = machine.keep("O", np.zeros((len(q_i), dv)))
        l_i = machine.keep("l", np.zeros((len(q_i), 1)))
        m_i = machine.keep("m", np.full((len(q_i), 1), -np.inf))
        for j in range(0, k.shape[0], block_k):
            k_j = machine.load(k, slice(j, min(j + block_k, k.shape[0])))
            p = machine.keep("S", q_i @ k_j.T)
            machine.free(k_j)
            top = np.maximum(m_i, p.max(axis=1, keepdims=True))
            p -= top
            np.exp(p, out=p)
            factor = np.exp(m_i - top)
            v_j = machine.load(v, slice(j, j + block_k))
            o_i *= factor
            o_i += p @ v_j
            l_i *= factor
            l_i += p.sum(axis=1, keepdims=True)
            m_i[:] = top
            machine.free(p, v_j)
        o_i /= l_i
        machine.store(o, rows, o_i)
        found = machine.keep("lse", (m_i + np.log(l_i))[:, 0])
        machine.store(lse, rows, found)
        machine.free(q_i, o_i, l_i, m_i, found)
    return machine.fetch(o), machine.fetch(lse)


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


def outer_by_the_host(machine, q, k, v, block_q, block_k):
    """Nothing is loaded: the host copies everything out of HBM."""
    q, k, v = (machine.fetch(x) for x in (q, k, v))
    s = q @ k.T / q.shape[1] ** 0.5
    lse = np.logaddexp.reduce(s, axis=1)
    return np.exp(s - lse[:, None]) @ v, lse


def lean_by_package(machine, q, k, v, block_q, block_k):
    from attnlab_course.instruments.machine import flash_forward

    return machine.fetch(flash_forward(machine, q, k, v, block_q=block_q, block_k=block_k)[0])


def lean_in_place(machine, q, k, v, block_q, block_k):
    """What was loaded is overwritten and stored back."""
    n, d = q.shape
    o, l = machine.full("O", (n, v.shape[1]), 0.0, q.dtype), machine.full("l", (n,), 0.0, q.dtype)
    m = machine.full("m", (n,), -np.inf, q.dtype)
    for j in range(0, k.shape[0], block_k):
        with machine.scope():
            k_j, v_j = (machine.load(x, slice(j, min(j + block_k, k.shape[0]))) for x in (k, v))
            for i in range(0, n, block_q):
                rows = slice(i, min(i + block_q, n))
                with machine.scope():
                    q_i, o_i, l_i, m_i = (machine.load(x, rows) for x in (q, o, l, m))
                    s = q_i @ k_j.T / math.sqrt(d)
                    top = np.maximum(m_i, s.max(1))
                    old = l_i * np.exp(m_i - top)
                    p = np.exp(s - top[:, None])
                    l_i[:], m_i[:] = old + p.sum(1), top
                    o_i[:] = (old[:, None] * o_i + p @ v_j) / l_i[:, None]
                    for ref, x in ((o, o_i), (l, l_i), (m, m_i)):
                        machine.store(ref, rows, x)
    return machine.fetch(o)


def lean_q_twice(machine, q, k, v, block_q, block_k):
    """Q is looked at once more before the loops."""
    with machine.scope():
        machine.load(q, slice(0, 1))
    return lean_by_package(machine, q, k, v, block_q, block_k)


def traffic_in_64_bits(N, D, Bc):
    n, d, size = np.array([N, D, Bc], np.int64)
    with np.errstate(over="ignore"):
        return int(2 * n * d + -(-n // size) * (3 * n * d + 4 * n))


def block_in_64_bits(N, D, itemsize, budget):
    n, d = np.int64(N), np.int64(D)
    passes = (np.int64(budget) // itemsize - 2 * n * d) // (3 * n * d + 4 * n)
    return int(-(-n // passes)) if passes > 0 else 0


traffic_of_1024_keys = edited("traffic", "-(-N // Bc)", "-(-N // min(Bc, 1024))")
bytes_if_it_fits = edited("bytes_moved", "4 * N * N +", "(4 * N * N if N * N + 4 * N * D > M_sram else 0) +")
outer_skips_low = edited(
    "flash_forward_q_outer", "                    m_new =",
    "                    if (s.max(1) < m_i - 5).all():\n                        continue\n                    m_new =",
)


RIGHT = [
    ("traffic", traffic_by_loop),
    ("traffic", traffic_by_package),
    ("bytes_moved", bytes_by_package),
    ("bytes_moved", bytes_by_arrays),
    ("block_for_budget", block_by_bisection),
    ("block_for_budget", block_by_division),
    ("flash_forward_q_outer", outer_in_place),
    ("flash_forward_q_outer", outer_by_lse),
    ("flash_forward_q_outer", outer_by_package),
    ("lean_forward", lean_by_package),
    ("lean_forward", lean_in_place),
]

REFUSED = [
    ("bytes_moved", bytes_without_rounding, "rounded up, to four keys"),
    ("block_for_budget", block_by_search, "stopped after"),
    ("flash_forward_q_outer", outer_by_the_host, "did not load"),
    ("lean_forward", lean_q_twice, "times the elements"),
    ("traffic", traffic_in_64_bits, "no 64-bit integer holds this traffic"),
    ("traffic", traffic_of_1024_keys, "1001 passes"),
    ("bytes_moved", bytes_if_it_fits, "all scores would fit"),
    ("block_for_budget", block_in_64_bits, "no 64-bit integer the budget"),
    ("flash_forward_q_outer", outer_skips_low, "up to 12 apart"),
]
