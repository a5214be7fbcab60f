"""Lesson 16, ★★★: a chunk of tokens meets a rolling cache, and is kept in it."""

import math

from attnlab.cache.slots import slots_written
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import deepest, far_queries, large_key
from attnlab_course.checker.promises import growth

import numpy as np
from numpy import ndarray as Array


def rolling_chunk(
    q: Array, k: Array, v: Array, keys: Array, values: Array, length: int, window: int, sinks: int
) -> tuple[Array, Array, Array]:
    """(out, keys, values): C new tokens, q and k (C, D), v (C, Dv), attend and are kept; ``length`` came before them.

    ``keys`` (window + sinks, D) and ``values``: token j is in slot j if j < sinks, else in sinks + (j − sinks) mod
    window. Return new arrays; a slot that no token has reached stays as it is.
    """
    def slot(j: Array) -> Array:
        return np.where(j < sinks, j, sinks + (j - sinks) % window)  # eq. 16.5

    held, old = np.full(window + sinks, -1), np.r_[: min(sinks, length), max(sinks, length - window) : length]
    held[slot(old)] = old
    i = length + np.arange(len(q))
    at = np.concatenate([held, i])  # the old keys, and the chunk's own beside them
    seen = (at >= 0) & (at <= i[:, None]) & ((i[:, None] - at < window) | (at < sinks))  # eq. 16.6
    s = np.where(seen, q @ np.concatenate([keys, k]).T / math.sqrt(q.shape[1]), -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    out = p @ np.concatenate([values, v]) / p.sum(1, keepdims=True)
    keys, values = keys.copy(), values.copy()
    keys[slot(i)], values[slot(i)] = k, v  # now, and not before: eq. 16.4
    return out, keys, values


def call(length: int, count: int, window: int, sinks: int, empty: float = 0.0) -> tuple:
    """A cache after ``length`` tokens, and ``count`` more; ``empty``: what is in slots that no token has reached."""
    rng = np.random.default_rng(16)
    total, d = length + count, 4
    q, k = rng.normal(size=(2, total, d))
    v = np.stack([np.arange(total), rng.normal(size=total)], 1)
    keys, values = np.full((window + sinks, d), empty), np.full((window + sinks, 2), empty)
    kept, slots = slots_written(0, length, window, sinks)
    keys[slots], values[slots] = k[kept], v[kept]
    return q[length:], k[length:], v[length:], keys, values, length, window, sinks


def cases() -> list[Case]:
    """SPLIT: one token or many, into an empty cache, a filling one, a full one."""
    calls = [
        ("ONE: the first token of all, window 4, no sinks", (0, 1, 4, 0)),
        ("a first chunk of 2, window 4, no sinks; 5 in the empty slots, from another text", (0, 2, 4, 0, 5.0)),
        ("SPLIT: 3 tokens after 6, window 4, no sinks", (6, 3, 4, 0)),
        ("SPLIT: 9 = 2 · window + 1 tokens after 6, window 4, no sinks", (6, 9, 4, 0)),
        ("token 20, window 4, 4 sinks", (20, 1, 4, 4)),
        ("a first chunk of 9, longer than the cache, window 4 and 2 sinks", (0, 9, 4, 2)),
        ("a chunk of 4 that brings the second sink: after 1 token, window 3, 2 sinks", (1, 4, 3, 2)),
        ("SPLIT: 3 tokens after 10, window 4, 2 sinks", (10, 3, 4, 2)),
    ]
    q, k, v, keys, *rest = call(10, 3, 4, 2)
    far = far_queries(lambda q, k: (q, k[6:], v, k[:6], *rest), q, np.concatenate([keys, k]), "; 3 tokens after 10")
    q, k = large_key(q, np.concatenate([keys, k]), 8)
    future = Case("FUTURE: the last key has scores near 100000; 3 tokens after 10", (q, k[6:], v, k[:6], *rest))
    low = Case("LOW: scores −10¹² to −4·10¹²; a first chunk of 4, window 4, no sinks",
               (*deepest(4, 4, 4), np.eye(4), np.zeros((4, 4)), np.zeros((4, 4)), 0, 4, 0))
    return [*[Case(label, call(*args)) for label, args in calls], *far, low, future]


def late(length: int) -> tuple:
    """Three tokens after ``length`` others; what came before is not made, but the cache that it left."""
    rng = np.random.default_rng(0)
    return *rng.normal(size=(3, 3, 4)), *rng.normal(size=(2, 12, 4)), length, 8, 4


EXERCISE = Exercise(
    lesson="16", stars=3, reference=rolling_chunk, where="eq. 16.6", cases=cases,
    hints=(
        "Three steps, in this order: find which token each slot holds; attend to the old keys and the chunk's own, "
        "side by side; write the chunk.",
        "Only the first `sinks` tokens and the last `window` can be in a slot. Put their positions into an array of "
        "window + sinks numbers that starts out as −1.",
        "With at = the slots' positions followed by length … length + C − 1, eq. 16.6 is one boolean matrix (C, "
        "window + sinks + C). np.where(seen, scores, −inf), and a safe softmax.",
    ),
    without={
        "(i[:, None] - at < window) | (at < sinks)":
            "Your chunk ignores the window. Its later queries no longer see the oldest keys of the ring, nor, in a "
            "long chunk, its own first tokens: eq. 16.6.",
        "at <= i[:, None]": phrases.sees_future("eq. 16.6"),
        "at < sinks": phrases.sinks_left_out("eq. 16.6"),
        "at >= 0": phrases.empty_slots("eq. 16.6"),
        "math.sqrt(q.shape[1])": phrases.unscaled("lesson 01, section 1"),
    },
    mistakes=(
        Mistake("You write the chunk first and attend afterwards. By then its last tokens have overwritten keys that "
                "its first queries still need, and a chunk longer than the window loses keys of its own. For one "
                "token, both orders agree. Attend to old and new keys side by side, eq. 16.4, then write.",
                but("    at = np.concatenate([held, i])", "    keys, values = keys.copy(), values.copy(); "
                    "held[slot(i)], keys[slot(i)], values[slot(i)] = i, k, v; at = held",
                    "np.concatenate([keys, k])", "keys", "np.concatenate([values, v])", "values")),
        Mistake("Your queries see only what the cache held before, not the chunk: not even themselves. Query i sees j "
                "≤ i: eq. 16.6.",
                but(" & (at <= i[:, None])", " & (at < length)")),
        Mistake("Your pointer wraps to slot 0 and overwrites the sinks: eq. 16.5.",
                but("keys[slot(i)], values[slot(i)]", "keys[i % len(keys)], values[i % len(keys)]")),
        Mistake(phrases.slot_for_position("eq. 16.5"), but("= old\n", "= slot(old)\n")),
        Mistake("You hold a list of all tokens so far. Only the first `sinks` and the last `window` can be in a slot; "
                "the point of a rolling cache is that nothing grows with the text, eq. 16.5.",
                but("[: min(sinks, length), max(sinks, length - window) : length]", "[:length]")),
    ),
    costs=(
        Cost(growth(late, 2**14, 2**15), 1.1, "its memory grew {found:.1f}× when twice as many tokens "
             "had come before."),
    ),
)
