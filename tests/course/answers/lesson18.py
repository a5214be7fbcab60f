"""Answers to the exercises of lesson 18: right ones, written in other ways, and ones to refuse."""

import copy
import itertools

import numpy as np
import torch

import attnlab.linear
from attnlab.linear import Hedgehog, linear_attention
from tests.course.answers import edited


def loss_by_package(q, k, w_q, w_k):
    return attnlab.linear.hedgehog_loss(q[None], k[None], Hedgehog(w_q[None], w_k[None]), causal=True)


def loss_in_torch(q, k, w_q, w_k):
    hidden = torch.ones(len(q), len(k), dtype=torch.bool).triu(1)
    s = (q @ k.T / q.shape[1] ** 0.5).masked_fill(hidden, -torch.inf)
    u, t = q @ w_q, k @ w_k
    log_a = torch.logsumexp(torch.cat([u[:, None] + t, -u[:, None] - t], -1), -1).masked_fill(hidden, -torch.inf)
    return -(s.softmax(1) * log_a.log_softmax(1).masked_fill(hidden, 0)).sum(1).mean()


def monotone_by_pairs(s, a):
    there = (s[:, :, None] < s[:, None, :]) & (a[:, :, None] > a[:, None, :])
    return tuple(np.argwhere(there)[0]) if there.any() else True


def monotone_by_running_maximum(s, a):
    """The largest weight among all keys of smaller scores, group by group of equal scores."""
    for i in range(len(s)):
        best = None
        for score in np.unique(s[i]):
            group = np.flatnonzero(s[i] == score)
            low = group[a[i, group].argmin()]
            if best is not None and a[i, best] > a[i, low]:
                return i, int(best), int(low)
            top = group[a[i, group].argmax()]
            best = top if best is None or a[i, top] > a[i, best] else best
    return True


def monotone_in_plain_python(s, a):
    for i, (score, weight) in enumerate(zip(s.tolist(), a.tolist())):
        order = sorted(range(len(score)), key=lambda j: (score[j], weight[j]))
        for j, r in itertools.pairwise(order):
            if weight[j] > weight[r]:
                return i, j, r
    return True


def batch_row_by_row(rng, size, pairs, length, half):
    tokens, targets = [], []
    for _ in range(size):
        keys = rng.choice(half, size=pairs, replace=False)
        table = dict(zip(keys.tolist(), rng.integers(half, 2 * half, size=pairs).tolist()))
        asked = rng.choice(keys, size=length - 2 * pairs).tolist()
        tokens.append([x for pair in table.items() for x in pair] + asked)
        targets.append([-1] * (2 * pairs) + [table[key] for key in asked])
    return tokens, targets


def batch_by_sorting(rng, size, pairs, length, half):
    keys = rng.random((size, half)).argsort(1)[:, :pairs]
    values = half + rng.integers(half, size=(size, pairs))
    asked = rng.integers(pairs, size=(size, length - 2 * pairs))
    questions, answers = (np.take_along_axis(x, asked, 1) for x in (keys, values))
    pairs_of = np.dstack([keys, values]).reshape(size, -1)
    return np.hstack([pairs_of, questions]), np.hstack([0 * pairs_of - 1, answers])


def map_by_package(q, k, v, w, C):
    """Factors that cancel, in the features given to linear_attention."""
    top = np.abs(k @ w).max()

    def of_keys(x):
        return np.concatenate([np.exp(x @ w - top), np.exp(-x @ w - top)], -1)

    def of_queries(x):
        y = np.concatenate([x @ w, -x @ w], -1)
        return np.exp(y - y.max(-1, keepdims=True))

    return linear_attention(q, k, v, features=(of_queries, of_keys))


def map_in_torch(q, k, v, w, C):
    y, z = q @ w, k @ w
    phi_q = torch.cat([y, -y], 1).softmax(1)  # divided by a number of each query
    phi_k = torch.cat([z, -z], 1).flatten().softmax(0).reshape(len(k), -1)  # by one number for all keys
    a = phi_q @ phi_k.T
    return a @ v / a.sum(1, keepdim=True)


def monotone_within_a_millionth(s, a):
    found = np.argwhere((s[:, :, None] < s[:, None] - 1e-6) & (a[:, :, None] > a[:, None] + 1e-6))
    return tuple(found[0]) if len(found) else True


def monotone_by_a_product(s, a):
    """The product of two small differences is 0."""
    for i, j, r in np.ndindex(*s.shape, s.shape[1]):
        if s[i, j] < s[i, r] and (s[i, r] - s[i, j]) * (a[i, r] - a[i, j]) < 0:
            return i, j, r
    return True


