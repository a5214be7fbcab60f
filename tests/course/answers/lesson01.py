"""Answers to the exercises of lesson 01: right ones, written in other ways, and ones to refuse."""

from math import isqrt

import jax
import jax.numpy as jnp
import numpy as np
import torch

import attnlab
from tests.course.answers import edited


def row_by_loop(q, keys, values):
    weights = [np.exp(sum(a * b for a, b in zip(q, k)) / len(q) ** 0.5) for k in keys]
    return sum(w * v for w, v in zip(weights, values)) / sum(weights)


def row_in_jax(q, keys, values):
    return jax.nn.softmax(jnp.dot(keys, q) / jnp.sqrt(q.size)) @ values


def row_in_torch(q, keys, values):
    return torch.softmax(keys @ q / q.shape[0] ** 0.5, dim=-1) @ values


def visible_by_loop(n, m, causal, window):
    seen = np.zeros((n, m), bool)
    for i in range(n):
        for j in range(m):
            p = i + m - n
            seen[i, j] = (not causal or j <= p) and (window is None or p - window[0] <= j <= p + window[1])
    return seen


def visible_in_torch(n, m, causal, window):
    distance = torch.arange(m) - torch.arange(m - n, m)[:, None]
    left, right = window or (n + m, n + m)
    return (-left <= distance) & (distance <= (min(right, 0) if causal else right))


def longest_by_search(free_bytes, batch, heads, itemsize, copies):
    low, high = 0, 2**64
    while high - low > 1:
        n = (low + high) // 2
        low, high = (n, high) if n * n * batch * heads * itemsize * copies <= free_bytes else (low, n)
    return low


def longest_corrected(free_bytes, batch, heads, itemsize, copies):
    each = batch * heads * itemsize * copies
    n = int((free_bytes / each) ** 0.5)
    while n * n * each > free_bytes:
        n -= 1
    while (n + 1) ** 2 * each <= free_bytes:
        n += 1
    return np.int64(n)


def longest_in_floats(free_bytes, batch, heads, itemsize, copies):
    return int(np.sqrt(free_bytes / (batch * heads * itemsize * copies)))


