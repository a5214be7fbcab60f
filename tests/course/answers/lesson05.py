"""Answers to the exercises of lesson 05: right ones, written in other ways, and ones to refuse."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import torch

import attnlab
from tests.course.answers import edited


def summary_by_loop(q, k, v):
    o, l, m = np.zeros((len(q), v.shape[1])), np.zeros(len(q)), np.full(len(q), -np.inf)
    for i in range(len(q)):
        s = [q[i] @ key / len(q[i]) ** 0.5 for key in k]
        m[i] = max(s, default=-np.inf)
        for score, row in zip(s, v):
            l[i] += np.exp(score - m[i])
            o[i] += np.exp(score - m[i]) * row
    return m, l, o


def summary_in_torch(q, k, v):
    s = torch.einsum("nd,cd->nc", q, k) / q.shape[1] ** 0.5
    m = torch.full_like(q[:, 0], -torch.inf)
    if len(k):
        m = s.amax(dim=1)
    p = (s - m[:, None]).exp()
    return m, p.sum(dim=1), p @ v


def summary_in_jax(q, k, v):
    s = jnp.einsum("nd,cd->nc", q, k) / jnp.sqrt(q.shape[1])
    m = jnp.max(s, axis=1, initial=-jnp.inf)
    p = jnp.exp(s - jnp.where(m == -jnp.inf, 0, m)[:, None])
    return m, jnp.sum(p, axis=1), jnp.dot(p, v)


def clipped_summary(q, k, v):
    """Keys far below the maximum keep a weight of e⁻¹⁰."""
    s = q @ k.T / q.shape[1] ** 0.5
    m = s.max(1, initial=-np.inf)
    p = np.exp(np.clip(s - m[:, None], -10, 0))
    return m, p.sum(1), p @ v


def summary_without_ties(q, k, v):
    """Keys that share the maximum count once in l."""
    m, _, o = summary_by_loop(q, k, v)
    s = q @ k.T / q.shape[1] ** 0.5
    return m, (m > -np.inf) + np.where(s < m[:, None], np.exp(s - m[:, None]), 0).sum(1), o


def chunk_by_search(M, Dv, W):
    return min(range(1, M // W + 1), key=lambda ck: W * ck + M / ck * (Dv + 2))


def chunk_by_whole_chunks(M, Dv, W):
    sizes = {min(-(-M // chunks), M // W) for chunks in range(1, min(M, 2000) + 1)}
    return min(sizes, key=lambda ck: W * ck + -(-M // ck) * (Dv + 2))


def chunk_for_one_worker(M, Dv, W):
    """(5.8) as it's printed."""
    return min(M // W, round((M * (Dv + 2)) ** 0.5))


def chunk_rounded_down(M, Dv, W):
    """5 keys in chunks of 3, which hold 3 % more than chunks of 4."""
    return min(M // W, math.isqrt(M * (Dv + 2) // W))


def chunks_out_of_place(query, key, value, Cq, Ck):
    """Three arrays as large as a tile, as one writes it first, and the summaries in a list."""
    out = torch.empty(len(query), value.shape[1], dtype=query.dtype)

    def summary(q, k, v):
        s = (q / q.shape[1] ** 0.5) @ k.T
        m = s.amax(1)
        p = torch.exp(s - m[:, None])
        return m, p.sum(1), p @ v

    for a in range(0, len(query), Cq):
        q = query[a : a + Cq]
        parts = [summary(q, key[c : c + Ck], value[c : c + Ck]) for c in range(0, len(key), Ck)]
        top = torch.stack([m for m, _, _ in parts]).amax(0)
        l = sum(torch.exp(m - top) * l_c for m, l_c, _ in parts)
        o = sum(torch.exp(m - top)[:, None] * o_c for m, _, o_c in parts)
        out[a : a + Cq] = o / l[:, None]
    return out


def chunks_in_jax(query, key, value, Cq, Ck):
    n, (m, d) = len(query), key.shape
    seen = jnp.arange(-(-m // Ck) * Ck).reshape(-1, Ck) < m
    k, v = (jnp.pad(x, ((0, -m % Ck), (0, 0))).reshape(-1, Ck, x.shape[1]) for x in (key, value))

    def one(q):
        def part(chunk):
            s = jnp.where(chunk[2], q @ chunk[0].T / d**0.5, -jnp.inf)
            top = s.max(1)
            p = jnp.exp(s - top[:, None])
            return p @ chunk[1], p.sum(1), top

        o, l, top = jax.lax.map(part, (k, v, seen))
        factor = jnp.exp(top - top.max(0))
        return jnp.einsum("cn,cnd->nd", factor, o) / (factor * l).sum(0)[:, None]

    rows = jnp.pad(query, ((0, -n % Cq), (0, 0))).reshape(-1, Cq, d)
    return jax.lax.map(one, rows).reshape(-1, value.shape[1])[:n]


def chunks_in_torch(query, key, value, Cq, Ck):
    out = torch.empty(len(query), value.shape[1], dtype=value.dtype)
    for a, q in zip(range(0, len(query), Cq), query.split(Cq)):
        o = l = 0
        top = torch.full((len(q),), -torch.inf, dtype=q.dtype)
        for k, v in zip(key.split(Ck), value.split(Ck)):
            s = (q / q.shape[1] ** 0.5) @ k.T
            m = torch.maximum(top, s.amax(1))
            s.sub_(m[:, None]).exp_()
            o, l, top = o * (top - m).exp()[:, None] + s @ v, l * (top - m).exp() + s.sum(1), m
        out[a : a + Cq] = o / l[:, None]
    return out


def standard_in_torch(query, key, value, Cq, Ck):
    return torch.softmax(query @ key.T / query.shape[1] ** 0.5, dim=-1) @ value


def tree_by_levels(query, key, value, Ck):
    waiting = {}

    def put(level, lse, out):
        if level in waiting:
            lse_b, out_b = waiting.pop(level)
            both = np.logaddexp(lse, lse_b)
            out = np.exp(lse - both)[:, None] * out + np.exp(lse_b - both)[:, None] * out_b
            put(level + 1, both, out)
        else:
            waiting[level] = lse, out

    for c in range(0, len(key), Ck):
        s = query @ key[c : c + Ck].T / np.sqrt(query.shape[1])
        lse = np.logaddexp.reduce(s, axis=1)
        put(0, lse, np.exp(s - lse[:, None]) @ value[c : c + Ck])
    for level in range(max(waiting)):
        if level in waiting:
            put(level + 1, *waiting.pop(level))
    return waiting[max(waiting)][1]


def tree_in_torch(query, key, value, Ck):
    live = []
    for n, (k, v) in enumerate(zip(key.split(Ck), value.split(Ck)), 1):
        s = query @ k.T / query.shape[1] ** 0.5
        m = s.amax(1)
        p = (s - m[:, None]).exp()
        live.append((m, p.sum(1), p @ v))
        while n % 2 == 0:
            b, a = live.pop(), live.pop()
            live.append(joined(a, b))
            n //= 2
    while len(live) > 1:
        b, a = live.pop(), live.pop()
        live.append(joined(a, b))
    return live[0][2] / live[0][1][:, None]


def joined(a, b):
    m = torch.maximum(a[0], b[0])
    fa, fb = (a[0] - m).exp(), (b[0] - m).exp()
    return m, fa * a[1] + fb * b[1], fa[:, None] * a[2] + fb[:, None] * b[2]


def tree_in_jax(query, key, value, Ck):
    def total(k, v):
        if len(k) <= Ck:
            s = query @ k.T / query.shape[1] ** 0.5
            m = s.max(1)
            p = jnp.exp(s - m[:, None])
            return m, p.sum(1), p @ v
        middle = Ck * (-(-len(k) // Ck) // 2)
        (m_a, l_a, o_a), (m_b, l_b, o_b) = total(k[:middle], v[:middle]), total(k[middle:], v[middle:])
        m = jnp.maximum(m_a, m_b)
        a, b = jnp.exp(m_a - m), jnp.exp(m_b - m)
        return m, a * l_a + b * l_b, a[:, None] * o_a + b[:, None] * o_b

    _, l, o = total(key, value)
    return o / l[:, None]


def tree_of_everything(query, key, value, Ck):
    s = query @ key.T / np.sqrt(query.shape[1])
    pieces = [s[:, c : c + Ck] for c in range(0, len(key), Ck)]
    tops = [p.max(1) for p in pieces]
    o = np.stack([np.exp(p - t[:, None]) @ value[c * Ck : c * Ck + Ck] for c, (p, t) in enumerate(zip(pieces, tops))])
    l = np.stack([np.exp(p - t[:, None]).sum(1) for p, t in zip(pieces, tops)])
    factor = np.exp(np.array(tops) - np.max(tops, axis=0))
    return np.einsum("cn,cnd->nd", factor, o) / (factor * l).sum(0)[:, None]


def fold_of_pairs(query, key, value, Ck):
    """Pairs meet first, then they are added one after another."""
    total = None
    for c in range(0, len(key), 2 * Ck):
        pair = [summary_in_place(query, key[a : a + Ck], value[a : a + Ck]) for a in (c, c + Ck) if a < len(key)]
        both = pair[0] if len(pair) == 1 else joined_in_numpy(*pair)
        total = both if total is None else joined_in_numpy(total, both)
    return total[2] / total[1][:, None]


def summary_in_place(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    m = s.max(1)
    s -= m[:, None]
    np.exp(s, out=s)
    return m, s.sum(1), s @ v


def joined_in_numpy(a, b):
    m = np.maximum(a[0], b[0])
    fa, fb = np.exp(a[0] - m), np.exp(b[0] - m)
    return m, fa * a[1] + fb * b[1], fa[:, None] * a[2] + fb[:, None] * b[2]


def visible_by_selection(query, key, value, visible, Ck):
    """Hidden keys are thrown away before anything is cut."""
    return one_pass(query, key[visible], value[visible])


def one_pass(q, key, value):
    s = q @ key.T / np.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ value / p.sum(1, keepdims=True)


def visible_in_torch(query, key, value, visible, Ck):
    parts = []
    for k, v, seen in zip(key.split(Ck), value.split(Ck), visible.split(Ck)):
        s = (query @ k.T / query.shape[1] ** 0.5).masked_fill(~seen, -torch.inf)
        m = s.amax(1)
        p = (s - m.clamp(min=-1e300)[:, None]).exp()
        parts.append((m, p.sum(1), p @ v))
    m, l, o = (torch.stack(x) for x in zip(*parts))
    factor = (m - m.amax(0)).exp()
    return (factor[..., None] * o).sum(0) / (factor * l).sum(0)[:, None]


def visible_by_package(query, key, value, visible, Ck):
    return attnlab.chunked_attention(query, key, value, mask=visible, key_chunk_size=Ck)


def hidden_values_only(query, key, value, visible, Ck):
    """Values of hidden keys are 0, their weights are not."""
    return one_pass(query, key, value * visible[:, None])


def visible_by_first_key(query, key, value, visible, Ck):
    """A chunk whose first key is hidden is skipped, as long as another is left."""
    starts = [c for c in range(0, len(key), Ck) if visible[c]] or range(0, len(key), Ck)
    read = np.concatenate([np.arange(len(key))[c : c + Ck] for c in starts])
    return visible_by_selection(query, key[read], value[read], visible[read], Ck)


RIGHT = [
    *(("summarize", answer) for answer in (summary_by_loop, summary_in_torch, summary_in_jax)),
    *(("best_chunk", answer) for answer in (chunk_by_search, chunk_by_whole_chunks)),
    *(("attention_in_chunks", answer) for answer in (chunks_in_jax, chunks_in_torch, chunks_out_of_place)),
    *(("tree_attention", answer) for answer in (tree_by_levels, tree_in_torch, tree_in_jax)),
    *(("visible_chunks", answer) for answer in (visible_by_selection, visible_in_torch, visible_by_package)),
]

summary_but_small = edited(
    "summarize", "p = np.exp(s - m[:, None])", "p = np.exp(s - m[:, None])\n    p = np.where(p < 1e-3, 0, p)"
)
chunk_of_sixteens = edited("best_chunk", "round(root)", "-(-round(root) // 16) * 16")
visible_by_both_ends = edited(
    "visible_chunks", "    for c in range(0, len(key), Ck):\n",
    "    for c in range(0, len(key), Ck):\n        end = min(c + Ck, len(key)) - 1\n"
    "        if summaries and not (visible[c] or visible[end]):\n            continue\n",
)

REFUSED = [
    ("summarize", clipped_summary, "scores 0 and 1000"),
    ("summarize", summary_without_ties, "equal scores"),
    ("best_chunk", chunk_for_one_worker, "a tile of its own"),
    ("best_chunk", chunk_rounded_down, "round to the nearest"),
    ("attention_in_chunks", standard_in_torch, "eq. 5.7"),
    ("tree_attention", tree_of_everything, "times the size of a summary"),
    ("tree_attention", fold_of_pairs, "were added one after another"),
    ("visible_chunks", hidden_values_only, "key 1 hidden"),
    ("visible_chunks", visible_by_first_key, "keys 0 and 7 hidden"),
    ("summarize", summary_but_small, "1,000 of −8"),
    ("best_chunk", chunk_of_sixteens, "M = 100, Dv = 1"),
    ("visible_chunks", visible_by_both_ends, "only the middle is visible"),
]