def batch_from_a_copy(rng, *sizes):
    """The generator of the caller stays where it is."""
    return batch_by_sorting(copy.deepcopy(rng), *sizes)


def batch_in_bytes(rng, *sizes):
    """Tokens above 127 become negative."""
    return tuple(x.astype(np.int8) for x in batch_by_sorting(rng, *sizes))


def batch_of_parities(rng, size, pairs, length, half):
    """A value is even where its key is."""
    tokens, targets = batch_by_sorting(rng, size, pairs, length, half)
    keys, values = tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2]
    values[:] = np.minimum(half + (values - half) // 2 * 2 + keys % 2, 2 * half - 1)
    place = (tokens[:, 2 * pairs :, None] == keys[:, None]).argmax(-1)
    targets[:, 2 * pairs :] = np.take_along_axis(values, place, 1)
    return tokens, targets


def map_in_long_double(q, k, v, w, C):
    """No guard; the exponentials end at e^11356."""
    y, z = (np.concatenate([x @ w, -x @ w], 1).astype(np.longdouble) for x in (q, k))
    with np.errstate(all="ignore"):
        a = np.exp(y) @ np.exp(z).T
        return (a @ v / a.sum(1, keepdims=True)).astype(float)


def map_in_single_precision(q, k, v, w, C):
    """Products of guarded features below 10^−45 are 0."""
    y, z = (np.concatenate([x @ w, -x @ w], 1) for x in (q, k))
    phi_q, phi_k = (np.exp(x.astype(np.float32)) for x in (y - y.max(1, keepdims=True), z - z.max()))
    a = phi_q @ phi_k.T
    with np.errstate(all="ignore"):
        return a @ v / a.sum(1, keepdims=True)


def batch_with(
    drawn=lambda rng, shape, half: rng.integers(half, size=shape),
    asked=lambda rng, pairs, count: rng.integers(pairs, size=count),
):
    """Batches with other values or other questions than the task's."""

    def mqar_batch(rng, size, pairs, length, half):
        keys = rng.permuted(np.tile(np.arange(half), (size, 1)), axis=1)[:, :pairs]
        values = half + drawn(rng, (size, pairs), half)
        place = np.stack([asked(rng, pairs, length - 2 * pairs) for _ in range(size)])
        known = np.stack([keys, values], 2).reshape(size, -1)
        found = np.take_along_axis(keys, place, 1), np.take_along_axis(values, place, 1)
        return np.hstack([known, found[0]]), np.hstack([np.full_like(known, -1), found[1]])

    return mqar_batch


batch_of_one_row_of_values = batch_with(
    lambda rng, shape, half: np.tile(rng.integers(half, size=shape[1]), (shape[0], 1))
)
batch_without_the_last_value = batch_with(lambda rng, shape, half: rng.integers(half - 1, size=shape))
batch_of_different_values = batch_with(
    lambda rng, shape, half: rng.permuted(np.tile(np.arange(half), (shape[0], 1)), axis=1)[:, : shape[1]]
)
batch_asked_equally = batch_with(asked=lambda rng, pairs, count: rng.permutation(np.arange(count) % pairs))
batch_of_one_value_a_row = batch_with(
    lambda rng, shape, half: np.repeat(rng.integers(half, size=(shape[0], 1)), shape[1], 1)
)
batch_asked_twice = batch_with(asked=lambda rng, pairs, count: np.repeat(rng.integers(pairs, size=count), 2)[:count])
batch_without_the_last_pair = batch_with(
    asked=lambda rng, pairs, count: rng.integers(max(1, pairs - 1), size=count)
)


def map_by_order(q, k, maps, allowed):
    """From few features to many; the first that is near."""
    s = q @ k.T / q.shape[1] ** 0.5
    log_p = s - s.max(1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(1, keepdims=True))
    for number in sorted(range(len(maps)), key=lambda n: maps[n](k[:1]).shape[1]):
        a = np.einsum("if, jf -> ij", maps[number](q), maps[number](k))
        if a.min() > 0:
            kl = np.exp(log_p) * (log_p - np.log(a) + np.log(a.sum(1, keepdims=True)))
            if kl.sum(1).mean() <= allowed:
                return number
    return -1


def map_by_distance(q, k, maps, allowed):
    """Near by the largest difference of a weight."""
    p = np.exp(q @ k.T / q.shape[1] ** 0.5)
    p, best = p / p.sum(1, keepdims=True), -1
    for number, phi in enumerate(maps):
        a = phi(q) @ phi(k).T
        near = a.min() > 0 and abs(p - a / a.sum(1, keepdims=True)).max() <= allowed
        if near and (best < 0 or phi(k).shape[1] < maps[best](k).shape[1]):
            best = number
    return best


def map_query_by_query(q, k, maps, allowed):
    """A loop over queries."""
    near = []
    for number, phi in enumerate(maps):
        total = 0.0
        for x in q:
            s = k @ x / len(x) ** 0.5
            p = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
            a = phi(k) @ phi(x[None])[0]
            if a.min() <= 0:
                total = np.inf
                break
            a = a / a.sum()
            total += p[p > 0] @ np.log(p[p > 0] / a[p > 0])
        if total / len(q) <= allowed:
            near.append((phi(k).shape[1], number))
    return min(near)[1] if near else -1


RIGHT = [
    ("pick_map", map_query_by_query),
    ("pick_map", map_by_order),
    ("hedgehog_loss", loss_by_package),
    ("hedgehog_loss", loss_in_torch),
    ("is_monotone", monotone_in_plain_python),
    ("is_monotone", monotone_by_running_maximum),
    ("mqar_batch", batch_row_by_row),
    ("mqar_batch", batch_by_sorting),
    ("fixed_map", map_by_package),
    ("fixed_map", map_in_torch),
]


loss_clipped = edited("hedgehog_loss", "q @ w_q", "np.clip(q @ w_q, -10, 10)")
monotone_of_positive_weights = edited(
    "is_monotone", "weight[:-1] > weight[1:]", "(weight[:-1] > weight[1:]) & (weight[:-1] > 0)"
)


batch_of_sorted_keys = edited(
    "mqar_batch", "rng.permuted(np.tile(np.arange(half), (size, 1)), axis=1)[:, :pairs]",
    "np.sort(rng.permuted(np.tile(np.arange(half), (size, 1)), axis=1)[:, :pairs], axis=1)"
)
batch_of_early_pairs = edited(
    "mqar_batch", "rng.integers(pairs, size=(size, length - 2 * pairs))",
    "(pairs * rng.random((size, length - 2 * pairs)) ** 1.6).astype(int)"
)
batch_of_two_halves = edited(
    "mqar_batch", "    tokens = np.full",
    "    asked[size // 2 : size // 2 * 2] = asked[: size // 2]\n    tokens = np.full"
)
monotone_of_finite_scores = edited(
    "is_monotone", "np.flatnonzero(weight[:-1] > weight[1:])",
    "np.flatnonzero((weight[:-1] > weight[1:]) & np.isfinite(score[:-1]))"
)


batch_with_questions_of_one_seed = edited(
    "mqar_batch", "rng.integers(pairs, size=(size, length - 2 * pairs))",
    "np.random.default_rng(0).integers(pairs, size=(size, length - 2 * pairs))"
)


REFUSED = [
    ("pick_map", map_by_distance, "expected"),
    ("is_monotone", monotone_by_pairs, "a table of all pairs"),
    ("is_monotone", monotone_within_a_millionth, "by a billionth"),
    ("mqar_batch", batch_of_one_row_of_values, "all rows have the same values"),
    ("mqar_batch", batch_without_the_last_value, "is never drawn"),
    ("mqar_batch", batch_of_different_values, "has a value twice"),
    ("mqar_batch", batch_asked_equally, "equally often"),
    ("is_monotone", monotone_by_a_product, "as small as 10^−170"),
    ("mqar_batch", batch_from_a_copy, "gives the same batch"),
    ("mqar_batch", batch_in_bytes, "int8 ends at 127"),
    ("mqar_batch", batch_of_parities, "each key has only some of the values"),
    ("mqar_batch", batch_of_one_value_a_row, "one value for all of its keys"),
    ("mqar_batch", batch_asked_twice, "are about the same pair"),
    ("mqar_batch", batch_without_the_last_pair, "pair 2 of 2 is never asked for"),
    ("fixed_map", map_in_long_double, "NaN wherever it is wrong"),
    ("fixed_map", map_in_single_precision, "keys near −150"),
    ("hedgehog_loss", loss_clipped, "xW"),
    ("is_monotone", monotone_of_positive_weights, "either sign"),
    ("mqar_batch", batch_of_sorted_keys, "sorted"),
    ("mqar_batch", batch_of_early_pairs, "asked for"),
    ("mqar_batch", batch_of_two_halves, "questions of different rows"),
    ("is_monotone", monotone_of_finite_scores, "−∞"),
    ("mqar_batch", batch_with_questions_of_one_seed, "the same pairs asked for"),
]
