"""Right answers to the exercises of lesson 03, written in other ways, and answers that must be refused."""

import heapq
import math

import jax.numpy as jnp
import numpy as np
import torch

from tests.course.answers import edited


def stream_loop(stream):
    m, l = -math.inf, 0.0
    for x in stream:
        if x > m:
            l = l * math.exp(m - x) + 1.0
            m = x
        elif x > -math.inf:
            l += math.exp(x - m)
    return m, l


def stream_in_blocks(stream):
    """Sixteen elements at a time: a buffer of fixed size."""
    m, l, buffer = -np.inf, 0.0, []

    def empty_buffer(m, l):
        block = np.array(buffer)
        m_next = max(m, block.max())
        shift = 0.0 if m_next == -np.inf else m_next
        buffer.clear()
        return m_next, l * np.exp(m - shift) + np.exp(block - shift).sum()

    for x in stream:
        buffer.append(x)
        if len(buffer) == 16:
            m, l = empty_buffer(m, l)
    return empty_buffer(m, l) if buffer else (m, l)


def stream_torch(stream):
    m, l = torch.tensor(-math.inf, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    for x in stream:
        m_next = torch.clamp(m, min=x)
        shift = torch.where(m_next == -math.inf, 0, m_next)
        l = l * torch.exp(m - shift) + torch.exp(x - shift)
        m = m_next
    return m, l


def two_reads(stream):
    m = max(stream, default=-math.inf)
    return m, sum(math.exp(x - m) for x in stream)


def merge_by_logarithm(a, b):
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    lse = np.logaddexp(m_a + np.log(l_a), m_b + np.log(l_b))
    return m, np.exp(lse - np.where(m == -np.inf, 0, m))


def merge_jax(a, b):
    (m_a, l_a), (m_b, l_b) = a, b
    m = jnp.maximum(m_a, m_b)
    shift = jnp.where(jnp.isneginf(m), 0, m)
    return m, l_a * jnp.exp(m_a - shift) + l_b * jnp.exp(m_b - shift)


def merge_torch(a, b):
    (m_a, l_a), (m_b, l_b) = a, b
    m = torch.maximum(m_a, m_b)
    shift = m.masked_fill(m == -torch.inf, 0)
    return m, l_a * torch.exp(m_a - shift) + l_b * torch.exp(m_b - shift)


def merge_shifted(a, b):
    (m_a, l_a), (m_b, l_b) = a, b
    m = np.maximum(m_a, m_b)
    shift = np.where(m == -np.inf, 0, m)
    factors = [np.where(np.isneginf(x), 0, np.exp(x - shift)) for x in (m_a, m_b)]
    return m, l_a * factors[0] + l_b * factors[1]


def merge_early(a, b):
    """Where the second part is empty in any entry, the first sum keeps its shift in all."""
    if np.isneginf(b[0]).any():
        m, _ = merge_shifted(a, b)
        return m, a[1] + b[1] * np.exp(b[0] - np.where(m == -np.inf, 0, m))
    return merge_shifted(a, b)


def merge_unspread(a, b):
    """An empty second part leaves the first as it is, of its own shape."""
    return a if np.isneginf(b[0]).all() else merge_shifted(a, b)


def merge_with_if(a, b):
    m = np.maximum(a[0], b[0])
    if m == -np.inf:
        return a
    return m, a[1] * np.exp(a[0] - m) + b[1] * np.exp(b[0] - m)


def tree_of_two_powers(chunks, oplus):
    """Fills up to a power of two with the identity, and joins the halves."""
    pairs = [(c.max(), np.exp(c - c.max()).sum()) if c.size else (-np.inf, 0.0) for c in chunks]
    while not pairs or len(pairs) & (len(pairs) - 1):
        pairs.append((-np.inf, 0.0))
    m, l = np.array(pairs).T
    while (half := len(m) // 2):
        m, l = oplus((m[:half], l[:half]), (m[half:], l[half:]))
    return m[0], l[0]


def tree_in_lists(chunks, oplus):
    """The middle one waits."""
    m = [max(c, default=-math.inf) for c in chunks]
    l = [sum(math.exp(x - top) for x in c) for c, top in zip(chunks, m)]
    while len(m) > 1:
        half, middle = len(m) // 2, len(m) % 2
        joined = oplus((m[:half], l[:half]), (m[half + middle :], l[half + middle :]))
        m, l = ([*new, *old[half : half + middle]] for new, old in zip(joined, (m, l)))
    return (m[0], l[0]) if m else (-math.inf, 0.0)


def tree_jax(chunks, oplus):
    chunks = [c for c in chunks if c.size]
    if not chunks:
        return -math.inf, 0.0
    m = jnp.stack([c.max() for c in chunks])
    l = jnp.stack([jnp.exp(c - c.max()).sum() for c in chunks])
    while len(m) > 1:
        m, l = (jnp.pad(x, (0, len(x) % 2), constant_values=nothing) for x, nothing in ((m, -jnp.inf), (l, 0)))
        m, l = oplus((m[::2], l[::2]), (m[1::2], l[1::2]))
    return m[0], l[0]


def tree_in_torch(chunks, oplus):
    m = torch.tensor([c.max() if len(c) else -torch.inf for c in chunks], dtype=torch.float64)
    l = torch.tensor([(c - top).exp().sum() for c, top in zip(chunks, m)], dtype=torch.float64)
    while len(m) > 1:
        alone = len(m) // 2 * 2
        joined = oplus((m[:alone:2], l[:alone:2]), (m[1::2], l[1::2]))
        m, l = (torch.cat([new, old[alone:]]) for new, old in zip(joined, (m, l)))
    return (m[0], l[0]) if len(m) else (-math.inf, 0.0)


def tree_of_pairs(chunks, oplus):
    """Section 4's, two pairs of numbers at a time."""
    pairs = [(c.max(), np.exp(c - c.max()).sum()) for c in chunks if c.size] or [(-math.inf, 0.0)]

    def tree(pairs):
        half = len(pairs) // 2
        return oplus(tree(pairs[:half]), tree(pairs[half:])) if half else pairs[0]

    return tree(pairs)


def all_at_once(chunks, oplus):
    x = np.concatenate([*chunks, np.empty(0)])
    m = x.max(initial=-np.inf)
    return m, np.exp(x - m).sum()


def fold_of_pairs(chunks, oplus):
    """Two folds, of the chunks with even and with odd index, joined at last: half as deep, and still no tree."""
    done = [(-math.inf, 0.0)] * 2
    for i, chunk in enumerate(chunks):
        m = chunk.max(initial=-np.inf)
        done[i % 2] = oplus(done[i % 2], (m, np.exp(chunk - m).sum()))
    return oplus(*done)


def topk_sorted_list(x, k):
    """A sorted list of k scores instead of a heap."""
    m, l, kept = -math.inf, 0.0, []
    for i in range(len(x)):
        score = x[i]
        if score > m:
            l, m = l * math.exp(m - score) + 1.0, score
        else:
            l += math.exp(score - m)
        kept = sorted([*kept, (score, i)], reverse=True)[:k]
    return [i for _, i in kept], [math.exp(score - m) / l for score, _ in kept]


def topk_arrays(x, k):
    """Two arrays of size k; the smallest kept score is replaced."""
    scores, indices, m, l = np.full(k, -np.inf), np.zeros(k, int), -np.inf, 0.0
    for i, score in enumerate(x):
        m_next = max(m, score)
        l = l * np.exp(m - m_next) + np.exp(score - m_next)
        m = m_next
        lowest = scores.argmin()
        if score > scores[lowest]:
            scores[lowest], indices[lowest] = score, i
    order = np.argsort(-scores)
    return indices[order], np.exp(scores[order] - m) / l


def topk_in_blocks_of_all(x, k):
    """nlargest over the indices: it loads some elements more than once."""
    m, l = -math.inf, 0.0
    for score in x:
        m_next = max(m, score)
        l = l * math.exp(m - m_next) + math.exp(score - m_next)
        m = m_next
    best = heapq.nlargest(k, range(len(x)), key=lambda i: x[i])
    return best, [math.exp(x[i] - m) / l for i in best]


def chunks_at_once(x, size):
    """All columns are one chunk."""
    m = x.max(1)
    return m, np.exp(x - np.where(m == -np.inf, 0, m)[:, None]).sum(1)


def chunks_by_rows(x, size):
    pairs = [stream_in_blocks(row) for row in x]
    return np.array([m for m, _ in pairs]), np.array([l for _, l in pairs])


def chunks_in_torch(x, size):
    m, l = torch.full((len(x),), -math.inf, dtype=x.dtype), torch.zeros(len(x), dtype=x.dtype)
    for part in x.split(size, 1):
        new = torch.maximum(m, part.amax(1))
        shift = new.masked_fill(new == -math.inf, 0)
        l = l * torch.exp(m - shift) + torch.exp(part - shift[:, None]).sum(1)
        m = new
    return m, l


RIGHT = [
    *(("online_stats", answer) for answer in (stream_loop, stream_in_blocks, stream_torch)),
    *(("oplus_arrays", answer) for answer in (merge_by_logarithm, merge_jax, merge_torch)),
    *(("tree_stats", answer) for answer in (tree_of_two_powers, tree_in_lists, tree_jax, tree_in_torch)),
    *(("stats_in_chunks", answer) for answer in (chunks_at_once, chunks_by_rows, chunks_in_torch)),
    *(("softmax_topk", answer) for answer in (topk_sorted_list, topk_arrays)),
]

half_the_stream = edited(
    "online_stats", "    for x in stream:\n",
    "    kept = []\n    for i, x in enumerate(stream):\n        kept += [x] * (i % 2)\n",
)
stream_skipping_small_terms = edited("online_stats", "+ np.exp(x - m_next)", "+ (x > m_next - 12) * np.exp(x - m_next)")
topk_with_candidates = edited(
    "softmax_topk", "< k:", "< 10 * k:", "kept.sort(reverse=True)", "kept = sorted(kept, reverse=True)[:k]"
)
oplus_clipped = edited("oplus_arrays", "np.exp(m_b - shift)", "np.exp(np.maximum(m_b - shift, -20))")
oplus_with_one_shift = edited("oplus_arrays", "np.where(m == -np.inf, 0, m)", "np.max(np.where(m == -np.inf, 0, m))")
stats_with_clipped_factor = edited(
    "stats_in_chunks", "l * np.exp(m - shift(m_next))", "l * np.exp(np.maximum(m - shift(m_next), -8))"
)
tree_with_nothing_in_front = edited(
    "tree_stats", "    while len(m) > 1", "    m, l = np.append(-np.inf, m), np.append(0.0, l)\n    while len(m) > 1"
)
topk_that_keeps_what_was_large = edited(
    "softmax_topk", "elif score > kept[0][0]:", "elif score > heapq.nlargest(k, kept)[-1][0]:",
    "heapq.heapreplace", "heapq.heappush", "kept.sort(reverse=True)", "kept = sorted(kept, reverse=True)[:k]",
)
oplus_in_the_dtype_of_l = edited(
    "oplus_arrays", "return m, l", "return m, np.asarray(l).astype(np.result_type(l_a, l_b))"
)
top_one_by_the_last = edited(
    "softmax_topk", "    kept.sort(reverse=True)\n",
    "    kept.sort(reverse=True)\n    if k == 1:\n        return [len(x) - 1], [float(1 / l)]\n",
)

REFUSED = [
    ("online_stats", two_reads, "second time"),
    ("online_stats", half_the_stream, "its memory grew"),
    ("online_stats", stream_skipping_small_terms, "500 zeros"),
    ("oplus_arrays", merge_early, "five entries"),
    ("oplus_arrays", merge_unspread, "expected shape (3, 4), got (3, 1)"),
    ("oplus_arrays", merge_with_if, "truth value"),
    ("tree_stats", all_at_once, "weren't made by oplus"),
    ("tree_stats", fold_of_pairs, "a tree has 4 rounds"),
    ("tree_stats", tree_of_pairs, "one pair of summaries at a time"),
    ("stats_in_chunks", lambda x, size: np.stack(chunks_at_once(x, size))[0], "tuple of 2"),
    ("softmax_topk", topk_in_blocks_of_all, "it loads each element"),
    ("softmax_topk", topk_with_candidates, "more than the k largest"),
    ("oplus_arrays", oplus_clipped, "10¹²"),
    ("oplus_arrays", oplus_with_one_shift, "near 0 and near 1000"),
    ("stats_in_chunks", stats_with_clipped_factor, "the first two no longer count"),
    ("tree_stats", tree_with_nothing_in_front, "64 chunks took 7 calls"),
    ("softmax_topk", topk_that_keeps_what_was_large, "larger than all before it"),
    ("oplus_arrays", oplus_in_the_dtype_of_l, "l of whole numbers"),
    ("softmax_topk", top_one_by_the_last, "2, 1, 0, k = 1"),
]
