"""Answers that are nearly right and must not pass: each once did."""

import functools
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from attnlab_course import check
from attnlab_course.checker.again import redrawn
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Exercise, but
from torch.utils.checkpoint import checkpoint

from attnlab.core.dropout.numpy import threefry
from attnlab.core.geometry import blocks


def loss_unchecked(query, key, value):
    """In JAX, in chunks of queries, and autodiff keeps every tile."""

    def rows(q):
        return (jax.nn.softmax(q @ key.T / q.shape[-1] ** 0.5) @ value).sum()

    return sum(rows(query[i : i + 32]) for i in range(0, len(query), 32))


def loss_of_chunks_of_keys(query, key, value):
    """Each chunk of keys is recomputed, and all their weights are alive when it is."""

    @jax.checkpoint
    def whole(query):
        tiles = [query @ key[j : j + 32].T / query.shape[-1] ** 0.5 for j in range(0, len(key), 32)]
        m = functools.reduce(jnp.maximum, [jax.lax.stop_gradient(s).max(1) for s in tiles])
        p = [jnp.exp(s - m[:, None]) for s in tiles]
        o = sum(p @ value[32 * j : 32 * j + 32] for j, p in enumerate(p))
        return (o / sum(p.sum(1) for p in p)[:, None]).sum()

    return whole(query)


def loss_with(top):
    """In PyTorch, in checkpointed chunks of queries, with the shift that ``top`` makes of the scores."""

    def chunked_loss(query, key, value):
        def rows(q, key, value):
            s = q @ key.T / q.shape[-1] ** 0.5
            p = torch.exp(s - top(s.detach()))
            return (p @ value / p.sum(-1, keepdim=True)).sum()

        parts = query.split(32)
        return sum(checkpoint(rows, q, key, value, use_reentrant=False, preserve_rng_state=False) for q in parts)

    return chunked_loss


def all_tiles_in_a_list(query, key, value, block):
    """In JAX; every tile is small, and all are alive."""
    s = [query @ key[i : i + block].T / query.shape[1] ** 0.5 for i in range(0, len(key), block)]
    m = functools.reduce(jnp.maximum, [tile.max(1, keepdims=True) for tile in s])
    p = [jnp.exp(tile - m) for tile in s]
    o = sum(tile @ value[i * block : (i + 1) * block] for i, tile in enumerate(p))
    return o / sum(tile.sum(1, keepdims=True) for tile in p)


def chunks_of_tiles_in_a_list(query, key, value, Cq, Ck):
    return jnp.concatenate([all_tiles_in_a_list(query[a : a + Cq], key, value, Ck) for a in range(0, len(query), Cq)])


def fold_from_ten_thousand(query, key, value, Cq, Ck):
    """An online fold, in place."""
    out = np.empty((len(query), value.shape[1]))
    for rows in blocks(len(query), Cq):
        q = query[rows] / np.sqrt(query.shape[1])
        m, l, o = np.full(len(q), -1e4), np.zeros(len(q)), np.zeros((len(q), value.shape[1]))
        for cols in blocks(len(key), Ck):
            s = q @ key[cols].T
            new = np.maximum(m, s.max(1))
            s -= new[:, None]
            np.exp(s, out=s)
            f = np.exp(m - new)
            l, o, m = l * f + s.sum(1), o * f[:, None] + s @ value[cols], new
        out[rows] = o / l[:, None]
    return out


