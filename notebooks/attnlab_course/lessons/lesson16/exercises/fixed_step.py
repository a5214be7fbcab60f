"""Lesson 16, ★★: a cache that evicts too early, fixed."""

import math

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import deepest, far_queries, large_key

import numpy as np
from numpy import ndarray as Array


def fixed_step(
    q: Array, k: Array, v: Array, keys: Array, values: Array, window: int
) -> tuple[Array, Array, Array]:
    """(out, keys, values): C new tokens, q and k (C, D), v (C, Dv), and the keys and values that are kept.

    ``keys`` and ``values``: those of the last ``window`` tokens, or of all if there are fewer, in the order of the
    text; so is what is returned. A query sees ``window`` keys, its own among them.
    """
    keys, values = np.concatenate([keys, k]), np.concatenate([values, v])  # keep all until the queries have looked
    j = np.arange(len(keys))
    i = j[len(keys) - len(q) :, None]
    s = np.where((j <= i) & (i - j < window), q @ keys.T / math.sqrt(q.shape[1]), -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ values / p.sum(1, keepdims=True), keys[-window:], values[-window:]


def call(length: int, count: int, window: int) -> tuple:
    """EYE: token j has value row j of 1, so that a row of the output is the weights of all tokens."""
    rng = np.random.default_rng(length + 10 * count)
    total = length + count
    q, k = rng.normal(size=(2, total, 4))
    v = np.eye(total)
    first = max(0, length - window)
    return q[length:], k[length:], v[length:], k[first:length], v[first:length], window


def cases() -> list[Case]:
    """SPLIT: chunks of one token to more than the window, into caches that are empty, filling and full."""
    calls = [
        ("EYE, ONE: the first token", (0, 1, 4)),
        *((f"EYE: token {n}, window 4", (n, 1, 4)) for n in (3, 4)),
        ("EYE: 3 tokens after 4, window 4: query 4 sees keys 1 to 4", (4, 3, 4)),
        ("EYE: 5 = window + 1 tokens after 6", (6, 5, 4)),
        ("EYE: 9 = 2 · window + 1 tokens into an empty cache", (0, 9, 4)),
        ("EYE: a window of 1, 3 tokens after 2", (2, 3, 1)),
    ]
    q, k, v, keys, values, window = call(6, 5, 4)
    k = np.concatenate([keys, k])
    far = far_queries(lambda q, k: (q, k[4:], v, k[:4], values, window), q, k, "; 5 tokens after 6")
    q, k = large_key(q, k, 8)
    future = Case("FUTURE: the last key has scores near 100000; 5 tokens after 6", (q, k[4:], v, k[:4], values, window))
    low = Case("LOW: scores −10¹² to −4·10¹²; 4 tokens into an empty cache",
               (*deepest(4, 4, 4), np.eye(4), np.zeros((0, 4)), np.zeros((0, 4)), 4))
    return [*[Case(label, call(*args)) for label, args in calls], *far, low, future]


KEPT = "keys[-window:], values[-window:]"

EXERCISE = Exercise(
    lesson="16", stars=2, reference=fixed_step, where="eq. 16.1", cases=cases,
    hints=(
        "Feed 4 tokens, then 3, with window 4 and EYE as values: how many numbers of each row are not 0, and how many "
        "should be?",
        "First put old and new keys together, then attend with the mask, then drop: eq. 16.4 says how many keys the "
        "chunk needs.",
        "keys[-window:] of all keys, at the end. (keys[-0:] is all of them: that's the second trap in the line.)",
    ),
    without={
        "i - j < window":
            "Without the window's mask, the chunk's later queries see keys that have left the window; with old and "
            "new keys side by side, you need the mask: eq. 16.1.",
        "j <= i": phrases.sees_future("eq. 16.1"),
    },
    mistakes=(
        Mistake("This is still the broken step: it makes room before the chunk's first queries have read. They need "
                "window − 1 keys before the chunk, whatever its length: eq. 16.4. Drop afterwards.",
                *(but("[keys, k]", f"[keys[{kept}:], k]", "[values, v]", f"[values[{kept}:], v]", KEPT, "keys, values")
                  for kept in ("len(k) - window", "-max(window - len(k), 1)",
                               "max(len(keys) - max(window - len(k), 0), 0)"))),
        Mistake("You drop afterwards, but one key too many: window − 1 are left. The query of the next token needs no "
                "more, but we want the keys of the last `window` tokens, as in eq. 16.3.",
                but("keys[-window:]", "keys[len(keys) - min(len(keys), window - 1):]",
                    "values[-window:]", "values[len(values) - min(len(values), window - 1):]")),
        Mistake("Your window is one key too short: the oldest key leaves a step early. i − j < window (eq. 16.1).",
                but("i - j < window", "i - j < window - 1"), but("i - j < window", "i - j < max(window - 1, 1)")),
        Mistake("Nothing is dropped, so the window grows with the text. Keep the last `window` keys (eq. 16.3).",
                but(KEPT, "keys, values")),
        Mistake("You keep only the chunk. If it's shorter than the window, older keys are still needed: the last "
                "`window` of all, eq. 16.3.",
                but(KEPT, "k[-window:], v[-window:]")),
    ),
)
