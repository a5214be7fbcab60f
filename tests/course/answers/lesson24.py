"""Answers to the exercises of lesson 24: right ones, written in other ways, and ones to refuse."""

import math

import numpy as np

import attnlab
from attnlab.cache import dequantize, quantize


def absorb_by_einsum(q, up, gain, q_rope):
    absorbed = np.einsum("hnd,chd->hnc", q, (gain[:, None] * up).reshape(len(gain), *q.shape[::2]))
    return np.concatenate((absorbed, q_rope), axis=2), (q.shape[2] + q_rope.shape[2]) ** -0.5


def absorb_by_loops(q, up, gain, q_rope):
    heads, n, d = q.shape
    query = np.empty((heads, n, len(up) + q_rope.shape[2]))
    for h in range(heads):
        for i in range(n):
            query[h, i] = np.r_[gain * (up[:, h * d : (h + 1) * d] @ q[h, i]), q_rope[h, i]]
    return query, 1 / math.sqrt(d + q_rope.shape[2])


def absorb_without_rope(q, up, gain, q_rope):
    return absorb_by_einsum(q, up, gain, q_rope)[0][..., : len(up)], 1 / math.sqrt(q.shape[-1])


def absorb_rotated(q, up, gain, q_rope):
    return absorb_by_einsum(attnlab.rotary(q), up, gain, q_rope)


def attend_by_rows(q, k, v, bits, group):
    """Token by token, as the cache does; two parts and merge."""
    out = np.zeros(v.shape)
    for i in range(len(q)):
        end = (i + 1) // group * group
        parts = [(k[end : i + 1], v[end : i + 1])]
        if end:
            parts.append((dequantize(quantize(k[:end], bits, axis=-2, group=group), np.float64),
                          dequantize(quantize(v[:end], bits, axis=-1, group=v.shape[1]), np.float64)))
        results = [attnlab.safe_attention(q[i : i + 1], *part, return_lse=True) for part in parts if len(part[0])]
        out[i] = (attnlab.merge(*results)[0] if len(results) > 1 else results[0][0])[0]
    return out


def attend_by_groups(q, k, v, bits, group):
    """All rows whose complete groups are the same, at once."""
    rows = []
    for start in range(0, len(q) + 1, group):
        i = np.arange(max(start - 1, 0), min(start + group - 1, len(q)))
        kk, vv = k.copy(), v.copy()
        kk[:start] = dequantize(quantize(k[:start], bits, axis=-2, group=group), np.float64)
        vv[:start] = dequantize(quantize(v[:start], bits, axis=-1, group=v.shape[1]), np.float64)
        s = np.where(np.arange(len(q)) <= i[:, None], q[i] @ kk.T / q.shape[1] ** 0.5, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True, initial=-1e300))
        rows.append(p @ vv / p.sum(1, keepdims=True))
    return np.concatenate(rows)


def attend_in_full(q, k, v, bits, group):
    return attnlab.safe_attention(q, k, v, causal=True)


def one_plan(budget, extra):
    return [(32, 4), (64, 4), (64, 4), (512, 4)]


def plan_of_windows(budget, extra):
    return ((32, 16), (64, 4), (96, 4), (224 if extra > 0.01 else 480, 4))


def plan_in_an_array(budget, extra):
    return np.array([[64, 8], [128, 8], [64, 8], [512, 16]] if budget > 0.2 else [[32, 16], [64, 4], [64, 4], [256, 4]])


def plan_of_three(budget, extra):
    return [(32, 4), (32, 4), (512, 4)]


def odd_windows(budget, extra):
    return [(48, 4), (48, 4), (48, 4), (512, 4)]


RIGHT = [
    ("absorb", absorb_by_einsum), ("absorb", absorb_by_loops),
    ("quantized_attend", attend_by_rows), ("quantized_attend", attend_by_groups),
    ("thrifty", plan_of_windows), ("thrifty", plan_in_an_array),
]  # fmt: skip
REFUSED = [
    ("absorb", absorb_without_rope, "expected"), ("absorb", absorb_rotated, "positions are in the rotary key alone"),
    ("quantized_attend", attend_in_full, "SPLIT"), ("thrifty", one_plan, "are allowed"),
    ("thrifty", plan_of_three, "expected 4 pairs"), ("thrifty", odd_windows, "a multiple of 32"),
]  # fmt: skip
