"""Answers to the exercises of lesson 04: right ones, written in other ways, and ones to refuse."""

import math
from functools import reduce
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import torch

import attnlab
from tests.course.answers import edited


def lazy_shifted(q, pairs):
    """Online attention is also right here."""
    return online_by_lse(q, pairs)[0]


def lazy_in_jax(q, pairs):
    def add(sums, pair):
        e = jnp.exp(pair[0] @ q / q.size**0.5)
        return sums[0] + e, sums[1] + e * pair[1]

    l, o = reduce(add, pairs, (0.0, 0.0))
    return o / l


def lazy_reads_twice(q, pairs):
    s = np.array([k @ q / len(q) ** 0.5 for k, v in pairs])
    p = np.exp(s) / np.exp(s).sum()
    return sum((w * v for w, (k, v) in zip(p, pairs)), np.zeros(1))


def online_by_lse(q, pairs):
    """Output and lse themselves as the state: o stays normalized."""
    out, lse = 0.0, -np.inf
    for k, v in pairs:
        s = k @ q / len(q) ** 0.5
        new = np.logaddexp(lse, s)
        out = out * np.exp(lse - new) + v * np.exp(s - new) if new > -np.inf else 0 * v
        lse = new
    return out, lse


def online_by_branch(q, pairs):
    m, l, o = -math.inf, 0.0, None
    for k, v in pairs:
        s = float(k @ q) / math.sqrt(len(q))
        o = np.zeros_like(v) if o is None else o
        if s == -math.inf:
            continue
        if s > m:
            factor = math.exp(m - s)
            m, l, o = s, l * factor + 1, o * factor + v
        else:
            weight = math.exp(s - m)
            l, o = l + weight, o + weight * v
    return (o, -math.inf) if l == 0 else (o / l, m + math.log(l))


def online_in_torch(q, pairs):
    m, l, o = torch.tensor(-torch.inf), torch.tensor(0.0), torch.tensor(0.0)
    for k, v in pairs:
        s = torch.dot(k, q) / q.numel() ** 0.5
        top = torch.maximum(m, s)
        shift = torch.where(torch.isinf(top), torch.zeros_like(top), top)
        a, e = torch.exp(m - shift), torch.exp(s - shift)
        m, l, o = top, l * a + e, o * a + e * v
    safe = torch.where(l == 0, torch.ones_like(l), l)
    return o / safe, m + torch.log(safe)


def online_in_jax(q, pairs):
    m, l, o = -jnp.inf, 0.0, 0.0
    for k, v in pairs:
        s = jnp.vdot(k, q) / q.size**0.5
        top = jnp.maximum(m, s)
        shift = jnp.where(top == -jnp.inf, 0.0, top)
        a, e = jnp.exp(m - shift), jnp.exp(s - shift)
        m, l, o = top, l * a + e, o * a + e * v
    return jnp.where(l > 0, o / jnp.where(l > 0, l, 1), 0 * o), jnp.where(l > 0, m + jnp.log(l), -jnp.inf)


def online_out_only(q, pairs):
    return online_by_lse(q, pairs)[0]


def online_epsilon(q, pairs):
    """Guarded by an epsilon: the lse of the empty row is finite."""
    m, l, o = -1e30, 0.0, 0.0
    for k, v in pairs:
        s = k @ q / len(q) ** 0.5
        top = max(m, s)
        a, e = np.exp(m - top), np.exp(s - top)
        m, l, o = top, l * a + e, o * a + e * v
    return o / (l + 1e-9), m + np.log(l + 1e-9)


def online_keeps_weights(q, pairs):
    """Right, and every weight is kept and rescaled."""
    m, weights, o = -np.inf, np.zeros(0), 0.0
    for k, v in pairs:
        s = k @ q / len(q) ** 0.5
        top = max(m, s)
        shift = top if top > -np.inf else 0.0
        weights = np.append(weights * np.exp(m - shift), np.exp(s - shift))
        o = o * np.exp(m - shift) + weights[-1] * v
        m = top
    l = weights.sum()
    return (o / l, m + np.log(l)) if l > 0 else (o, -np.inf)


