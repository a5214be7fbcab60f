"""Lesson 24, ★★: attention over a cache whose complete groups are in few bits."""

import math

from attnlab.cache import dequantize, quantize
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.inputs import qkv

import numpy as np
from numpy import ndarray as Array


def quantized_attend(q: Array, k: Array, v: Array, bits: int, group: int) -> Array:
    """(N, Dv): row i is what token i gets when tokens come one by one into a cache with few bits.

    q and k (N, D), v (N, Dv), causal. Once ``group`` tokens are complete, token i's own among them, their keys are kept
    as ``quantize(..., bits, axis=-2, group=group)`` and their values with ``axis=-1, group=Dv``; newer tokens stay in
    full. So every split of a text into calls gives the same rows.
    """
    n, whole = len(q), len(q) // group * group
    rough_k = np.array(k)
    rough_k[:whole] = dequantize(quantize(k[:whole], bits, axis=-2, group=group), k.dtype)
    rough_v = dequantize(quantize(v, bits, axis=-1, group=v.shape[1]), v.dtype)
    i, j = np.arange(n)[:, None], np.arange(n)
    complete = j < (i + 1) // group * group  # eq. 24.6
    s = np.where(complete, q @ rough_k.T, q @ k.T) / math.sqrt(q.shape[1])
    s = np.where(j <= i, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True)
    return (p * complete) @ rough_v + (p * ~complete) @ v


def call(n: int, bits: int, group: int, d: int = 8, dv: int = 4, outlier: float = 1.0) -> tuple:
    """Random tokens; channel 1 of the keys times ``outlier``."""
    q, k, v = qkv(n, n, d, dv)
    k[:, 1] *= outlier
    return q, k, 3 * v, bits, group


def cases() -> list[Case]:
    """One token; a group that isn't complete, complete, complete with its last token; bits; an outlier."""
    calls = [
        ("ONE: one token, which stays in full", call(1, 4, 4)),
        ("three tokens, groups of four: all in full", call(3, 2, 4)),
        ("SPLIT: four tokens: the fourth completes the group", call(4, 2, 4)),
        ("SPLIT: five tokens, groups of four", call(5, 2, 4)),
        ("nine tokens, groups of four, 2 bits", call(9, 2, 4)),
        ("groups of one: nothing is in full", call(5, 4, 1)),
        ("70 tokens, groups of 32, 2 bits", call(70, 2, 32, 16, 8)),
        ("an outlier in channel 1, 4 bits", call(40, 4, 8, outlier=30.0)),
        ("three tokens in full, scores of billions", call(3, 2, 4, outlier=1e11)),
    ]
    return [Case(label, args) for label, args in calls]


def open_group(k: Array, bits: int) -> Array:
    """The tokens of a group that is not complete, to codes and back."""
    return dequantize(quantize(k, bits, axis=-2, group=max(len(k), 1)), k.dtype)


COMPLETE = "(i + 1) // group * group"
GAP = "(p * complete) @ rough_v + (p * ~complete) @ v"

EXERCISE = Exercise(
    lesson="24", stars=2, reference=quantized_attend, where="eq. 24.6", cases=cases,
    hints=(
        "For row i, which tokens are in complete groups? Those below group · ⌊(i + 1) / group⌋: eq. 24.6.",
        "Two kinds of keys and values, one softmax: two parts that `merge` joins, or two score matrices and a choice.",
        "Quantize whole groups only: cut the keys to a multiple of `group` first. Values have a step per token, so "
        "they can all be quantized; which of them are read is another question.",
    ),
    mistakes=(
        Mistake("You quantize the open group, too. Its largest and smallest numbers aren't known until its last token "
                "has come, so a token's row would depend on what came in the same call: eq. 24.6.",
                but(COMPLETE, "n", "    rough_v", "    rough_k[whole:] = open_group(k[whole:], bits)\n    rough_v")),
        Mistake("You decide once for the whole text. A group is in full for the queries that came before it was "
                "complete: eq. 24.6 has i in it.",
                but(COMPLETE, "np.full_like(i, whole)")),
        Mistake("Your keys have a step per token. Outliers sit in channels, and one of them makes the step of its "
                "whole token coarse: section 3.",
                but("quantize(k[:whole], bits, axis=-2, group=group)",
                    "quantize(k[:whole], bits, axis=-1, group=k.shape[1])")),
        Mistake("You read all values from one place. Those of the newest tokens are still in full, in v; of complete "
                "groups the cache has only the rough ones: eq. 24.6.",
                but(GAP, "p @ rough_v"), but(GAP, "p @ v")),
        Mistake("Each part has a softmax of its own, and you add the results. Parts are joined by their lse: lesson "
                "05, `merge`.",
                but("p = p / p.sum(1, keepdims=True)", "a, b = p * complete, p * ~complete\n    p = "
                    "a / np.maximum(a.sum(1, keepdims=True), 1e-300) + b / np.maximum(b.sum(1, keepdims=True), "
                    "1e-300)")),
    ),
)
