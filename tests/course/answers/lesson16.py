"""Answers to the exercises of lesson 16: right ones, written in other ways, and ones to refuse."""

import bisect

import jax.numpy as jnp
import numpy as np
import torch

import attnlab
from attnlab.cache import RollingCache
from tests.course.answers import edited


def token_by_writing(slot, length, window, sinks):
    """The write pointer, moved token by token through the last turns."""
    skipped = max(length - sinks - 3 * window, 0) // window * window
    held, pointer = {}, 0
    for token in range(length - skipped):
        held[pointer] = token if token < sinks else token + skipped
        pointer = pointer + 1 if pointer + 1 < window + sinks else sinks
    return held.get(slot, -1)


def token_by_counting_turns(slot, length, window, sinks):
    if slot >= length:
        return -1
    return slot if slot < sinks else slot + (length - 1 - slot) // window * window


def attend_by_package(keys, values, positions, q, position, window, sinks):
    """A mask for a function of the package."""
    old = position - positions
    mask = (positions >= 0) & (old >= 0) & ((old < window) | (positions < sinks))
    return attnlab.safe_attention(q[None], keys, values, mask=mask[None])[0]


def attend_in_torch(keys, values, positions, q, position, window, sinks):
    seen = (positions >= 0) & (positions <= position) & ((positions > position - window) | (positions < sinks))
    return torch.softmax(keys[seen] @ q / len(q) ** 0.5, 0) @ values[seen]


def attend_in_jax(keys, values, positions, q, position, window, sinks):
    """With a mask, as a compiled program needs it: no shape depends on numbers."""
    seen = (positions >= 0) & (positions <= position) & ((positions > position - window) | (positions < sinks))
    s = jnp.where(seen, jnp.where(seen[:, None], keys, 0) @ q / len(q) ** 0.5, -jnp.inf)
    p = jnp.where(seen, jnp.exp(s - jnp.where(seen.any(), s.max(), 0)), 0)
    return p @ jnp.where(seen[:, None], values, 0) / jnp.where(seen.any(), p.sum(), 1)


def chunk_token_by_token(q, k, v, keys, values, length, window, sinks):
    """Each token is written first, and then attends to all filled slots."""
    keys, values = keys.copy(), values.copy()
    out = []
    for n, j in enumerate(range(length, length + len(q))):
        at = j if j < sinks else sinks + (j - sinks) % window
        keys[at], values[at] = k[n], v[n]
        filled = min(j + 1, window + sinks)
        out.append(attnlab.safe_attention(q[n : n + 1], keys[:filled], values[:filled])[0])
    return np.array(out), keys, values


def chunk_by_package(q, k, v, keys, values, length, window, sinks):
    cache = RollingCache(keys[None].copy(), values[None].copy(), length, window, sinks)
    out, cache = cache.attend(q[None], k[None], v[None])
    return out[0], cache.keys[0], cache.values[0]


def chunk_in_place(q, k, v, keys, values, length, window, sinks):
    cache = RollingCache(keys[None], values[None], length, window, sinks)
    return cache.attend(q[None], k[None], v[None])[0][0], keys, values


def fixed_by_package(q, k, v, keys, values, window):
    keys, values = np.concatenate([keys, k]), np.concatenate([values, v])
    out = attnlab.tiled_attention(q, keys, values, causal=True, window=(window - 1, 0))
    return out, keys[-window:], values[-window:]


def fixed_token_by_token(q, k, v, keys, values, window):
    out = []
    for n in range(len(q)):
        keys, values = (np.concatenate([x, y[n : n + 1]])[-window:] for x, y in ((keys, k), (values, v)))
        out.append(attnlab.safe_attention(q[n : n + 1], keys, values)[0])
    return np.array(out), keys, values


def attend_after_the_maximum(keys, values, positions, q, position, window, sinks):
    """The maximum is over all filled slots, and hidden ones are taken out after it."""
    keys, values = (np.where((positions >= 0)[:, None], x, 0) for x in (keys, values))
    seen = (positions >= 0) & (positions <= position) & ((position - positions < window) | (positions < sinks))
    s = keys @ q / np.sqrt(len(q))
    p = np.exp(s - s.max()) * seen
    return p @ values / (p.sum() or 1)


