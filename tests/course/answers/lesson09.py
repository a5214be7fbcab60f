"""Answers to the exercises of lesson 09: right ones, written in other ways, and ones to refuse."""

import math

import numpy as np

from attnlab import costs
from attnlab.core.geometry import blocks
from tests.course.answers import edited


def causal_by_package(N, M, D, Br, Bc):
    return costs.forward("flash2", N, M, D, D, block_q=Br, block_k=Bc, causal=True).elements


def causal_by_tiles(N, M, D, Br, Bc):
    """A tile is loaded if its last query sees its first key."""
    moved = N * D + N * (D + 1)
    for rows in blocks(N, Br):
        for cols in blocks(M, Bc):
            if cols.start <= rows.stop - 1 + M - N:
                moved += 2 * D * (cols.stop - cols.start)
    return moved


def causal_by_numbers(N, M, D, Br, Bc):
    """Tiles are skipped by the numbers of their blocks."""
    tiles = [cols.stop - cols.start for i in range(-(-N // Br)) for j, cols in enumerate(blocks(M, Bc)) if j <= i]
    return N * (2 * D + 1) + 2 * D * sum(tiles)


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


def flash_by_visits(machine, q, k, v, block_q, block_k):
    """A list of all visits; what the one before has is there, and what the next one needs stays."""
    n, rows, nothing = q.shape[0], list(blocks(q.shape[0], block_q)), (None, None)
    starts = ("O", (n, v.shape[1]), 0.0), ("l", (n,), 0.0), ("m", (n,), -np.inf)
    refs = [machine.full(*start, q.dtype) for start in starts]
    visits = [(cols, at) for j, cols in enumerate(blocks(k.shape[0], block_k)) for at in rows[:: (-1) ** j]]
    for before, (cols, at), after in zip([nothing, *visits], visits, [*visits[1:], nothing]):
        if before[0] != cols:
            pair = machine.load(k, cols), machine.load(v, cols)
        if before[1] != at:
            q_i, *state = (machine.load(x, at) for x in (q, *refs))
        fold(machine, q_i, *pair, *state)
        if after[1] != at:
            for ref, tile in zip(refs, state):
                machine.store(ref, at, tile)
            machine.free(q_i, *state)
        if after[0] != cols:
            machine.free(*pair)
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


def block_in_64_bits(N, D, itemsize, budget):
    n, d = np.int64(N), np.int64(D)
    passes = (np.int64(budget) // itemsize - 2 * n * d) // (3 * n * d + 4 * n)
    return int(-(-n // passes)) if passes > 0 else 0


bytes_if_it_fits = edited("bytes_moved", "4 * N * N +", "(4 * N * N if N * N + 4 * N * D > M_sram else 0) +")


RIGHT = [
    ("causal_traffic", causal_by_package),
    ("causal_traffic", causal_by_tiles),
    ("flash_forward", flash_to_and_fro),
    ("flash_forward", flash_by_visits),
    ("bytes_moved", bytes_by_package),
    ("bytes_moved", bytes_by_arrays),
    ("block_for_budget", block_by_bisection),
    ("block_for_budget", block_by_division),
    ("lean_forward", lean_by_package),
    ("lean_forward", lean_in_place),
]

REFUSED = [
    ("causal_traffic", causal_by_numbers, "tiles of 2 × 1"),
    ("flash_forward", flash_as_printed, "That's Algorithm 1"),
    ("flash_forward", flash_loads_all_queries, "OutOfSRAM"),
    ("flash_forward", flash_with_fetched_keys, "100 % are missing"),
    ("flash_forward", flash_loads_twice, "times the elements"),
    ("bytes_moved", bytes_without_rounding, "rounded up, to four keys"),
    ("block_for_budget", block_by_search, "stopped after"),
    ("lean_forward", lean_q_twice, "times the elements"),
    ("bytes_moved", bytes_if_it_fits, "all scores would fit"),
    ("block_for_budget", block_in_64_bits, "no 64-bit integer the budget"),
]
