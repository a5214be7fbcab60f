"""Lesson 23, ★★★: a window with a state behind it, that is right token by token, fixed for chunks."""

import math

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but
from attnlab_course.checker.inputs import qkv

import numpy as np
from numpy import ndarray as Array


def phi(x: Array) -> Array:
    """elu + 1."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def fixed_hybrid(
    q: Array, k: Array, v: Array, keys: Array, values: Array, U: Array, Z: Array, window: int
) -> tuple[Array, Array, Array, Array, Array]:
    """(out, keys, values, U, Z) after C new tokens, q and k (C, D), v (C, Dv), have attended and joined the cache.

    The last ``window`` keys, including the query's own, get weight e^s, s = q·k/√D. All keys before them get
    φ(q)·φ(k), φ = elu + 1. The weights are normalized. ``keys`` and ``values``: those of the last ``window`` tokens
    before the call (all of them if there are fewer), in text order. ``U`` (D, Dv), ``Z`` (D,): the sums of φ(k) vᵀ and
    of φ(k) over all tokens before those. Return the same four for the state after the call.
    """
    keys, values = np.concatenate([keys, k]), np.concatenate([values, v])
    j = np.arange(len(keys))
    i = j[len(keys) - len(q) :, None]
    near = (j <= i) & (i - j < window)
    s = q @ keys.T / math.sqrt(q.shape[1])
    a = np.where(near, np.exp(s), np.where(i - j >= window, phi(q) @ phi(keys).T, 0))  # eq. 18.7
    out = (a @ values + phi(q) @ U) / (a.sum(1) + phi(q) @ Z)[:, None]
    old = max(len(keys) - window, 0)
    U, Z = U + phi(keys[:old]).T @ values[:old], Z + phi(keys[:old]).sum(0)  # eq. 17.6
    return out, keys[old:], values[old:], U, Z


def call(length: int, count: int, window: int, times: float = 1.0) -> tuple:
    """EYE: token j has value row j of 1, so that a row of the output is the weights of all tokens.

    ``times``: queries and keys are so many times as large.
    """
    q, k, v = qkv(length + count, length + count, 4, 0)
    q, k, first = times * q, times * k, max(0, length - window)
    absorbed = phi(k[:first]).T @ v[:first], phi(k[:first]).sum(0)
    return q[length:], k[length:], v[length:], k[first:length], v[first:length], *absorbed, window


def cases() -> list[Case]:
    """SPLIT: chunks of one token to more than the window, into what is empty, filling and full."""
    calls = [
        ("EYE, ONE: the first token", (0, 1, 4)),
        ("EYE: token 3, window 4: the window fills", (3, 1, 4)),
        ("EYE: token 4, window 4: one key goes into the state", (4, 1, 4)),
        ("EYE: 2 tokens after 4, window 4: query 4 still sees key 1 in its window", (4, 2, 4)),
        ("EYE: 3 tokens at the beginning, window 4", (0, 3, 4)),
        ("EYE: 4 = window tokens after 6", (6, 4, 4)),
        ("EYE: 5 = window + 1 tokens after 6", (6, 5, 4)),
        ("EYE: a window of 1, 3 tokens after 2", (2, 3, 1)),
        ("EYE: 5 tokens after 6, window 4, queries and keys 5 times as large", (6, 5, 4, 5.0)),
    ]
    return [Case(label, call(*args)) for label, args in calls]


def kept_numbers(answer: Function, library: str) -> float:
    """How many times what a text of 20 tokens leaves is what one of 200 leaves, in numbers."""
    def kept(length: int) -> int:
        rng = np.random.default_rng(0)
        state = np.zeros((0, 4)), np.zeros((0, 3)), np.zeros((4, 3)), np.zeros(4)
        for _ in range(0, length, 5):
            _, *state = answer(*(rng.normal(size=(5, n)) for n in (4, 4, 3)), *state, 4)
        return sum(np.asarray(x).size for x in state)

    return kept(200) / kept(20)


ABSORBED = "U, Z = U + phi(keys[:old]).T @ values[:old], Z + phi(keys[:old]).sum(0)"
FIRST, TOKENS = f"old = max(len(keys) - window, 0); {ABSORBED}", "j = np.arange(len(keys))"
RETURN = "return out, keys[old:], values[old:], U, Z"

EXERCISE = Exercise(
    lesson="23", stars=3, reference=fixed_hybrid, where="eq. 18.7", cases=cases,
    hints=(
        "Feed 4 tokens, then 2, with window 4 and EYE as values, and compare the weights with those of two calls of "
        "one token. Where is the key that only the chunk's first query still has in its window?",
        "Let the chunk look before anything goes into the state. Of the keys at hand, old and new, some are in a "
        "query's window; those before its window have the weight φ(q)·φ(k), and they aren't in U and Z yet.",
        "a = np.where(near, np.exp(s), np.where(i - j >= window, phi(q) @ phi(keys).T, 0)); then the first len(keys) "
        "− window keys go into U and Z.",
    ),
    without={
        "i - j < window": "Your rows give e^s to all keys that a query sees, even to those that have left its window: "
                          "i − j < window, eq. 18.7.",
        "j <= i": phrases.sees_future("eq. 14.3"),
    },
    mistakes=(
        Mistake("This is still the broken step: keys go into the state before the chunk's first queries have looked. "
                "In their windows those keys have the weight e^s: attend first, then absorb, eq. 16.4 and "
                "eq. 17.6.",
                but(TOKENS, f"{FIRST}; keys, values = keys[old:], values[old:]; {TOKENS}",
                    "j[len(keys) - len(q) :, None]", "np.arange(len(keys) - len(q), len(keys))[:, None]")),
        Mistake("You absorb first, and then give the same keys a weight in the window, too: they count twice (eq. "
                "17.6 comes after eq. 17.5).",
                but(TOKENS, f"{FIRST}; {TOKENS}", f"    old = max(len(keys) - window, 0)\n    {ABSORBED}", "    pass")),
        Mistake("Window and state share one denominator. They aren't two attentions to add or average, and what's in "
                "the state counts below the line, too, φ(q)·Z (eqs. 17.2 and 18.7).",
                but("(a @ values + phi(q) @ U) / (a.sum(1) + phi(q) @ Z)[:, None]",
                    "a @ values / a.sum(1)[:, None] + phi(q) @ U / np.maximum(phi(q) @ Z, 1e-9)[:, None]"),
                but("(a @ values + phi(q) @ U) / (a.sum(1) + phi(q) @ Z)[:, None]",
                    "(a @ values / a.sum(1)[:, None] + phi(q) @ U / np.maximum(phi(q) @ Z, 1e-9)[:, None]) / 2"),
                but("(a.sum(1) + phi(q) @ Z)", "a.sum(1)")),
        Mistake("You absorb all keys, even those you keep in the window, so the next call counts them twice: absorb "
                "only what leaves the window, eq. 17.6.",
                but(ABSORBED, ABSORBED.replace("[:old]", ""))),
        Mistake(phrases.nothing_dropped("eq. 16.3"), but(RETURN, "return out, keys, values, U, Z")),
    ),
    costs=(
        Cost(kept_numbers, 1, "what is kept grows with the text: {found:.1f} times as much for ten times the text."),
    ),
)
