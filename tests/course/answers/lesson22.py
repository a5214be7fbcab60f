"""Answers to the exercises of lesson 22: right ones, written in other ways, and ones to refuse."""

import numpy as np

from attnlab.costs import ring as volumes
from attnlab.ring import tree_attention
from attnlab.ring.programs import all_reduce, doubling
from tests.course.answers import edited


def volume_by_package(kind, devices, batch, query_heads, key_heads, keys, d, dv, itemsize, accumulator):
    rows = batch * query_heads
    if kind == "keys":
        return volumes.keys_bytes(devices, keys, batch * key_heads, d, dv, itemsize=itemsize)
    if kind == "tree":
        return volumes.tree_bytes(devices, rows, dv, accumulator=accumulator)
    return volumes.query_bytes(devices, rows, d, dv, itemsize=itemsize, accumulator=accumulator)


def volume_by_table(kind, devices, batch, query_heads, key_heads, keys, d, dv, itemsize, accumulator):
    """For each sequence: numbers of the inputs and of the accumulation dtype that a device sends."""
    narrow = {"keys": key_heads * keys * (d + dv), "heads": query_heads * d}
    wide = {"tree": 2 * query_heads * (dv + 2), "heads": query_heads * (dv + 1)}
    return (devices - 1) * batch * (narrow.get(kind, 0) * itemsize + wide.get(kind, 0) * accumulator)


def volume_of_a_device(kind, *sizes):
    """What each device sends, on average."""
    return volume_by_package(kind, *sizes) / sizes[0]


def decode_by_package(cluster, q, k, v):
    def program(rank, q, k, v):
        return (yield from tree_attention(q, k, v, group=rank))

    return cluster.run(program, q, k, v)


def decode_by_doubling(cluster, q, k, v):
    def program(rank, q, k, v):
        return (yield from doubling(rank, *rank.attend(q, k, v)))[0]

    return cluster.run(program, q, k, v)


def best_by_messages(devices, block, out, lse, latencies, bandwidths):
    """What waits and what travels in each way, once for all links."""
    log, both = devices.bit_length() - 1, out + lse
    ways = [(devices - 1, (devices - 1) * block), (2 * log, 2 * both * (devices - 1) / devices), (log, log * both),
            (1, (devices - 1) * both)]
    return [[min(range(4), key=lambda way: ways[way][0] * latency + ways[way][1] / bandwidth)
             for bandwidth in bandwidths] for latency in latencies]


def best_in_numpy(devices, block, out, lse, latencies, bandwidths):
    a, w = np.meshgrid(latencies, bandwidths, indexing="ij")
    others, log = devices - 1, np.log2(devices)
    keys, pairs = others * (a + block / w), log * (a + (out + lse) / w)
    halves = 2 * sum(a + (out + lse) / 2**n / w for n in range(1, int(log) + 1))
    return np.stack([keys, halves, pairs, a + others * (out + lse) / w]).argmin(0)


def fixed_by_package(cluster, q, k, v):
    def program(rank, q, k, v):
        out = yield from tree_attention(*(x.swapaxes(1, 2) for x in (q, k, v)), group=rank)
        return out.swapaxes(1, 2)

    return cluster.run(program, q, k, v)


def fixed_with_heads_first(cluster, q, k, v):
    """The axes stay as attend gives them until the end."""
    def program(rank, q, k, v):
        out, lse = rank.attend(*(x.swapaxes(1, 2) for x in (q, k, v)))
        m = yield from all_reduce(rank, lse, np.maximum)
        weight = np.exp(lse - m)[..., None]
        sums = yield from all_reduce(rank, np.concatenate([weight * out, weight], -1), np.add)
        return np.einsum("bhnd->bnhd", sums[..., :-1] / sums[..., -1:])

    return cluster.run(program, q, k, v)


def best_without_lse(devices, block, out, lse, latencies, bandwidths):
    """The lse does not travel."""
    return best_in_numpy(devices, block, out, 0, latencies, bandwidths)


RIGHT = [
    ("bytes_on_links", volume_by_package),
    ("bytes_on_links", volume_by_table),
    ("tree_decode", decode_by_package),
    ("tree_decode", decode_by_doubling),
    ("cheapest_reduction", best_by_messages),
    ("cheapest_reduction", best_in_numpy),
    ("fixed_decode", fixed_by_package),
    ("fixed_decode", fixed_with_heads_first),
]

LARGEST = "all_reduce(rank, lse, np.maximum)"
fixed_with_one_maximum = edited("fixed_decode", LARGEST, "all_reduce(rank, lse.max(keepdims=True), np.maximum)")
decode_shifted_by_the_mean = edited(  # of those that see a key
    "tree_decode", LARGEST, "all_reduce(rank, np.where(np.isfinite(lse), lse, 0), np.add)\n"
    "        m = m / np.maximum((yield from all_reduce(rank, np.isfinite(lse).astype(float), np.add)), 1)",
)
volume_without_the_queries = edited("bytes_on_links", "d * itemsize + ", "")
volume_with_twice_the_bytes = edited("bytes_on_links", "* accumulator", "* 2 * itemsize")
best_in_32_bits = edited("cheapest_reduction", "(P - 1) * (latency + block / bandwidth)",
                         "(P - 1) * latency + int(np.int64((P - 1) * block).astype(np.int32)) / bandwidth")
best_with_a_step_more = edited("cheapest_reduction", "2 * math.log2(P) * latency", "(2 * math.log2(P) + 1) * latency")

REFUSED = [
    ("bytes_on_links", volume_of_a_device, "all links together"),
    ("cheapest_reduction", best_without_lse, "values of size 1"),
    ("fixed_decode", fixed_with_one_maximum, "ROWS"),
    ("bytes_on_links", volume_without_the_queries, "A query goes out"),
    ("bytes_on_links", volume_with_twice_the_bytes, "sums of 4 bytes"),
    ("tree_decode", decode_shifted_by_the_mean, "HIGH: the scores of the last key alone"),
    ("cheapest_reduction", best_in_32_bits, "2,097,152 keys"),
    ("cheapest_reduction", best_with_a_step_more, "those at index 0 are wrong"),
]