def plain_softmax(query, key, value, Ck):
    s = query @ key.T / np.sqrt(query.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ value / p.sum(1, keepdims=True)


def plain_softmax_in_torch(query, key, value, Ck):
    return torch.softmax(query @ key.T / query.shape[1] ** 0.5, 1) @ value


def two_passes(query, key, value, Ck):
    """All maxima first, then a sum over the chunks, one after another."""
    c, starts = query.shape[1] ** -0.5, range(0, len(key), Ck)
    m = np.max([(c * query @ key[i : i + Ck].T).max(1) for i in starts], axis=0)[:, None]
    l = o = 0.0
    for i in starts:
        p = np.exp(c * query @ key[i : i + Ck].T - m)
        l, o = l + p.sum(1, keepdims=True), o + p @ value[i : i + Ck]
    return o / l


def fold_by(plus, exp, array):
    """A fold of the summaries of chunks."""

    def tree_attention(query, key, value, Ck):
        query = array(query)
        m, l, o = None, 0.0, 0.0
        for a in range(0, len(key), Ck):
            s = query @ key[a : a + Ck].T / query.shape[1] ** 0.5
            own = s.max(1)
            new = own if m is None else plus(m, own)
            p, f = exp(s - new[:, None]), 0.0 if m is None else exp(m - new)
            l, o = l * f + p.sum(1), (o * f[:, None] if a else 0.0) + p @ value[a : a + Ck]
            m = new
        return o / l[:, None]

    return tree_attention


def fold_behind_asarray(query, key, value, Ck):
    return fold_by(np.maximum, np.exp, np.asarray)(query, key, value, Ck)


def fold_in_jax(query, key, value, Ck):
    return fold_by(jnp.maximum, jnp.exp, jnp.asarray)(query, key, value, Ck)


def attention_and_stats(q, k, v, seen=True):
    """(O, l, m) of whole arrays."""
    s = np.where(seen, q @ k.T / q.shape[1] ** 0.5, -np.inf)
    m = s.max(1)
    p = np.exp(s - np.where(m == -np.inf, 0, m)[:, None])
    l = p.sum(1)
    return p @ v / np.where(l == 0, 1, l)[:, None], l, m


def flash_by_the_host(machine, q, k, v, block_q, block_k):
    return attention_and_stats(*(machine.fetch(x) for x in (q, k, v)))


def flash_beside_the_machine(machine, q, k, v, block_q, block_k):
    """Loads and stores what Algorithm 1 does, and computes with copies."""
    n, dv = q.shape[0], v.shape[1]
    refs = [machine.full(name, shape, 0.0, q.dtype) for name, shape in (("O", (n, dv)), ("l", (n,)), ("m", (n,)))]
    keys, values = [], []
    for cols in blocks(k.shape[0], block_k):
        with machine.scope():
            keys.append(np.array(machine.load(k, cols)))
            values.append(np.array(machine.load(v, cols)))
            for rows in blocks(n, block_q):
                with machine.scope():
                    q_i, *old = (machine.load(x, rows) for x in (q, *refs))
                    new = attention_and_stats(np.array(q_i), np.concatenate(keys), np.concatenate(values))
                    for ref, x in zip(refs, new):
                        machine.store(ref, rows, machine.keep(ref.name, x))
    return tuple(machine.fetch(ref) for ref in refs)


def outer_beside_the_machine(machine, q, k, v, block_q, block_k):
    """Loads at the right count; the keys of a block of queries are gathered and used at once."""
    n, dv = q.shape[0], v.shape[1]
    o, lse = machine.empty("O", (n, dv), q.dtype), machine.empty("lse", (n,), q.dtype)
    for rows in blocks(n, block_q):
        with machine.scope():
            q_i, keys, values = np.array(machine.load(q, rows)), [], []
            for cols in blocks(k.shape[0], block_k):
                with machine.scope():
                    keys.append(np.array(machine.load(k, cols)))
                    values.append(np.array(machine.load(v, cols)))
            out, l, m = attention_and_stats(q_i, np.concatenate(keys), np.concatenate(values))
            machine.store(o, rows, machine.keep("O", out))
            machine.store(lse, rows, machine.keep("lse", m + np.log(l)))
    return machine.fetch(o), machine.fetch(lse)


def sparse_by_the_host(machine, q, k, v, block_mask, block_q, block_k):
    q, k, v = (np.nan_to_num(machine.fetch(x)) for x in (q, k, v))
    seen = np.repeat(np.repeat(block_mask, block_q, 0), block_k, 1)[: len(q), : len(k)]
    return attention_and_stats(q, k, v, seen)


def grid_by_the_host(memory, pid, q, k, v, o, shape, block):
    heads, n, m, d = shape
    head, i = divmod(pid, -(-n // block))
    queries, keys, values = (memory.fetch(x, (heads, size, d))[head] for x, size in ((q, n), (k, m), (v, m)))
    rows = np.arange(i * block, min((i + 1) * block, n))
    out, _, _ = attention_and_stats(queries[rows], keys, values)
    memory.store(o + head * n * d + rows[:, None] * d + np.arange(d), out)
    return memory.fetch(o, (heads, n, d))


def base_e_in_one_block(s, v, block):
    m = s.max(1)
    p = np.exp(s - np.where(m == -np.inf, 0, m)[:, None])
    l = p.sum(1)
    t = np.where(l == 0, 1, l)
    return p @ v / t[:, None], m + np.log(t)


def normalized_by(inverse, xp, top):
    """o is divided at each block, by a factor that ``inverse`` makes of l."""

    def fold_exp2(s, v, block):
        m, l, o = top(s) - math.inf, 0.0 * v[0, 0], 0.0
        for a in range(0, s.shape[1], block):
            t = math.log2(math.e) * s[:, a : a + block]
            new = xp.maximum(m, top(t))
            shift = xp.where(new == -math.inf, 0.0, new)
            old, p = xp.exp2(m - shift) * l, xp.exp2(t - shift[:, None])
            l = old + p.sum(1)
            by = inverse(xp.where(l == 0, 1.0, l))
            o, m = (old * by)[:, None] * o + by[:, None] * (p @ v[a : a + block]), new
        return o, (m + xp.log2(xp.where(l == 0, 1.0, l))) * math.log(2)

    return fold_exp2


def in_numpy(inverse):
    def fold_exp2(s, v, block):
        return normalized_by(inverse, np, lambda s: s.max(1))(s, v, block)

    return fold_exp2


def normalized_in_torch(s, v, block):
    return normalized_by(lambda l: 1 / l, torch, lambda s: s.amax(1))(s, v, block)


def normalized_in_jax(s, v, block):
    return normalized_by(lambda l: l**-1.0, jnp, lambda s: s.max(1))(s, v, block)


def normalized_in_place(s, v, block):
    """Into plain arrays."""
    m, l, o = np.full(len(s), -np.inf), np.zeros(len(s)), np.zeros((len(s), v.shape[1]))
    for a in range(0, s.shape[1], block):
        t = np.log2(np.e) * s[:, a : a + block]
        new = np.maximum(m, t.max(1))
        shift = np.where(new == -np.inf, 0, new)
        o *= (np.exp2(m - shift) * l)[:, None]
        l *= np.exp2(m - shift)
        p = np.exp2(t - shift[:, None])
        l += p.sum(1)
        o += p @ v[a : a + block]
        np.divide(o, l[:, None], out=o, where=l[:, None] > 0)
        m = new
    return o, (m + np.log2(np.where(l == 0, 1, l))) * np.log(2)


def paths_in_uint8(n, layers):
    x = np.arange(n)[:, None] ^ np.arange(n)
    pattern = (x & (x - 1)) == 0
    return pattern, np.linalg.matrix_power(pattern.astype(np.uint8), layers) > 0


def paths_in_integers(n, layers):
    x = np.arange(n)[:, None] ^ np.arange(n)
    pattern = (x & (x - 1)) == 0
    return pattern, np.linalg.matrix_power(pattern.astype(int), layers) > 0


def four_corners(n, m, block_q, block_k, window):
    left, right = (n + m if s is None else s for s in window)
    i0, j0 = np.arange(0, n, block_q)[:, None], np.arange(0, m, block_k)
    i1, j1 = np.minimum(i0 + block_q, n) - 1, np.minimum(j0 + block_k, m) - 1
    seen = sum(((j >= i + m - n - left) & (j <= i + m - n + right)).astype(int) for i in (i0, i1) for j in (j0, j1))
    return np.where(seen == 0, 0, np.where(seen == 4, 2, 1))


def larger_words(seed, head, i, j, p):
    return threefry(np.uint32(seed), np.uint32([[head]]), np.uint32(i)[:, None], np.uint32(j)) > np.uint64(p * 2**32)


def words_in_float32(seed, head, i, j, p):
    words = threefry(np.uint32(seed), np.uint32([[head]]), np.uint32(i)[:, None], np.uint32(j))
    return words.astype(np.float32) / 2**32 >= np.float32(p)


def fraction_of_elements(N, D, sram_bytes, itemsize):
    block = math.ceil(sram_bytes / itemsize / (4 * D))
    return itemsize * (4 * N * N + 4 * N * D), itemsize * (2 * N * D - (-N // block) * (3 * N * D + 4 * N))


def block_in_floats(N, D, itemsize, budget):
    passes = (budget // itemsize - 2 * N * D) // (3 * N * D + 4 * N)
    return math.ceil(N / passes) if passes >= 1 else 0


def elements_to_the_nearest(N, D, sram_bytes, itemsize):
    block = math.ceil(round(sram_bytes / itemsize) / (4 * D))
    return itemsize * (4 * N * N + 4 * N * D), itemsize * (2 * N * D - (-N // block) * (3 * N * D + 4 * N))


def context_of_each_share(gpu_bytes, model, Hk):
    """Memory and weights are divided among the sequences, and rounded, before the weights are taken away."""
    b, batch = model["itemsize"], model["batch"]
    token, weights = 2 * b * model["layers"] * Hk * model["head_size"], b * model["parameters"]
    tokens = max(0, (gpu_bytes // batch - weights // batch) // token)
    return tokens, weights + batch * tokens * token


def largest_up_to_512(D, M_sram):
    def queries_stay(b, rows):
        return b * rows + 2 * (b + rows) * D + 3 * b

    def keys_stay(b, rows):
        return b * rows + 2 * (b + rows) * D + 6 * rows

    fits = ([b for b in range(1, 513) if held(b, min(b, D)) <= M_sram] for held in (queries_stay, keys_stay))
    return tuple(max(found, default=0) for found in fits)


def step_with_a_small_weight(O, l, m, s, v):
    """A hidden score is the row's largest less 40, so that its weight is 4e-18."""
    seen = s > -np.inf
    top = np.maximum(m, s.max(1))
    shift = np.where(top == -np.inf, 0, top)
    p = np.exp(np.where(seen, s, np.where(seen.any(1), shift - 40, -np.inf)[:, None]) - shift[:, None])
    old = np.exp(m - shift) * l
    total = old + p.sum(1)
    return (old[:, None] * O + p @ v) / np.where(total == 0, 1, total)[:, None], total, top


def bisected(a, b, c):
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if a * middle**2 < b * middle + c else (low, middle)
    return low


def longest_in_float32(free_bytes, batch, heads, itemsize, copies):
    return int(np.float32((free_bytes // (batch * heads * itemsize * copies)) ** 0.5))


def one_empty_chunk_skips_all_rows(x, size):
    m, l = np.full(len(x), -np.inf), np.zeros(len(x))
    for start in range(0, x.shape[1], size):
        chunk = x[:, start : start + size]
        if (chunk.max(1) == -np.inf).any():
            continue
        m_next = np.maximum(m, chunk.max(1))
        l = l * np.exp(m - m_next) + np.exp(chunk - m_next[:, None]).sum(1)
        m = m_next
    return m, l


def filled_with(number):
    def masked_softmax(x, mask):
        return torch.softmax(torch.where(mask, x, number), -1) * mask

    return masked_softmax


def tree_of_folds(query, key, value, Ck):
    """Groups of chunks, as many as chunks in a group: a fold in each, and a fold of these."""

    def plus(a, b):
        m = np.maximum(a[0], b[0])
        alpha, beta = np.exp(a[0] - m), np.exp(b[0] - m)
        return m, *(alpha * x + beta * y for x, y in zip(a[1:], b[1:]))

    def leaf(c):
        s = query @ key[c : c + Ck].T / query.shape[1] ** 0.5
        m = s.max(1, keepdims=True)
        p = np.exp(s - m)
        return m, p.sum(1, keepdims=True), p @ value[c : c + Ck]

    step = Ck * max(1, math.isqrt(len(key) // Ck))
    groups = (range(c, min(c + step, len(key)), Ck) for c in range(0, len(key), step))
    _, l, o = functools.reduce(plus, (functools.reduce(plus, map(leaf, group)) for group in groups))
    return o / l


START = "-np.inf"
UNSHIFTED = (
    "np.exp(m_i - m_new), np.exp(s - m_new[:, None])", "np.ones_like(m_i), np.exp(s)",
    "machine.fetch(l), ", "machine.fetch(l) * np.exp(-np.maximum(machine.fetch(m), -700)), ",
)
DIVIDED_BY_THE_HOST = (
    "((a * l_i)[:, None] * o_i + p @ v_j) / l_new[:, None]", "a[:, None] * o_i + p @ v_j",
    "machine.fetch(o)", "machine.fetch(o) / machine.fetch(l)[:, None]",
)
CLIPPED = "s.max(-1, keepdims=True)", "np.maximum(s.max(-1, keepdims=True), 0)"
IGNORED = "m, l, o = np.full"

SINGLE = "return max", "from numpy import float32; return int(float32(max", "0) // each", "0)) // each)"
STORE_LINE = "    tl.store(out"
HIDDEN_LOAD = "j += tl.arange(0, BLOCK_K)[:, None]; tl.load(k + j * D + cols, mask=j < m)"

WRONG = [  # exercise, what differs from the reference or an answer of its own, what the verdict says
    ("attention_row", but("np.sqrt(len(q))", "int(np.sqrt(len(q)))"), "D = 7"),
    ("visible_mask", but("if window is not None", "if window and any(window)"), "window = (0, 0)"),
    ("longest_sequence", longest_in_float32, "a million"),
    ("longest_sequence", but("return ", "return min(10**5, ", "// each)", "// each))"), "a million"),
    ("safe_softmax", but("x.max(-1, keepdims=True)", "x.astype(float).mean(-1, keepdims=True)"), "SPIKE"),
    ("safe_softmax", but("x.max(-1, keepdims=True)", "x.astype(float).max(-1, keepdims=True, initial=-1e30)"), "LOW"),
    ("log_sum_exp", but("(m + np.log(l))[..., 0]", "(m + np.log(l))[..., 0].astype(x.dtype)"), "at least float32"),
    ("log_sum_exp", but("x.max(-1, keepdims=True)", "np.where(x == -np.inf, 0, x).min(-1, keepdims=True)"), "SPIKE"),
    ("online_stats", but("-math.inf, 0.0", "-1e5, 0.0", "return m, l", "return m if l else -math.inf, l"), "LOW"),
    ("stats_in_chunks", one_empty_chunk_skips_all_rows, "EMPTY"),
    ("stats_in_chunks", but(START + "), np", "-1e30), np", "return m, l", "return np.where(l, m, -np.inf), l"), "LOW"),
    ("log_softmax", but("x - m - np.log(l)", "np.log(np.exp((x - m).astype(float)) / l).astype(x.dtype)"), "-1000"),
    *[("masked_softmax", filled_with(x), "LOW") for x in (-1e9, -1e4, -1000.0, -80.0, -20.0)],
    ("blockwise_attention", but(START, "-1e4"), "LOW"),
    ("blockwise_attention", but(IGNORED, f"block = 16; {IGNORED}"), "does it read `block` keys"),
    ("blockwise_attention", but(IGNORED, f"block = 1024; {IGNORED}"), "does it read `block` keys"),
    ("blockwise_attention", all_tiles_in_a_list, "twice as many keys"),
    ("lazy_row", but("np.exp(k @ q / len(q) ** 0.5)", "np.exp(min(k @ q / len(q) ** 0.5, 50.0))"), "HIGH"),
    ("lazy_row", but("o += e * v", "v *= e; o += v"), "changes its inputs"),
    ("lazy_row", but("len(q) ** 0.5", "int(len(q) ** 0.5)"), "D = 3"),
    ("online_row", but("np.maximum(m, s)", "(m if m > -np.inf else s)"), "HIGH"),
    ("masked_online", but("np.maximum(m, s)", "np.where(m > -np.inf, m, s)"), "HIGH"),
    ("blockwise_attention", but("np.maximum(m, s.max(", "np.where(m > -np.inf, m, s.max("), "of the last key"),
    ("attention_in_chunks", but("top = np.max([m for m, _, _ in chunks], axis=0)", "top = chunks[0][0]"), "HIGH"),
    ("attention_in_chunks", but("out = np", "Cq = Ck; out = np"), "8 chunks of 32 queries"),
    ("attention_in_chunks", but("out = np", "Cq, Ck = Ck, Cq; out = np"), "eq. 5.7"),
    ("attention_in_chunks", chunks_of_tiles_in_a_list, "eq. 5.7"),
    ("attention_in_chunks", fold_from_ten_thousand, "LOW"),
    ("attention_in_chunks", but("np.max([m for", "np.max([0 * chunks[0][0]] + [m for"), "LOW"),
    ("tree_attention", plain_softmax, "times the scores of a chunk"),
    ("tree_attention", plain_softmax_in_torch, "times the scores of a chunk"),
    ("tree_attention", two_passes, "lost in rounding"),
    ("tree_attention", fold_behind_asarray, "lost in rounding"),
    ("tree_attention", fold_in_jax, "lost in rounding"),
    ("tree_attention", but("m = s.max(1)", "m = np.maximum(s.max(1), 0)"), "LOW"),
    ("tree_attention", tree_of_folds, "lost in rounding"),
    ("tree_attention", but("live = []", "Ck = 1; live = []"), "does it read `Ck` keys"),
    ("visible_chunks", but("m = s.max(1)", "m = np.maximum(s.max(1), -1e4)"), "LOW"),
    ("visible_chunks", but("np.where(visible[c : c + Ck], s, -np.inf)", "s",
                           "p = np.exp(s - zero_if_empty(m)[:, None])",
                           "p = visible[c : c + Ck] * np.exp(s - m[:, None])"), "HIGH"),
    ("visible_loss", but("amax(1, keepdim=True)", "max()"), "ROWS"),
    ("attention_backward", but(CLIPPED[0], "s.max()"), "ROWS"),
    ("attention_backward", but(*CLIPPED), "LOW"),
    ("chunked_loss", loss_unchecked, "grew"),
    ("chunked_loss", loss_of_chunks_of_keys, "grew"),
    ("chunked_loss", loss_with(lambda s: s.amax(-1, keepdim=True).clamp(min=0)), "LOW"),
    ("chunked_loss", loss_with(lambda s: s.max()), "ROWS"),
    ("flash_forward", flash_by_the_host, "did not load"),
    ("flash_forward", flash_beside_the_machine, "beside the machine"),
    ("flash_forward", but(START, "-1e4"), "LOW"),
    ("block_for_budget", block_in_floats, "10¹⁷"),
    ("bytes_moved", fraction_of_elements, "17 bytes"),
    ("bytes_moved", elements_to_the_nearest, "19 bytes"),
    ("longest_context", context_of_each_share, "one byte less than a token for each"),
    ("largest_blocks", largest_up_to_512, "an H100"),
    ("tile_step", step_with_a_small_weight, "HUGE"),
    ("lean_forward", but(START, "-1e9"), "LOW"),
    ("lean_forward", but(*DIVIDED_BY_THE_HOST), "after machine.fetch"),
    ("flash_forward", but("blocks(n, block_q)", "blocks(n, 1)"), "block_q and block_k"),
    ("flash_forward_q_outer", but("k.shape[0], block_k", "k.shape[0], 1"), "block_q and block_k"),
    ("flash_forward_q_outer", outer_beside_the_machine, "beside the machine"),
    ("flash_forward_q_outer", but(START, "0.0"), "LOW"),
    ("flash_forward_q_outer", but(START, "-1e4"), "LOW"),
    ("keep_mask", larger_words, "is the word"),
    ("keep_mask", words_in_float32, "one below"),
    ("keep_mask", but("round(p * 2**32)", "min(round(p * 2**32), 2**32 - 1)"), "TOP"),
    ("recompute_weights", but("np.exp(s - shift[:, None])", "np.exp(np.maximum(s - shift[:, None], -20))"), "FAR"),
    ("tiled_backward", but("    (n, m), tau", "    block = 16\n    (n, m), tau"), "tiles of block by block"),
    ("sparse_rows", but("(blocks(len(k), block)):", "(list(blocks(len(k), block))[: len(block_mask)]):"), "RECT"),
    ("butterfly_reach", paths_in_uint8, "9 layers"),
    ("butterfly_reach", paths_in_integers, "33 layers"),
    ("classify_tiles", four_corners, "between the corners"),
    ("crossover_length", bisected, "billion"),
    ("sparse_forward", sparse_by_the_host, "did not load"),
    ("sparse_forward", but(*UNSHIFTED), "LOW"),
    ("fold_exp2", base_e_in_one_block, "np.exp2 and np.log2"),
    ("fold_exp2", but(IGNORED, f"block = s.shape[1]; {IGNORED}"), "does it read `block` keys"),
    ("fold_exp2", but(START + "), np.zeros", "-1e4), np.zeros"), "LOW"),
    ("fold_exp2", in_numpy(lambda l: 1.0 / l), "divides"),
    ("fold_exp2", in_numpy(lambda l: l**-1.0), "divides"),
    ("fold_exp2", in_numpy(np.reciprocal), "divides"),
    ("fold_exp2", normalized_in_place, "divides"),
    ("fold_exp2", normalized_in_torch, "divides"),
    ("fold_exp2", normalized_in_jax, "divides"),
    ("causal_kernel", but(STORE_LINE, f"    for j in range(full, m, BLOCK_K):\n        {HIDDEN_LOAD}\n{STORE_LINE}"),
     "visible tiles hold"),
    ("grid_program", grid_by_the_host, "fetch is for the host"),
    ("sequences", but(*SINGLE), "one byte less"),
]


@pytest.mark.thin(12)
@pytest.mark.parametrize(("name", "answer", "said"), WRONG)
def test_refused(name, answer, said):
    exercise = replace(check.find(name), mistakes=())  # the catalog has its own tests
    verdict = examine(exercise, answer.apply(exercise.reference) if hasattr(answer, "apply") else answer)
    assert verdict.state == "wrong", verdict.text
    assert said in " ".join(verdict.text.split()), verdict.text


def column_means(x):
    """The mean of each column of x (n, d)."""
    return x.mean(0)


def random_columns():
    return [Case(f"n = {n}", (np.random.default_rng(n).normal(size=(n, 2)),)) for n in (1, 2, 5)]


def test_what_is_kept_from_call_to_call():
    """Each shape is there once; the last input is given again with other numbers."""
    kept, exercise = {}, Exercise("00", 1, column_means, random_columns, ("A hint.",))
    verdict = examine(exercise, lambda x: kept.setdefault(x.shape, x.mean(0)))
    assert verdict.state == "wrong"
    assert "Is anything kept from one call to the next?" in " ".join(verdict.text.split())
    assert "n = 5; with other numbers than before" in verdict.text
    assert examine(exercise, lambda x: x.sum(0) / len(x)).state == "right"


def test_an_exercise_without_random_numbers_is_given_once():
    cases = [Case("ONES", (np.ones((2, 3)),))]
    assert redrawn(Exercise("00", 1, column_means, lambda: cases, ("A hint.",)), cases) is None