attend_by_nan = edited("rolling_attend", "(positions >= 0)", "~np.isnan(keys[:, 0])")
attend_to_later_sinks = edited(
    "rolling_attend", " & (positions <= position)", "", "(position - positions < window)",
    "(position - positions < window) & (positions <= position)",
)
chunk_clears_the_rest = edited(
    "rolling_chunk", "    return out",
    "    free = np.arange(window + sinks) >= length + len(q)\n    keys[free], values[free] = 0, 0\n    return out",
)

token_by_float = edited(
    "token_in", "(last - (slot - sinks)) % window", "int((last - slot + sinks) / window % 1 * window + 0.5)"
)
attend_after_nan = edited(
    "rolling_attend", "np.exp(s - s.max())\n    return p @ values[seen]",
    "np.zeros(len(keys))\n    p[seen] = np.exp(s - s.max())\n    return p @ np.where(np.isnan(values), 0, values)"
)
attend_to_the_first_empty = edited(
    "rolling_attend", "seen = (positions >= 0)", "seen = np.cumprod(positions >= 0, dtype=bool)"
)
attend_to_anything = edited(
    "rolling_attend", "if not seen.any():\n        return np.zeros(values.shape[1])",
    "if not seen.any():\n        return values[positions >= 0].sum(0) / max((positions >= 0).sum(), 1)"
)
chunk_that_keeps_its_end = edited(
    "rolling_chunk", "    keys[slot(i)]", "    i, k, v = (x[-window - sinks :] for x in (i, k, v))\n    keys[slot(i)]"
)

def window_by_bisect(bits, longest, allowed):
    """The library's bisection."""
    sizes = [x for x in range(1, longest + 1) if bin(x).count("1") == 1 or (x % 3 == 0 and bin(x // 3).count("1") == 1)]
    tried = []
    for sinks in (4, 2, 1, 0):
        window = sizes[bisect.bisect_left(sizes, True, key=lambda size: bits(size, sinks) <= allowed)]
        tried.append((window + sinks, window, sinks))
    return np.array(min(tried)[1:])


def window_by_all(bits, longest, allowed):
    """Every size with every number of sinks."""
    sizes = sorted(x for p in range(longest.bit_length()) for x in (2**p, 3 * 2**p) if x <= longest)
    good = [(size + sinks, size, sinks) for size in sizes for sinks in (0, 1, 2, 4) if bits(size, sinks) <= allowed]
    return min(good)[1:]


def window_downhill(bits, longest, allowed):
    """More sinks never want a longer window, so go on from the last one."""
    sizes = sorted(x for p in range(longest.bit_length()) for x in (2**p, 3 * 2**p) if x <= longest)
    at, best = len(sizes) - 1, (longest, 0)
    for sinks in (0, 1, 2, 4):
        while at and bits(sizes[at - 1], sinks) <= allowed:
            at -= 1
        best = min(best, (sizes[at], sinks), key=sum)
    return best


RIGHT = [
    ("cheapest_window", window_downhill),
    ("cheapest_window", window_by_bisect),
    ("token_in", token_by_writing),
    ("token_in", token_by_counting_turns),
    ("rolling_attend", attend_by_package),
    ("rolling_attend", attend_in_torch),
    ("rolling_attend", attend_in_jax),
    ("rolling_chunk", chunk_token_by_token),
    ("rolling_chunk", chunk_by_package),
    ("fixed_step", fixed_by_package),
    ("fixed_step", fixed_token_by_token),
]


REFUSED = [
    ("cheapest_window", window_by_all, "you measured"),
    ("rolling_chunk", chunk_in_place, "changes its inputs"),
    ("rolling_attend", attend_after_the_maximum, "FUTURE"),
    ("rolling_attend", attend_by_nan, "5 in the empty ones"),
    ("rolling_attend", attend_to_later_sinks, "token 1, a sink"),
    ("rolling_chunk", chunk_clears_the_rest, "5 in the empty slots"),
    ("token_in", token_by_float, "1152921504606846981"),
    ("rolling_attend", attend_after_nan, "∞ in the empty ones"),
    ("rolling_attend", attend_to_the_first_empty, "between two tokens"),
    ("rolling_attend", attend_to_anything, "only tokens that are to come"),
    ("rolling_chunk", chunk_that_keeps_its_end, "a first chunk of 9"),
]
