"""Answers to the exercises of lesson 22: right ones, written in other ways, and ones to refuse."""

import math

import numpy as np

import attnlab
from attnlab.costs import ring as volumes
from attnlab.ring import Cluster, tree_attention
from attnlab.ring.programs import all_reduce, doubling, move_query
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
    narrow = {"keys": key_heads * keys * (d + dv), "query": query_heads * d}
    wide = {"tree": 2 * query_heads * (dv + 2), "query": query_heads * (dv + 1)}
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


def decode_at_home(cluster, q, k, v):
    """The query goes out, parts come back, and home tells the others what came out."""
    def program(rank, q, k, v):
        found = yield from move_query(rank, q, k, v)
        for other in range(1, rank.size if rank.index == 0 else 0):
            rank.send(found[0], to=other)
        return found[0] if found else (yield rank.receive(0))[0]

    return cluster.run(program, q, k, v)


def best_by_counting(devices, block, out, lse, latencies, bandwidths):
    """The clock of a cluster for each way, with messages of the right size; latency and bytes by themselves."""
    unit = math.gcd(block, out + lse)

    def sized(size, share=1):
        return np.zeros((devices, size // unit), np.int8)[: max(1, devices // share)]  # share 1: all of it

    def keys(rank):
        for _ in range(rank.size - 1):
            rank.send(sized(block), to=(rank.index + 1) % rank.size)
            yield rank.receive((rank.index - 1) % rank.size)

    def pairs(rank):
        distance = 1
        while distance < rank.size:
            rank.send(sized(out + lse), to=rank.index ^ distance)
            yield rank.receive(rank.index ^ distance)
            distance *= 2

    def halves(rank):
        shares = [2**n for n in range(1, rank.size.bit_length())]
        for share in shares + shares[::-1]:
            rank.send(sized(out + lse, share), to=rank.index ^ (rank.size // share))
            yield rank.receive(rank.index ^ (rank.size // share))

    def shot(rank):
        for turn in range(1, rank.size):
            rank.send(sized(out + lse), to=(rank.index + turn) % rank.size)
        for turn in range(1, rank.size):
            yield rank.receive((rank.index - turn) % rank.size)

    def clock(program, **link):
        cluster = Cluster(devices, **link)
        cluster.run(program)
        return cluster.time

    parts = [(clock(program, latency=1.0), unit * share / devices * clock(program, bandwidth=1.0))
             for program, share in ((keys, 1), (halves, 1), (pairs, 1), (shot, devices - 1))]
    seconds = [[[a * latency + b / bandwidth for a, b in parts] for bandwidth in bandwidths] for latency in latencies]
    return np.argmin(seconds, -1)


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


def fixed_with_one_maximum(cluster, q, k, v):
    """One maximum for all heads and sequences."""

    def program(rank, q, k, v):
        out, lse = rank.attend(*(x.swapaxes(1, 2) for x in (q, k, v)))
        m = yield from all_reduce(rank, lse.max(keepdims=True), np.maximum)
        weight = np.exp(lse - m)[..., None]
        above = yield from all_reduce(rank, weight * out, np.add)
        below = yield from all_reduce(rank, weight, np.add)
        return (above / below).swapaxes(1, 2)

    return cluster.run(program, q, k, v)


def fixed_by_gathering(cluster, q, k, v):
    """Every part goes all around, and every rank merges all of them."""

    def program(rank, q, k, v):
        out, lse = part = rank.attend(*(x.swapaxes(1, 2) for x in (q, k, v)))
        for _ in range(1, rank.size):
            rank.send(*part, to=(rank.index + 1) % rank.size)
            part = yield rank.receive((rank.index - 1) % rank.size)
            out, lse = attnlab.merge(out, lse, *part)
        return out.swapaxes(1, 2)

    return cluster.run(program, q, k, v)


RIGHT = [
    ("bytes_on_links", volume_by_package),
    ("bytes_on_links", volume_by_table),
    ("tree_decode", decode_by_package),
    ("tree_decode", decode_by_doubling),
    ("tree_decode", decode_at_home),
    ("cheapest_reduction", best_by_counting),
    ("cheapest_reduction", best_in_numpy),
    ("fixed_decode", fixed_by_package),
    ("fixed_decode", fixed_with_heads_first),
    ("fixed_decode", fixed_by_gathering),
]


def decode_shifted_by_the_mean(cluster, q, k, v):
    """The mean of all lse takes the place of their maximum."""

    def program(rank, q, k, v):
        out, lse = rank.attend(q, k, v)
        some = np.isfinite(lse)
        m = yield from all_reduce(rank, np.where(some, lse, 0), np.add)
        m = m / np.maximum((yield from all_reduce(rank, some.astype(float), np.add)), 1)
        weight = np.exp(lse - m)[..., None]
        both = yield from all_reduce(rank, np.concatenate([weight * out, weight], -1), np.add)
        return both[..., :-1] / np.where(both[..., -1:] > 0, both[..., -1:], 1)

    return cluster.run(program, q, k, v)


volume_with_twice_the_bytes = edited("bytes_on_links", "* accumulator", "* 2 * itemsize")
best_in_32_bits = edited("cheapest_reduction", "(P - 1) * (latency + block / bandwidth)",
                         "(P - 1) * latency + int(np.int64((P - 1) * block).astype(np.int32)) / bandwidth")


best_with_a_step_more = edited(
    "cheapest_reduction",
    "2 * math.log2(P) * latency",
    "(2 * math.log2(P) + 1) * latency",
)


REFUSED = [
    ("bytes_on_links", volume_of_a_device, "all links together"),
    ("cheapest_reduction", best_without_lse, "values of size 1"),
    ("fixed_decode", fixed_with_one_maximum, "ROWS"),
    ("bytes_on_links", volume_with_twice_the_bytes, "sums of 4 bytes"),
    ("tree_decode", decode_shifted_by_the_mean, "HIGH: the scores of the last key alone"),
    ("cheapest_reduction", best_in_32_bits, "2,097,152 keys"),
    ("cheapest_reduction", best_with_a_step_more, "those at index 1 are wrong"),
]
