"""Answers to the exercises of lesson 23: right ones, written in other ways, and ones to refuse."""

import numpy as np

from tests.course.answers import edited


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
    ("choose_deployment", choose_in_closed_form),
    ("choose_deployment", choose_in_numpy),
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


choose_nearly_in_time = edited("choose_deployment", "seconds <= wait", "seconds <= 1.001 * wait")
choose_by_rounded_bits = edited("choose_deployment", "paid <= bits", "round(paid, 2) <= round(bits, 2)")


REFUSED = [
    ("windowed_append", windowed_append_of_one_block, "two leave at once"),
    ("choose_deployment", choose_nearly_in_time, "a thousandth too short"),
    ("choose_deployment", choose_by_rounded_bits, "1.204 bits"),
]