def fails(update, scores, tolerance=1e-6):
    m, l = -math.inf, 0.0
    with np.errstate(all="ignore"):
        for s in scores:
            m, l = update(m, l, s)
        return not abs(m + np.log(l) - np.logaddexp.reduce(scores)) < tolerance


def counterexample_by_search(update):
    candidates = [0.0, -0.3, 0.7, 5.0, 900.0, -900.0]
    lists = (list(scores) for length in range(1, 5) for scores in product(candidates, repeat=length))
    return next(scores for scores in lists if fails(update, scores))


def counterexample_by_table(update):
    """A fixed list of fingerprints, shortest first."""
    table = ([1.0], [2000.0], [-2000.0], [1.0, 1.0], [0.0, 0.25], [3.0, 0.0], [0.0, 3.0], [2000.0, 0.0], [5.0] * 3)
    for scores in table:
        if fails(update, scores):
            return tuple(scores)
    return None


def counterexample_remembered(update, known=[]):  # noqa: B006
    """Tries the lists that exposed earlier suspects first: one of two scores, where one would do."""
    scores = next((scores for scores in known if fails(update, scores)), None)
    if scores is None:
        scores = counterexample_by_search(update)
        known.append(scores)
    return scores


def counterexample_coarse(update):
    """Sees errors of the lse above 0.1 only."""
    lists = (list(s) for length in (1, 2, 3) for s in product((0.0, 0.5, 1.0, 3.0, 1000.0, -1000.0), repeat=length))
    return next((scores for scores in lists if fails(update, scores, 0.1)), [])


def blocks_divided(query, key, value, block):
    """Keeps the output normalized, undoing the division each time."""
    lse, out = np.full((len(query), 1), -np.inf), 0.0
    for start in range(0, len(key), block):
        s = query @ key[start : start + block].T / query.shape[1] ** 0.5
        own = np.logaddexp.reduce(s, axis=1, keepdims=True)
        new = np.logaddexp(lse, own)
        out = out * np.exp(lse - new) + np.exp(s - new) @ value[start : start + block]
        lse = new
    return out


def blocks_in_torch(query, key, value, block):
    m = torch.full((query.shape[0], 1), -torch.inf)
    l, o = torch.zeros_like(m), torch.zeros(query.shape[0], value.shape[1])
    for k, v in zip(key.split(block), value.split(block)):
        s = query @ k.T / query.shape[1] ** 0.5
        top = torch.maximum(m, s.amax(1, keepdim=True))
        a, p = torch.exp(m - top), torch.exp(s - top)
        m, l, o = top, l * a + p.sum(1, keepdim=True), o * a + p @ v
    return o / l


def blocks_in_jax(query, key, value, block):
    """Whole blocks in a loop that is compiled once, then the tail."""
    d, whole = query.shape[1], key.shape[0] // block

    def add(state, k, v):
        m, l, o = state
        s = query @ k.T / d**0.5
        top = jnp.maximum(m, s.max(1, keepdims=True))
        a, p = jnp.exp(m - top), jnp.exp(s - top)
        return top, l * a + p.sum(1, keepdims=True), o * a + p @ v

    def step(i, state):
        k, v = (jax.lax.dynamic_slice_in_dim(x, i * block, block) for x in (key, value))
        return add(state, k, v)

    n = query.shape[0]
    state = (jnp.full((n, 1), -jnp.inf), jnp.zeros((n, 1)), jnp.zeros((n, value.shape[1])))
    state = jax.lax.fori_loop(0, whole, step, state) if whole else state
    if whole * block < key.shape[0]:
        state = add(state, key[whole * block :], value[whole * block :])
    return state[2] / state[1]


def blocks_naive_in_torch(query, key, value, block):
    return torch.softmax(query @ key.T / query.shape[1] ** 0.5, dim=-1) @ value


def blocks_naive_in_jax(query, key, value, block):
    return jax.nn.softmax(query @ key.T / query.shape[1] ** 0.5) @ value


def blocks_copying(query, key, value, block):
    """Right, with a scaled copy of all keys."""
    return blocks_divided(query, key.copy(), value.copy(), block)


