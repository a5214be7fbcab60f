"""Lesson 16, ★★: attention of one query over the slots of a cache, in any order."""

import math

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries, large_key

import numpy as np
from numpy import ndarray as Array


def rolling_attend(
    keys: Array, values: Array, positions: Array, q: Array, position: int, window: int, sinks: int
) -> Array:
    """The output (Dv,) of one query q (D,) at ``position`` over the slots of a cache, keys (S, D) and values (S, Dv).

    ``positions`` (S,): which token each slot holds, −1 where it is empty; an empty slot may hold anything, NaN as well.
    0 if the query sees no key.
    """
    seen = (positions >= 0) & (positions <= position)
    seen = seen & ((position - positions < window) | (positions < sinks))  # eq. 16.6
    if not seen.any():
        return np.zeros(values.shape[1])
    s = keys[seen] @ q / math.sqrt(len(q))
    p = np.exp(s - s.max())
    return p @ values[seen] / p.sum()


def call(
    positions: list[int], position: int, window: int, sinks: int, d: int = 4, size: float = 1, empty: float = np.nan
) -> tuple:
    """EYE: values are the rows of 1, so that the result is the weights; ``empty``: what is in the empty slots."""
    rng = np.random.default_rng(7)
    tokens, q = size * rng.normal(size=(64, d)), rng.normal(size=d)
    at = np.array(positions)
    keys, values = tokens[at], np.eye(len(at))
    keys[at < 0], values[at < 0] = empty, empty
    return keys, values, at, q, position, window, sinks


def cases() -> list[Case]:
    """From an empty cache to a full one whose slots are in disorder."""
    calls = [
        ("ONE: one slot, token 0 itself", ([0], 0, 4, 0)),
        ("EMPTY: four slots, one token so far; NaN in the empty ones", ([0, -1, -1, -1], 0, 4, 0)),
        ("EMPTY: no token at all: the output is 0", ([-1, -1, -1, -1], 0, 4, 0)),
        ("EMPTY: the same, 5 in the empty ones, from another text", ([0, -1, -1, -1], 0, 4, 0, 4, 1, 5.0)),
        ("EMPTY: the same, ∞ in the empty ones", ([0, -1, -1, -1], 0, 4, 0, 4, 1, np.inf)),
        ("SLOTS: an empty slot between two tokens", ([1, -1, 0], 1, 4, 0)),
        ("only tokens that are to come: query 5 and tokens 6 and 7: the output is 0", ([6, 7], 5, 4, 0)),
        ("two tokens that are too old have not been overwritten yet: window 4, query 7", ([4, 5, 6, 7, 2, 3], 7, 4, 0)),
        ("two sinks beside a ring of 4, after 10 tokens", ([0, 1, 6, 7, 8, 9], 9, 4, 2)),
        ("SLOTS: the same in another order", ([7, 1, 9, 6, 0, 8], 9, 4, 2)),
        ("sinks that are in the window as well count once: token 3, window 4, 2 sinks",
         ([0, 1, 2, 3, -1, -1], 3, 4, 2)),
        ("a first chunk has been written already: query 0 must not see token 1, a sink",
         ([0, 1, 2, 3, -1, -1], 0, 4, 2)),
        ("a slot holds token 2, which is no sink and too old: window 3, 2 sinks", ([0, 1, 2, 7, 8, 9], 9, 3, 2)),
        ("SLOTS: after 40 tokens, window 8, 4 sinks, scores of some thousand",
         ([32, 3, 39, 0, 35, 36, 2, 33, 34, 1, 38, 37], 39, 8, 4, 8, 3000.0)),
    ]
    keys, values, at, q, *rest = call([4, 5, 6, 7, 2, 3], 5, 4, 0)
    far = far_queries(lambda q, keys: (keys, values, at, q[0], *rest), q[None], keys, "; query 5 of a window of 4")
    wide = np.random.default_rng(8).normal(size=(len(at), 3))
    narrow = Case("values of size 3, only tokens that are to come: the output is 0", (keys, wide, at + 6, q, *rest))
    q, keys = large_key(q[None], keys, 3)
    future = Case("FUTURE: token 7, which query 5 must not see: a score near 100000", (keys, values, at, q[0], *rest))
    return [*[Case(label, call(*args)) for label, args in calls], narrow, *far, future]


RULE = "seen & ((position - positions < window) | (positions < sinks))"
TWICE = "seen & (positions < sinks), seen & (position - positions < window)"

EXERCISE = Exercise(
    lesson="16", stars=2, reference=rolling_attend, where="eq. 16.6", cases=cases,
    hints=(
        "Which slots take part? Write a boolean vector from `positions` alone; the number of a slot tells you nothing.",
        "Three conditions of eq. 16.6: the slot is filled; its token isn't younger than the query; and it's in the "
        "window, position − positions < window, or a sink, positions < sinks.",
        "keys[seen] and values[seen] leave the NaN of empty slots out. Multiplying by 0 wouldn't.",
    ),
    without={
        "positions <= position": phrases.sees_future("eq. 16.6"),
        "positions < sinks": phrases.sinks_left_out("eq. 16.6"),
        "positions >= 0": phrases.empty_slots("eq. 16.6"),
        "if not seen.any():": phrases.no_weights("lesson 02, section 6"),
        "math.sqrt(len(q))": phrases.unscaled("lesson 01, section 1"),
    },
    mistakes=(
        Mistake(phrases.slot_for_position("eq. 16.6"),
                but("    seen = (", "    positions = np.where(positions < 0, -1, np.arange(len(keys)))\n    seen = (")),
        Mistake("You see filled slots that should be hidden. A slot may hold a token that has left the window but "
                "isn't overwritten yet, or one of a later query of the same chunk (eq. 16.6).",
                but(" & (positions <= position)", "", RULE, "seen"), but(RULE, "seen")),
        Mistake("A sink that's also in the window counts twice. Take the union of the two sets of eq. 16.6, not their "
                "sum.",
                but("    s =", f"    seen = np.concatenate([np.flatnonzero(x) for x in ({TWICE})])\n    s =")),
        Mistake("What's hidden has weight 0, but 0 · NaN is NaN. Leave the values out, too: keys[seen] and "
                "values[seen] (eq. 16.6).",
                but("p @ values[seen]", "(seen * 1.0) * 0 @ values + p @ values[seen]")),
    ),
)