def layer_by_package(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (np.stack(np.split(x @ w, heads, axis=1)) for w in (w_q, w_k, w_v))
    return np.hstack(attnlab.safe_attention(q, k, v, causal=True)) @ w_o


def layer_in_torch(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).unflatten(1, (heads, -1)).transpose(0, 1) for w in (w_q, w_k, w_v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.transpose(0, 1).flatten(1) @ w_o


def layer_in_jax(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(len(x), heads, -1) for w in (w_q, w_k, w_v))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ w_o


def layer_as_heads(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (np.stack(np.split(x @ w, heads, axis=1)) for w in (w_q, w_k, w_v))
    return attnlab.safe_attention(q, k, v, causal=True)


def attention_by_heads(query, key, value, causal):
    hq, n, d = query.shape
    hk, m, _ = key.shape
    out = np.empty((hq, n, value.shape[-1]))
    for h in range(hq):
        k, v = key[h * hk // hq], value[h * hk // hq]
        for i in range(n):
            end = i + m - n + 1 if causal else m
            e = np.exp(k[:end] @ query[h, i] / d**0.5)
            out[h, i] = e @ v[:end] / e.sum()
    return out


def attention_in_jax(query, key, value, causal):
    hq, n, d = query.shape
    hk, m, dv = value.shape
    s = jnp.einsum("hgnd,hmd->hgnm", query.reshape(hk, hq // hk, n, d), key) / jnp.sqrt(d)
    if causal:
        s = jnp.where(jnp.arange(m) <= jnp.arange(n)[:, None] + m - n, s, -jnp.inf)
    return jnp.einsum("hgnm,hmv->hgnv", jax.nn.softmax(s, axis=-1), value).reshape(hq, n, dv)


def attention_in_torch(query, key, value, causal):
    hq, n, d = query.shape
    hk, m, _ = key.shape
    s = query.reshape(hk, -1, d) @ key.transpose(-1, -2) / d**0.5  # the group's queries are more queries
    s = s.reshape(hk, -1, n, m)
    if causal:
        s = s.masked_fill(~torch.ones(n, m, dtype=torch.bool).tril(m - n), -torch.inf)
    p = torch.softmax(s, dim=-1).reshape(hk, -1, m)
    return (p @ value).reshape(hq, n, -1)


row_by_columns = edited("attention_row", "keys @ q", "(q @ keys if keys.shape[0] == keys.shape[1] else keys @ q)")
row_of_64 = edited("attention_row", "    return", "    e[np.argsort(e)[:-64]] = 0\n    return")
longest_by_two_roots = edited("longest_sequence", "math.isqrt(free_bytes // each)", "int(free_bytes**0.5 / each**0.5)")
layer_that_remembers = edited(
    "attention_layer", "def ", "KNOWN = {}\n\n\ndef ",
    "for w in (w_q, w_k, w_v))", "for w in (w_q, w_k, w_v))\n    k, v = KNOWN.setdefault((n, heads), (k, v))",
)
layer_of_64 = edited(
    "attention_layer", "np.tri(n, dtype=bool)", "np.tri(n, dtype=bool) & ~np.tri(n, k=-64, dtype=bool)"
)
naive_with_many_masks = edited(
    "naive_attention", "p = np.exp(", "p = causal and np.repeat(visible[None], 8 * hq, 0)\n    p = np.exp("
)

RIGHT = [
    *(("attention_row", answer) for answer in (row_by_loop, row_in_jax, row_in_torch)),
    *(("visible_mask", answer) for answer in (visible_by_loop, visible_in_torch)),
    *(("longest_sequence", answer) for answer in (longest_by_search, longest_corrected, longest_in_floats)),
    *(("attention_layer", answer) for answer in (layer_by_package, layer_in_torch, layer_in_jax)),
    *(("naive_attention", answer) for answer in (attention_by_heads, attention_in_jax, attention_in_torch)),
]


def repeated_in_torch(query, key, value, causal):
    group = query.shape[0] // key.shape[0]
    key, value = key.repeat_interleave(group, 0), value.repeat_interleave(group, 0)
    return attention_in_torch(query, key, value, causal)


def visible_in_bytes(n, m, causal, window):
    """Positions wrap around from 128 on."""
    i, j = (np.arange(n)[:, None] + m - n).astype(np.int8).astype(int), np.arange(m).astype(np.int8)
    left, right = window or (n + m, n + m)
    return (j >= i - left) & (j <= i + (0 if causal else right))


naive_hidden_by_product = edited("naive_attention", "np.exp(np.where(visible, s, -np.inf))", "np.exp(s) * visible")
naive_with_one_shift = edited("naive_attention", "-np.inf))", "-np.inf) - np.where(visible, s, -np.inf).max())")
naive_by_all_pairs = edited(  # the products before they are added: a number for each query, key and component
    "naive_attention", "q @ key[:, None].swapaxes(-1, -2)", "(q[..., None, :] * key[:, None, None]).sum(-1)"
)

REFUSED = [
    ("attention_row", edited("attention_row", "e.sum()", "(e.sum() + 1e-9)"), "−50"),
    ("visible_mask", visible_in_bytes, "m = 300"),
    ("attention_layer", edited("attention_layer", "np.exp(s)", "np.exp(s - s.max())"), "−442"),
    ("naive_attention", naive_hidden_by_product, "800"),
    ("naive_attention", naive_with_one_shift, "800"),
    ("attention_row", lambda q, k, v: row_by_loop(q, k, v).astype(int), "EYE"),
    ("visible_mask", lambda n, m, causal, window: np.tri(n, m, dtype=bool), "n = 2, m = 2, causal = False"),
    ("visible_mask", lambda n, m, causal, window: np.ones((n, m)), "expected dtype bool, got float64"),
    ("longest_sequence", lambda free, b, h, i, c: float(isqrt(free // (b * h * i * c))),
     "expected dtype int64, got float64"),
    ("attention_layer", layer_as_heads, "expected shape"),
    ("attention_layer", lambda *arrays: layer_by_package(*arrays[:-1], 1), "two heads"),
    ("naive_attention", naive_by_all_pairs, "holds"),
    ("naive_attention", repeated_in_torch, "repeat"),
    ("attention_row", row_by_columns, "D = M = 3"),
    ("attention_row", row_of_64, "200 keys"),
    ("longest_sequence", longest_by_two_roots, "exactly N = 3"),
    ("attention_layer", layer_that_remembers, "first input anew"),
    ("attention_layer", layer_of_64, "100 tokens"),
    ("naive_attention", naive_with_many_masks, "causal, N = M = 192"),
]