def masked_by_package(query, key, value, mask):
    return attnlab.safe_attention(query, key, value, mask=mask)


def masked_in_torch(query, key, value, mask):
    s = (query @ key.T / query.shape[1] ** 0.5).masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(torch.softmax(s, 1)) @ value


def masked_in_jax(query, key, value, mask):
    s = jnp.where(mask, query @ key.T / query.shape[1] ** 0.5, -jnp.inf)
    m = s.max(1, keepdims=True)
    e = jnp.exp(s - jnp.where(m == -jnp.inf, 0, m))
    l = e.sum(1, keepdims=True)
    return e @ value / jnp.where(l == 0, 1, l)


def masked_afterwards(query, key, value, mask):
    """Normalized over all keys, then hidden."""
    return attnlab.safe_attention(query, key, np.eye(len(key))) * mask @ value


RIGHT = [
    *(("lazy_row", answer) for answer in (lazy_shifted, lazy_in_jax)),
    *(("online_row", answer) for answer in (online_by_lse, online_by_branch, online_in_torch, online_in_jax)),
    *(("smallest_counterexample", answer) for answer in (counterexample_by_search, counterexample_by_table)),
    *(("masked_online", answer) for answer in (masked_by_package, masked_in_torch, masked_in_jax)),
    *(("blockwise_attention", answer) for answer in (blocks_divided, blocks_in_torch, blocks_in_jax)),
]

lazy_but_zeros = edited(
    "lazy_row", "    for k, v in pairs:\n", "    for k, v in pairs:\n        if not v.any():\n            continue\n"
)
online_but_small = edited(
    "online_row", "    s = k @ q / len(q) ** 0.5\n",
    "    s = k @ q / len(q) ** 0.5\n        if s < m - 9.5 and s > m - 11:\n            continue\n",
)
online_above_a_hidden_key = edited("online_row", "m, l, o = m_new,", "m, l, o = (m_new if m_new > -np.inf else -1e4),")
online_above_a_mask = edited(
    "online_row", "    s = k @ q / len(q) ** 0.5\n",
    "    s = k @ q / len(q) ** 0.5\n        s = s if s > -1e9 else -np.inf\n",
)
masked_without_small_moves = edited(
    "masked_online", "np.exp(m - shift)", "np.where(m - shift > -0.01, 1, np.exp(m - shift))"
)
blockwise_of_64_keys, blockwise_of_one = (
    edited("blockwise_attention", "    m, l, o = np.full", f"    block = {size}\n    m, l, o = np.full")
    for size in ("max(block, 64)", "1")
)

REFUSED = [
    ("lazy_row", lazy_reads_twice, "reads the stream a second time"),
    ("online_row", online_out_only, "tuple of 2"),
    ("online_row", online_epsilon, "EMPTY"),
    ("online_row", online_keeps_weights, "should not grow"),
    ("smallest_counterexample", counterexample_remembered, "so does a list of length 1"),
    ("smallest_counterexample", counterexample_coarse, "a suspect that takes 1 − d"),
    ("smallest_counterexample", lambda update: [-np.inf], "finite scores"),
    ("smallest_counterexample", lambda update: "UP", "not an array of numbers"),
    ("smallest_counterexample", lambda update: [], "found no list for this suspect"),
    ("masked_online", masked_afterwards, "key 0 is hidden"),
    ("blockwise_attention", blocks_naive_in_torch, "when there were twice as many keys"),
    ("blockwise_attention", blocks_naive_in_jax, "when there were twice as many keys"),
    ("blockwise_attention", blockwise_of_one, "does it read `block` keys at a time?"),
    ("blockwise_attention", blocks_copying, "copy of the keys"),
    ("lazy_row", lazy_but_zeros, "a first value of zeros"),
    ("online_row", online_but_small, "300 of −10"),
    ("online_row", online_above_a_mask, "two scores of −10¹⁰"),
    ("online_row", online_above_a_hidden_key, "−100000 and −99999"),
    ("masked_online", masked_without_small_moves, "two hundred scores"),
    ("blockwise_attention", blockwise_of_64_keys, "16 exponentials"),
]
