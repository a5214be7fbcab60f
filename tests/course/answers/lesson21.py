"""Answers to the exercises of lesson 21: right ones, written in other ways, and ones to refuse."""

import math
from fractions import Fraction

import numpy as np

import attnlab
from attnlab.ring import positions, ring_attention, shard
from tests.course.answers import edited


def holder_by_moving(device, step, devices, ahead):
    """The blocks move, one send after another."""
    here = list(range(devices))
    for _ in range(step):
        here = [here[(d - ahead) % devices] for d in range(devices)]
    return here[device]


def holder_the_long_way_round(device, step, devices, ahead):
    return (device + (devices - 1) * step * ahead) % devices


def holder_as_printed(device, step, devices, ahead):
    """(21.1), whoever is sent to."""
    return (device - step) % devices


def holder_for_one_turn(device, step, devices, ahead):
    """Right for less than one turn."""
    back = step * ahead
    return device - back if device >= back else device - back + devices


def plan_in_fractions(tokens, devices, query_heads, key_heads, flops, bandwidth):
    """The same sums without rounding, from the largest group down."""
    chunk, R, W = Fraction(tokens, devices), Fraction(flops), Fraction(bandwidth)
    best = None
    for g in sorted(range(1, math.gcd(devices, key_heads) + 1), reverse=True):
        if math.gcd(devices, key_heads) % g == 0:
            block, products = 4 * chunk * key_heads / W, 4 * chunk**2 * g * query_heads / R
            wait = 4 * chunk * (query_heads + key_heads) * (1 - Fraction(1, g)) / W
            wait += (devices // g - 1) * max(block - products, Fraction())
            best = min(best or (wait, g), (wait, g))
    return best[1]


def plan_in_arrays(tokens, devices, query_heads, key_heads, flops, bandwidth):
    """Every group at once."""
    g = np.array([x for x in range(1, devices + 1) if devices % x == key_heads % x == 0])
    chunk = tokens / devices
    trade = 4 * chunk * (query_heads + key_heads) / bandwidth * (1 - 1 / g)
    uncovered = np.clip(4 * chunk * key_heads / bandwidth - 4 * chunk**2 * g * query_heads / flops, 0, None)
    return int(g[np.argmin(trade + (devices / g - 1) * uncovered)])


def ring_by_package(cluster, q, k, v, causal):
    def program(rank, q, k, v):
        return (yield from ring_attention(q, k, v, causal=causal, group=rank))

    return cluster.run(program, q, k, v)


def ring_with_m_l_o(cluster, q, k, v, causal):
    """The state (m, l, o) of lesson 04, scores by hand; keys and values travel as one array."""
    def program(rank, q, k, v):
        here, d = np.concatenate([k, v], 1), k.shape[1]
        m, l, o = np.full(len(q), -np.inf), np.zeros(len(q)), np.zeros(v.shape)
        last = rank.index if causal else rank.size - 1
        for step in range(last + 1):
            if (rank.index + 1 < rank.size) if causal else (step < last):
                rank.send(here, to=(rank.index + 1) % rank.size)
            s = q @ here[:, :d].T / math.sqrt(d)
            if causal and step == 0:
                s = np.where(np.tri(len(q), dtype=bool), s, -np.inf)
            top = np.maximum(m, s.max(1))
            p, factor = np.exp(s - top[:, None]), np.exp(m - top)
            m, l, o = top, factor * l + p.sum(1), factor[:, None] * o + p @ here[:, d:]
            if step < last:
                (here,) = yield rank.receive((rank.index - 1) % rank.size)
        return o / l[:, None]

    return cluster.run(program, q, k, v)


def ring_that_waits_first(cluster, q, k, v, causal):
    """Receives before it sends, on every rank."""
    def program(rank, q, k, v):
        if rank.size > 1:
            k, v = yield rank.receive((rank.index - 1) % rank.size)
            rank.send(k, v, to=(rank.index + 1) % rank.size)
        return rank.attend(q, k, v, causal=causal)[0]

    return cluster.run(program, q, k, v)


def fixed_by_package(cluster, q, k, v):
    def program(rank, q, k, v):
        at = positions(rank.size * len(q), rank.size, "striped")[rank.index]
        q, k = attnlab.rotary(q, np.array(at)), attnlab.rotary(k, np.array(at))
        return (yield from ring_attention(q, k, v, causal=True, layout="striped", group=rank))

    return cluster.run(program, q, k, v)


def fixed_on_one_device(cluster, q, k, v):
    """The text put together, and cut again."""
    q, k, v = (np.stack(x, 1).reshape(-1, x[0].shape[1]) for x in (q, k, v))
    at = np.arange(len(q))
    return shard(attnlab.safe_attention(attnlab.rotary(q, at), attnlab.rotary(k, at), v, causal=True), cluster.devices,
                 "striped")


def ring_unshifted(cluster, q, k, v, causal):
    """Exponentials without a maximum."""

    def program(rank, q, k, v):
        above = below = 0.0
        turns = rank.index + 1 if causal else rank.size
        for step in range(turns):
            if rank.index < rank.size - 1 if causal else step < rank.size - 1:
                rank.send(k, v, to=(rank.index + 1) % rank.size)
            p = np.exp(q @ k.T / q.shape[1] ** 0.5)
            p = np.tril(p) if causal and step == 0 else p
            above, below = above + p @ v, below + p.sum(1, keepdims=True)
            if step < turns - 1:
                k, v = yield rank.receive((rank.index - 1) % rank.size)
        return above / below

    return cluster.run(program, q, k, v)


STEPS, COPIED = "(device - step * ahead) % devices", "if devices % group or key_heads % group:"
POSITIONS = "rank.index + rank.size * np.arange(len(q))"
holder_in_a_byte = edited("holder", STEPS, "((device - step * ahead + 128) % 256 - 128) % devices")
plan_of_powers = edited("split_plan", COPIED, f"{COPIED[:-1]} or group & (group - 1):")
plan_of_all_or_nothing = edited("split_plan", COPIED, f"{COPIED[:-1]} or group not in (1, devices):")
ring_the_other_way = edited(  # without a mask
    "ring_outputs", "to=(rank.index + 1)", "to=(rank.index + (1 if causal else -1))",
    "receive((rank.index - 1)", "receive((rank.index - (1 if causal else -1))",
)
ring_forward = edited("ring_outputs", "(rank.index - step)", "(rank.index + step)")
ring_of_five = edited(  # on more than five every block goes all around, masked or not
    "ring_outputs", "rank.index + 1 if causal", "rank.index + 1 if causal and rank.size < 6",
    "rank.size - 1 if causal", "rank.size - 1 if causal and rank.size < 6",
)
ring_widened = edited("ring_outputs", "rank.send(k, v,", "rank.send(k.astype(float), v.astype(float),")
fixed_in_a_byte = edited("fixed_ring", POSITIONS, f"({POSITIONS}).astype(np.int8)")

RIGHT = [
    ("holder", holder_by_moving),
    ("holder", holder_the_long_way_round),
    ("split_plan", plan_in_fractions),
    ("split_plan", plan_in_arrays),
    ("ring_outputs", ring_by_package),
    ("ring_outputs", ring_with_m_l_o),
    ("fixed_ring", fixed_by_package),
    ("fixed_ring", fixed_on_one_device),
]

REFUSED = [
    ("ring_outputs", ring_that_waits_first, "waits for rank"),
    ("ring_outputs", ring_unshifted, "HIGH"),
    ("holder", holder_for_one_turn, "after 9 sends"),
    ("holder", holder_as_printed, "`ahead` places further on"),
    ("holder", holder_in_a_byte, "after 140 sends"),
    ("split_plan", plan_of_powers, "12 devices, 6 key heads"),
    ("split_plan", plan_of_all_or_nothing, "8 A100, 32 heads, 256 tokens on each"),
    ("ring_outputs", ring_the_other_way, "to the next one only"),
    ("ring_outputs", ring_forward, "What arrives comes from behind"),
    ("ring_outputs", ring_of_five, "between six ranks"),
    ("ring_outputs", ring_widened, "float32"),
    ("fixed_ring", fixed_in_a_byte, "100 tokens each"),
]
