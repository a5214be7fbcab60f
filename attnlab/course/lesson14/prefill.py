"""Lesson 14, ★★: a prompt in chunks."""

from attnlab.check import phrases
from attnlab.check.exercise import Case, Cost, Exercise, Mistake, but
from attnlab.check.fingerprints import deepest, far_queries, large_key
from attnlab.check.operations import exponentials_at_once
from attnlab.check.promises import peak

import numpy as np
from numpy import ndarray as Array


def prefill(q: Array, k: Array, v: Array, C: int) -> Array:
    """Causal attention of a prompt, C queries at a time: q and k (L, D), v (L, Dv), scale 1/√D → (L, Dv)."""
    out = np.zeros((len(q), v.shape[1]))
    for start in range(0, len(q), C):
        stop = min(start + C, len(q))
        s = q[start:stop] @ k[:stop].T / q.shape[1] ** 0.5
        i, j = np.arange(start, stop)[:, None], np.arange(stop)
        s = np.where(j <= i, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        out[start:stop] = p @ v[:stop] / p.sum(1, keepdims=True)
    return out


def at_once(q: Array, k: Array, v: Array, C: int) -> Array:
    """The whole matrix; hidden values are taken out, so that what lies in them does not show."""
    s = q @ k.T / q.shape[1] ** 0.5
    visible = np.tri(len(q), dtype=bool)
    p = np.where(visible, s, -np.inf)
    p = np.exp(p - p.max(1, keepdims=True))
    p = np.where(visible, p / p.sum(1, keepdims=True), 0)
    late = np.isnan(v).any(1)
    return np.where((visible & late).any(1, keepdims=True), np.nan, p @ np.nan_to_num(v))


def call(length: int, d: int, C: int, dv: int = 0, times: float = 1.0, poison: int | None = None) -> tuple:
    """A random prompt, EYE values if dv is 0; keys are multiplied by ``times``, NaN from token ``poison`` on."""
    rng = np.random.default_rng(length + 100 * C)
    q, k = rng.normal(size=(2, length, d))
    v = rng.normal(size=(length, dv)) if dv else np.eye(length)
    if poison is not None:
        k[poison:] = v[poison:] = np.nan
    return q, times * k, v, C


def cases() -> list[Case]:
    """SPLIT: chunks of every size, ragged ones too; POISON in what has not come yet."""
    q, k, v, _ = call(6, 4, 2, 3)
    return [
        Case("ONE: one token, C = 1", call(1, 1, 1)),
        Case("EYE: L = 4, C = 4, one chunk", call(4, 2, 4)),
        Case("EYE: L = 4, C = 2", call(4, 2, 2)),
        Case("SPLIT: L = 12, C = 1, as in decoding", call(12, 4, 1, 3)),
        Case("SPLIT: L = 12, C = 3", call(12, 4, 3, 3)),
        Case("SPLIT, RAGGED: L = 12, C = 5: the last chunk has two tokens", call(12, 4, 5, 3)),
        Case("SPLIT: L = 12, C = 20, more than there are", call(12, 4, 20, 3)),
        Case("SPLIT, RAGGED: L = 150, C = 130", call(150, 4, 130, 3)),
        Case("POISON: L = 8, C = 2, keys and values of tokens 4 to 7 are NaN: the first two chunks come before them",
             call(8, 4, 2, 3, 1.0, 4)),
        *far_queries(lambda q, k: (q, k, v, 2), q, k, "; L = 6, C = 2"),
        Case("LOW: scores −10¹² to −6·10¹²; L = 6, C = 2", (*deepest(6, 6, 4), v, 2)),
        Case("FUTURE: the last key has scores near 100000; L = 6, C = 2", (*large_key(q, k, 5), v, 2)),
        Case("GROW: L = 6, C = 2, keys 1000 times as large", call(6, 4, 2, 3, 1000.0)),
    ]


def long(n: int) -> tuple:
    """A prompt of n tokens in chunks of 16."""
    return call(n, 8, 16, 8)


MASK = "np.where(j <= i, s, -np.inf)"

EXERCISE = Exercise(
    lesson="14", stars=2, reference=prefill, cases=cases,
    hints=(
        "A chunk of queries start … stop − 1 meets keys 0 … stop − 1: those that were there, and its own.",
        "It is aligned to the bottom right: query i of the text sees j ≤ i. With i = start, …, stop − 1 and j = 0, …, "
        "stop − 1 the mask is j <= i, eq. 14.3.",
        "The last chunk may be shorter: stop = min(start + C, L).",
        "attnlab's own functions align so: tiled_attention(q[start:stop], k[:stop], v[:stop], causal=True).",
    ),
    mistakes=(
        Mistake(phrases.top_left("eq. 14.3", rule="query i of a chunk sees j ≤ start + i"),
                but("np.arange(start, stop)", "np.arange(stop - start)")),
        Mistake("The first chunk has a mask and the others have none, so that a token sees later ones of its own "
                "chunk. Whether N = M doesn't matter: every chunk has its triangle, eq. 14.3.",
                but("j <= i,", "(j <= i) | (start > 0),")),
        Mistake(phrases.sees_future("eq. 14.3"), but(MASK, "s")),
        Mistake(phrases.own_tokens("eq. 14.3", chunk="chunk"),
                but("k[:stop]", "k[start:stop]", "v[:stop]", "v[start:stop]", "np.arange(stop)",
                    "np.arange(start, stop)")),
        Mistake(phrases.not_itself("eq. 14.3", rule="j ≤ i"), but("j <= i", "j < i")),
        Mistake(phrases.last_one("eq. 14.5", what="The tokens", block="chunk"),
                but("range(0, len(q), C)", "range(0, len(q) // C * C, C)")),
        Mistake("You compute scores with keys that haven't come yet, and mask them. Keys 0 … start + C − 1 are enough "
                "for a chunk, C × (start + C) scores: eq. 14.5. While a chunk is read the others don't exist.",
                but("k[:stop]", "k", "v[:stop]", "v", "np.arange(stop)", "np.arange(len(k))")),
        Mistake(phrases.all_scores("eq. 14.5", piece="chunk of queries"), at_once),
        Mistake(phrases.unscaled("eq. 14.2"), but(" / q.shape[1] ** 0.5", "")),
        Mistake(phrases.unshifted("lesson 02, section 2"), but(" - s.max(1, keepdims=True)", "")),
        Mistake(phrases.hides_with_number("eq. 1.9"), but("s, -np.inf", "s, -1e9")),
    ),
    costs=(
        Cost(exponentials_at_once(lambda: call(500, 8, 15, 8), 15 * 500), 1.05, "with L = 500 and C = 15 its largest "
             "block of scores had {found:.2f} times C · L numbers."),
        Cost(peak(long, 512, 16 * 512), 24, "with L = 512 and C = 16 it held {found:.1f} times C · L numbers, where up "
             "to {limit} are allowed."),
    ),
)
