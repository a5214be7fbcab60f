"""Answers that are nearly right and must not pass: each once did."""

import functools
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attnlab_course import check
from attnlab_course.checker.engine import examine
from attnlab_course.checker.exercise import Case, Exercise, but
from attnlab_course.checker.suspicions import redraw_numbers

from tests.support import needs


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


def all_tiles_in_a_list(query, key, value, block):
    """In JAX; every tile is small, and all are alive."""
    s = [query @ key[i : i + block].T / query.shape[1] ** 0.5 for i in range(0, len(key), block)]
    m = functools.reduce(jnp.maximum, [tile.max(1, keepdims=True) for tile in s])
    p = [jnp.exp(tile - m) for tile in s]
    o = sum(tile @ value[i * block : (i + 1) * block] for i, tile in enumerate(p))
    return o / sum(tile.sum(1, keepdims=True) for tile in p)


def chunks_of_tiles_in_a_list(query, key, value, Cq, Ck):
    return jnp.concatenate([all_tiles_in_a_list(query[a : a + Cq], key, value, Ck) for a in range(0, len(query), Cq)])


def plain_softmax(query, key, value, Ck):
    s = query @ key.T / np.sqrt(query.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ value / p.sum(1, keepdims=True)


def attention_and_stats(q, k, v):
    """(O, l, m) of whole arrays."""
    s = q @ k.T / q.shape[1] ** 0.5
    m = s.max(1)
    p = np.exp(s - m[:, None])
    l = p.sum(1)
    return p @ v / l[:, None], l, m


def flash_by_the_host(machine, q, k, v, block_q, block_k):
    return attention_and_stats(*(machine.fetch(x) for x in (q, k, v)))


def grid_by_the_host(memory, pid, q, k, v, o, lengths, d, block):
    first = 0
    for n in lengths:
        if pid < -(-n // block):
            break
        first, pid = first + n, pid - -(-n // block)
    queries, keys, values = (memory.fetch(x + first * d, (n, d)) for x in (q, k, v))
    rows = np.arange(pid * block, min((pid + 1) * block, n))
    out, _, _ = attention_and_stats(queries[rows], keys, values)
    memory.store(o + (first + rows)[:, None] * d + np.arange(d), out)
    return memory.fetch(o, (sum(lengths), d))


def longest_in_float32(free_bytes, batch, heads, itemsize, copies):
    return int(np.float32((free_bytes // (batch * heads * itemsize * copies)) ** 0.5))


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
LOADED = "k_j, v_j = machine.load(k, cols), machine.load(v, cols)"
KEPT = LOADED, f"{LOADED}; vars(machine).setdefault('kept', []).append((np.array(k_j), np.array(v_j)))"
FOUR_CORNERS = (
    "    hidden =", "    seen = sum(((j >= i + p - left) & (j <= i + p + right)) * 1\n"
    "               for i in (i0, i1) for j in (j0, j1))\n    hidden =",
    "np.where(hidden, 0, np.where(full, 2, 1))", "np.where(seen == 0, 0, np.where(seen == 4, 2, 1))",
)
IN_BASE_E = (
    "np.log2(np.e) * ", "", "np.exp2", "np.exp", "(m + np.log2(total)) * np.log(2)", "m + np.log(total)",
)
NORMALIZED = (
    "        m, l, o = m_new, a * l + p.sum(1), a[:, None] * o + p @ v[first : first + block]",
    "        old, l, m = a * l, a * l + p.sum(1), m_new\n"
    "        by = 1 / np.where(l == 0, 1, l)[:, None]\n"
    "        o = old[:, None] * by * o + by * (p @ v[first : first + block])", "o / total[:, None]", "o",
)


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
    ("stats_in_chunks", but("        e =", "        if (c == -np.inf).any():\n            continue\n        e ="),
     "EMPTY"),
    ("stats_in_chunks", but(START + "), np", "-1e30), np", "return m, l", "return np.where(l, m, -np.inf), l"), "LOW"),
    ("log_softmax", but("x - m - np.log(l)", "np.log(np.exp((x - m).astype(float)) / l).astype(x.dtype)"), "-1000"),
    *[("masked_softmax", but("x, -inf", f"x, {number}", "1, l)", "1, l) * mask"), "LOW") for number in (-1e9, -20.0)],
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
    ("attention_in_chunks", but("np.max([m for", "np.max([0 * chunks[0][0] - 1e4] + [m for"), "LOW"),
    ("tree_attention", plain_softmax, "times the scores of a chunk"),
    ("tree_attention", but("m = s.max(1)", "m = np.maximum(s.max(1), 0)"), "LOW"),
    ("tree_attention", tree_of_folds, "lost in rounding"),
    ("tree_attention", but("live = []", "Ck = 1; live = []"), "does it read `Ck` keys"),
    ("visible_chunks", but("m = s.max(1)", "m = np.maximum(s.max(1), -1e4)"), "LOW"),
    ("visible_chunks", but("np.where(visible[c : c + Ck], s, -np.inf)", "s",
                           "p = np.exp(s - np.where(m == -np.inf, 0, m)[:, None])",
                           "p = visible[c : c + Ck] * np.exp(s - m[:, None])"), "HIGH"),
    ("visible_loss", but("amax(1, keepdim=True)", "max()"), "ROWS"),
    ("attention_backward", but(CLIPPED[0], "s.max()"), "ROWS"),
    ("attention_backward", but(*CLIPPED), "LOW"),
    ("chunked_loss", loss_of_chunks_of_keys, "grew"),
    ("chunked_loss", but("s.detach().amax(-1)", "s.detach().amax(-1).clamp(min=0)"), "LOW"),
    ("chunked_loss", but("s.detach().amax(-1)", "s.detach().max().expand(len(s))"), "ROWS"),
    ("flash_forward", flash_by_the_host, "did not load"),
    ("flash_forward", but(*KEPT), "beside the machine"),
    ("block_for_budget", but("-(-N // passes)", "int(-(-N / passes // 1))"), "10¹⁷"),
    ("bytes_moved", but("sram_bytes // itemsize", "sram_bytes / itemsize", "-(-M_sram // (4 * D))",
                        "int(-(-M_sram // (4 * D)))"), "17 bytes"),
    ("bytes_moved", but("sram_bytes // itemsize", "round(sram_bytes / itemsize)"), "19 bytes"),
    ("longest_context", but("(gpu_bytes - weights) // (model['batch'] * token)".replace("'", '"'),
                            "(gpu_bytes // model['batch'] - weights // model['batch']) // token"),
     "one byte less than a token for each"),
    ("largest_blocks", but("0, M_sram + 1", "0, min(M_sram, 512) + 1"), "an H100"),
    ("tile_step", but("np.exp(s -", "np.exp(np.where(s > -INF, s, (m_new - 40)[:, None]) -"), "HUGE"),
    ("lean_forward", but(*DIVIDED_BY_THE_HOST), "after machine.fetch"),
    ("flash_forward", but("blocks(n, block_q)", "blocks(n, block_q + block_q // 4)"), "block_q and block_k"),
    ("flash_forward_q_outer", but("k.shape[0], block_k", "k.shape[0], 1"), "block_q and block_k"),
    ("flash_forward_q_outer", but(*KEPT), "beside the machine"),
    ("recompute_weights", but("np.exp(s - shift[:, None])", "np.exp(np.maximum(s - shift[:, None], -20))"), "FAR"),
    ("tiled_backward", but("    (n, m), tau", "    block = 16\n    (n, m), tau"), "tiles of block by block"),
    ("sparse_rows", but("(blocks(len(k), block)):", "(list(blocks(len(k), block))[: len(block_mask)]):"), "RECT"),
    ("classify_tiles", but(*FOUR_CORNERS), "between the corners"),
    ("sparse_forward", but(*UNSHIFTED), "LOW"),
    ("fold_exp2", but(*IN_BASE_E), "np.exp2 and np.log2"),
    ("fold_exp2", but(IGNORED, f"block = s.shape[1]; {IGNORED}"), "does it read `block` keys"),
    ("fold_exp2", but(*NORMALIZED), "divides"),
    ("causal_kernel", but(STORE_LINE, f"    for j in range(full, m, BLOCK_K):\n        {HIDDEN_LOAD}\n{STORE_LINE}"),
     "visible tiles hold"),
    ("grid_program", grid_by_the_host, "fetch is for the host"),
]


@pytest.mark.thin(21)
@pytest.mark.parametrize(("name", "answer", "said"), WRONG)
def test_refused(name, answer, said):
    exercise = replace(check.find(name), mistakes=())  # the catalog has its own tests
    needs(*exercise.needs.split())
    verdict = examine(exercise, answer.apply(exercise.reference) if hasattr(answer, "apply") else answer)
    assert verdict.state == "wrong", verdict.text
    assert said in " ".join(verdict.text.split()), verdict.text


def test_every_edit_finds_its_text():
    """Few of the answers above are tried every day: an edit of what isn't there any more would fail at night alone."""
    for name, answer, _ in WRONG:
        exercise = check.find(name)
        if hasattr(answer, "apply") and not exercise.needs:
            answer.apply(exercise.reference)


def column_means(x):
    """The mean of each column of x (n, d)."""
    return x.mean(0)


def test_what_is_kept_from_call_to_call():
    """Each shape is there once; the last input is given again with other numbers."""
    def cases():
        return [Case(f"n = {n}", (np.random.default_rng(n).normal(size=(n, 2)),)) for n in (1, 2, 5)]

    kept, exercise = {}, Exercise("00", 1, column_means, cases, ("A hint.",))
    verdict = examine(exercise, lambda x: kept.setdefault(x.shape, x.mean(0)))
    assert verdict.state == "wrong"
    assert "Is anything kept from one call to the next?" in " ".join(verdict.text.split())
    assert "n = 5; with other numbers than before" in verdict.text
    assert examine(exercise, lambda x: x.sum(0) / len(x)).state == "right"


def test_an_exercise_without_random_numbers_is_given_once():
    cases = [Case("ONES", (np.ones((2, 3)),))]
    assert redraw_numbers(Exercise("00", 1, column_means, lambda: cases, ("A hint.",)), cases) is None
