"""Answers to the exercises of lesson 15: right ones, written in other ways, and ones to refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from attnlab_course.instruments.machine import decoding_forward

import attnlab
from tests.course.answers import edited


def pool_by_product(w, heads, kv_heads):
    """A matrix that averages, applied from the right."""
    average = np.kron(np.eye(kv_heads), np.ones((heads // kv_heads, 1))) * kv_heads / heads
    return w @ np.kron(average, np.eye(w.shape[1] // heads))


def pool_in_torch(w, heads, kv_heads):
    return torch.stack([x.unflatten(1, (heads // kv_heads, -1)).mean(1) for x in w.chunk(kv_heads, 1)], 1).flatten(1)


def split_by_package(q, k, v, splits):
    size = -(-len(k) // splits)
    parts = [slice(i * size, (i + 1) * size) for i in range(splits)]
    found = [attnlab.safe_attention(q[None], k[part], v[part], return_lse=True) for part in parts]
    out, lse = found[0]
    for other in found[1:]:
        out, lse = attnlab.merge(out, lse, *other)
    return out[0], np.array([lse[0] for _, lse in found])


def split_in_jax(q, k, v, splits):
    m, size = len(k), -(-len(k) // splits)
    seen = (jnp.arange(splits * size) < m).reshape(splits, size)
    k, v = (jnp.pad(x, ((0, splits * size - m), (0, 0))).reshape(splits, size, -1) for x in (k, v))
    s = jnp.where(seen, k @ q / len(q) ** 0.5, -jnp.inf)
    lses = jax.nn.logsumexp(s, axis=1)
    outs = jnp.exp(s - jnp.where(seen.any(1), lses, 0)[:, None])[:, None] @ v
    return jax.nn.softmax(lses) @ outs[:, 0], lses


def split_running(q, k, v, splits):
    """The lse of all keys up to the end of a part."""
    out, lses = split_by_package(q, k, v, splits)
    return out, np.logaddexp.accumulate(lses)


def decode_by_package(machine, q, k, v, block_k):
    o, _ = decoding_forward(machine, q, k, v, k.shape[1], block_k=block_k)
    return machine.fetch(o)


def decode_by_lse(machine, q, k, v, block_k):
    """Groups by reshaping; parts of the output, divided, and their lse."""
    (heads, d), (kv_heads, m, dv) = q.shape, v.shape
    group, o = heads // kv_heads, machine.full("out", (heads, dv), 0.0, float)
    for g, first in enumerate(range(0, heads, group)):
        rows = slice(first, first + group)
        tile = machine.load(q, rows)
        out, lse = np.zeros((group, dv)), np.full(group, -np.inf)
        for c in range(0, m, block_k):
            part = g, slice(c, c + block_k)
            keys, values = machine.load(k, part), machine.load(v, part)
            s = np.array(tile) @ np.array(keys).T / np.sqrt(d)
            both = np.logaddexp(lse, np.logaddexp.reduce(s, axis=1))
            out = np.exp(lse - both)[:, None] * out + np.exp(s - both[:, None]) @ np.array(values)
            lse = both
            machine.free(keys, values)
        result = machine.keep("out", out)
        machine.store(o, rows, result)
        machine.free(tile, result)
    return machine.fetch(o)


def merge_in_torch(outs, lses):
    lse = torch.logsumexp(lses, 0)
    if lse == -torch.inf:
        return torch.zeros_like(outs[0]), lse
    return (lses - lse).exp() @ outs, lse


def merge_by_gates(outs, lses):
    """One after the other, as in the broken function."""
    out, lse = outs[0], lses[0]
    for part, e in zip(outs[1:], lses[1:]):
        both = np.logaddexp(lse, e)
        if both > -np.inf:
            out = np.exp(lse - both) * out + np.exp(e - both) * part
        lse = both
    return out, lse


def decode_by_fetching(machine, q, k, v, block_k):
    """Nothing is loaded: arrays are fetched, and computed with off the machine."""
    q, k, v = (machine.fetch(x) for x in (q, k, v))
    return attnlab.safe_attention(q[:, None], k, v)[:, 0]


merge_clipped = edited(
    "merge_parts", "np.exp(lses - top)", "np.exp(np.where(lses - top > -99, np.maximum(lses - top, -8), -np.inf))",
)
decode_beside = edited(  # blocks are loaded, and all of them are kept in plain arrays
    "gqa_decode", "                    s = ",
    "                    vars(machine).setdefault('kept', []).append((np.array(k_j), np.array(v_j)))\n"
    "                    s = ",
)
decode_two_blocks = edited("gqa_decode", "blocks(m, block_k)", "blocks(m, 2 * block_k)")

pool_but_zeros = edited("pool_heads", ".mean(2)", ".mean(2, where=w.reshape(width, kv_heads, group, -1) != 0)")
split_by_the_first = edited("split_attention", "lses.max()", "lses[0]")
split_without_small = edited(
    "split_attention", "np.exp(lses - top)", "np.where(lses - top < -7, 0, np.exp(lses - top))"
)
merge_by_the_mean = edited("merge_parts", "w = ", "top = lses[lses > top - np.inf].mean()\n    w = ")


def merge_guarded_once(outs, lses):
    out, lse = outs[0], lses[0]
    with np.errstate(invalid="ignore"):
        for i, (part, e) in enumerate(zip(outs[1:], lses[1:])):
            share = 1.0 if i == 0 and lse == -np.inf else 1 / (1 + np.exp(lse - e))
            out, lse = (1 - share) * out + share * part, np.logaddexp(lse, e)
    return out, lse


def decode_four_heads(machine, q, k, v, block_k):
    """At most four query heads at a time: those of larger groups load their keys again."""
    (heads, d), (kv_heads, m, dv) = q.shape, v.shape
    o, group = machine.empty("O", (heads, dv), q.dtype), heads // kv_heads
    for first in (h for g in range(0, heads, group) for h in range(g, g + group, 4)):
        rows, top, l, acc = slice(first, min(first + 4, first // group * group + group)), -np.inf, 0.0, 0.0
        with machine.scope():
            q_g = machine.load(q, rows)
            for j in range(0, m, block_k):
                with machine.scope():
                    keys = first // group, slice(j, min(j + block_k, m))
                    s = q_g @ machine.load(k, keys).T / d**0.5
                    new = np.maximum(top, s.max(1, keepdims=True))
                    a, p = np.exp(top - new), np.exp(s - new)
                    top, l, acc = new, a * l + p.sum(1, keepdims=True), a * acc + p @ machine.load(v, keys)
            machine.store(o, rows, machine.keep("O", acc / l))
    return machine.fetch(o)


def parts_by_arrays(batch, kv_heads, keys, sms, share, merge):
    """All numbers of parts at once."""
    parts = np.arange(1, 513)
    full, rest = np.divmod(batch * kv_heads * parts, sms)
    a_part = np.ceil(keys / parts) / 100
    waves = full * (1 + a_part * max(1, sms / share)) + (rest > 0) * (1 + a_part * np.maximum(1, rest / share))
    return parts[(waves + merge * parts).argmin()]


def parts_by_powers_of_two(batch, kv_heads, keys, sms, share, merge):
    """As many as fill the chip, rounded down to a power of two."""
    return 2 ** int(np.log2(max(sms / (batch * kv_heads), 1)))


def parts_in_a_loop(batch, kv_heads, keys, sms, share, merge):
    """Wave by wave."""
    best, least = 1, float("inf")
    for parts in range(1, 513):
        seconds, left = parts * merge, batch * kv_heads * parts
        while left > 0:
            running = min(left, sms)
            seconds += 1 + (keys + parts - 1) // parts * max(running / share, 1) / 100
            left -= running
        if seconds < least:
            best, least = parts, seconds
    return best


RIGHT = [
    ("best_parts", parts_in_a_loop),
    ("best_parts", parts_by_arrays),
    ("pool_heads", pool_by_product),
    ("pool_heads", pool_in_torch),
    ("split_attention", split_by_package),
    ("split_attention", split_in_jax),
    ("gqa_decode", decode_by_lse),
    ("gqa_decode", decode_by_package),
    ("merge_parts", merge_in_torch),
    ("merge_parts", merge_by_gates),
]

REFUSED = [
    ("best_parts", parts_by_powers_of_two, "a step takes"),
    ("split_attention", split_running, "part 2"),
    ("merge_parts", merge_clipped, "30 less"),
    ("gqa_decode", decode_two_blocks, "as large as block_k says"),
    ("gqa_decode", decode_by_fetching, "machine.fetch is for the result"),
    ("pool_heads", pool_but_zeros, "a head of zeros counts"),
    ("split_attention", split_by_the_first, "0 and 1000 in two parts"),
    ("split_attention", split_without_small, "10 less"),
    ("merge_parts", merge_by_the_mean, "0 and 2000"),
    ("merge_parts", merge_guarded_once, "three empty parts"),
    ("gqa_decode", decode_four_heads, "times the elements"),
    ("gqa_decode", decode_beside, "beside the machine"),
]
