"""Answers to the exercises of lesson 23: right ones, written in other ways, and ones to refuse."""

import numpy as np

from tests.course.answers import edited


def sequences_by_search(memory, weights, windows, length, kv_heads, d, itemsize, block):
    """By bisection."""
    def needed(count):
        whole = (length + block - 1) // block * block
        slots = [whole if window is None else window if window < length else length for window in windows]
        return weights + count * sum(slots) * kv_heads * 2 * d * itemsize

    low, high = 0, 2**40
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle) <= memory else (low, middle - 1)
    return low


def sequences_by_parts(memory, weights, windows, length, kv_heads, d, itemsize, block):
    token = 2 * itemsize * kv_heads * d
    near = sum(min(window, length) for window in windows if window is not None)
    far = windows.count(None) * int(np.ceil(length / block)) * block
    return max(0, int((memory - weights) // (token * (near + far))))


def largest_batch(plan, memory, bandwidth, flops, wait):
    """The largest batch that is allowed, in closed form."""
    weights, cache, _ = plan
    limits = ((memory - weights) / cache, (wait * bandwidth - weights) / cache, wait * flops / weights)
    return int(np.floor(min(limits) + 1e-9))


def choose_in_closed_form(plans, memory, bandwidth, flops, wait, bits):
    found = []
    for index, plan in enumerate(plans):
        batch = largest_batch(plan, memory, bandwidth, flops, wait)
        if plan[2] <= bits and batch > 0:
            seconds = max((plan[0] + batch * plan[1]) / bandwidth, batch * plan[0] / flops)
            found.append((batch / seconds, index, batch))
    return max(found)[1:] if found else (-1, 0)


def choose_in_numpy(plans, memory, bandwidth, flops, wait, bits):
    weights, cache, paid = np.array(plans).T[:, :, None]
    batch = np.arange(1, 3000)
    seconds = np.maximum((weights + batch * cache) / bandwidth, batch * weights / flops)
    allowed = (weights + batch * cache <= memory) & (seconds <= wait) & (paid <= bits)
    rate = np.where(allowed, batch / seconds, 0)
    index, at = np.unravel_index(rate.argmax(), rate.shape)
    return (int(index), int(batch[at])) if allowed.any() else (-1, 0)


def phi(x):
    return np.maximum(x, 0) + np.exp(np.minimum(x, 0))


def hybrid_token_by_token(q, k, v, keys, values, U, Z, window):
    rows = []
    for t in range(len(q)):
        keys, values = np.vstack([keys, k[t]]), np.vstack([values, v[t]])
        if len(keys) > window:
            U, Z = U + np.outer(phi(keys[0]), values[0]), Z + phi(keys[0])
            keys, values = keys[1:], values[1:]
        p = np.exp(keys @ q[t] / np.sqrt(q.shape[1]))
        rows.append((p @ values + phi(q[t]) @ U) / (p.sum() + phi(q[t]) @ Z))
    return np.array(rows), keys, values, U, Z


def hybrid_by_weights(q, k, v, keys, values, U, Z, window):
    """One table of weights, old and new keys side by side, with the state as one row of its own."""
    both, C = np.r_[keys, k], len(q)
    distance = np.arange(len(both) - C, len(both))[:, None] - np.arange(len(both))
    a = np.exp(q @ both.T / q.shape[1] ** 0.5)
    a[distance >= window] = (phi(q) @ phi(both).T)[distance >= window]
    a[distance < 0] = 0
    all_values = np.r_[values, v]
    out = np.einsum("ij,jd->id", a, all_values) + np.einsum("if,fd->id", phi(q), U)
    out = out / (a.sum(1, keepdims=True) + (phi(q) * Z).sum(1, keepdims=True))
    leave = max(0, len(both) - window)
    for x, y in zip(phi(both[:leave]), all_values[:leave]):
        U, Z = U + x[:, None] * y, Z + x
    return out, both[leave:], all_values[leave:], U, Z


def windowed_append_by_keys(table, length, free, count, size, window):
    """Block by block: is there a key that a new token sees?"""
    seen = {key // size for token in range(length, length + count) for key in range(max(token - window + 1, 0), token)}
    gone = [b for b in range(len(table)) if b not in seen and (b + 1) * size <= length and table[b] != -1]
    kept = [-1 if b in gone else block for b, block in enumerate(table)]
    more = -(-(length + count) // size) - len(kept)
    pool = [*free, *(table[b] for b in gone)]
    return [*kept, *pool[:more]], pool[more:]


def windowed_append_in_pieces(table, length, free, count, size, window):
    """What has left, what stays, what is new."""
    left = max(length - window + 1, 0) // size
    pool = free + [block for block in table[:left] if block >= 0]
    more = max(-(-(length + count) // size) - len(table), 0)
    return [-1] * left + table[left:] + pool[:more], pool[more:]


RIGHT = [
    ("sequences", sequences_by_search),
    ("sequences", sequences_by_parts),
    ("choose_deployment", choose_in_closed_form),
    ("choose_deployment", choose_in_numpy),
    ("fixed_hybrid", hybrid_token_by_token),
    ("fixed_hybrid", hybrid_by_weights),
    ("windowed_append", windowed_append_by_keys),
    ("windowed_append", windowed_append_in_pieces),
]


def windowed_append_of_one_block(table, length, free, count, size, window):
    """As if a block left at each append, and never two."""
    table, free, first = list(table), list(free), (length - window + 1) // size - 1
    if first >= 0 and table[first] >= 0:
        free, table[first] = [*free, table[first]], -1
    while len(table) * size < length + count:
        table.append(free.pop(0))
    return table, free


sequences_one_at_least = edited(
    "sequences", "max(memory - weights, 0) // each", "max((memory - weights) // each, int(memory >= weights))"
)
sequences_of_two_bytes = edited("sequences", "d * itemsize", "d * max(itemsize, 2)")
choose_nearly_in_time = edited("choose_deployment", "seconds <= wait", "seconds <= 1.001 * wait")
choose_by_rounded_bits = edited("choose_deployment", "paid <= bits", "round(paid, 2) <= round(bits, 2)")
hybrid_clipped = edited("fixed_hybrid", "/ math.sqrt(q.shape[1])", "/ math.sqrt(q.shape[1]); s = np.minimum(s, 20)")


REFUSED = [
    ("windowed_append", windowed_append_of_one_block, "two leave at once"),
    ("sequences", sequences_one_at_least, "half a sequence"),
    ("sequences", sequences_of_two_bytes, "1 byte a number"),
    ("choose_deployment", choose_nearly_in_time, "a thousandth too short"),
    ("choose_deployment", choose_by_rounded_bits, "1.204 bits"),
    ("fixed_hybrid", hybrid_clipped, "5 times as large"),
]
