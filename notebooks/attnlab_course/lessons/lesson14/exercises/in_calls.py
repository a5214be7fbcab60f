"""Lesson 14, ★★: a cache that is right for one token at a time only, and repaired."""

import attnlab
from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import deepest

import numpy as np
from numpy import ndarray as Array


def in_calls(q: Array, k: Array, v: Array, sizes: list[int]) -> Array:
    """Rotary causal attention of q and k (L, D), v (L, Dv) that come in calls of these sizes, L in all → (L, Dv)."""
    keys, values, out, t = np.zeros_like(k), np.zeros_like(v), [], 0
    for n in sizes:
        new, at = slice(t, t + n), np.arange(t, t + n)
        keys[new], values[new] = attnlab.rotary(k[new], at), v[new]
        s = attnlab.rotary(q[new], at) @ keys[: t + n].T / k.shape[1] ** 0.5
        s = np.where(np.arange(t + n) <= at[:, None], s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        out.append(p @ values[: t + n] / p.sum(1, keepdims=True))
        t += n
    return np.concatenate(out)


def call(sizes: list[int], d: int, dv: int = 0, times: float = 0) -> tuple:
    """A random sequence, EYE values if dv is 0; queries are ``times`` the keys unless that is 0."""
    length = sum(sizes)
    rng = np.random.default_rng(length)
    q, k = rng.normal(size=(2, length, d))
    q = times * k if times else q
    return q, k, rng.normal(size=(length, dv)) if dv else np.eye(length), sizes


def cases() -> list[Case]:
    """SPLIT: one at a time, all at once, and in between."""
    return [
        Case("EYE, SPLIT: four tokens, one at a time", call([1, 1, 1, 1], 2)),
        Case("EYE, SPLIT: two tokens in one call", call([2], 2)),
        Case("EYE, SPLIT: a token, then two", call([1, 2], 2)),
        Case("EYE, SPLIT: two tokens, then one, then one", call([2, 1, 1], 2)),
        Case("SPLIT: 12 tokens in one call", call([12], 4, 3)),
        Case("SPLIT: 12 tokens in calls of 5, 1, 1, 3, 2", call([5, 1, 1, 3, 2], 4, 3)),
        Case("SPLIT: 331 tokens in calls of 130, 1 and 200", call([130, 1, 200], 4, 3)),
        Case("HIGH: queries are 100000 times their keys; calls of 2, 1 and 3", call([2, 1, 3], 4, 3, 1e5)),
        Case("LOW, FUTURE: the same, −100000 times: a query's own key has its smallest score",
             call([2, 1, 3], 4, 3, -1e5)),
        Case("EYE, LOW: scores near −10¹² to −6·10¹²; calls of 2, 1 and 3", (*deepest(6, 6, 4), np.eye(6), [2, 1, 3])),
    ]


POSITION, MASK, LENGTH = (
    ("np.arange(t, t + n)", "np.full(n, t)", "at[:, None]", "np.arange(t, t + n)[:, None]"),
    ("np.where(np.arange(t + n) <= at[:, None], s, -np.inf)", "s"),
    ("t += n", "t = len(out)"),
)
UNMASKED = ("np.arange(t, t + n)", "np.full(n, t)", *MASK)

TRY = "a call of several tokens, and look at its second one"

EXERCISE = Exercise(
    lesson="14", stars=2, reference=in_calls, where="eq. 14.3", cases=cases,
    hints=(
        "Call `broken` with sizes of your own and compare with one call of attnlab.tiled_attention on rotated arrays; "
        "[2] is the smallest input that fails. With values np.eye(L) the result is the weights.",
        "Ask of each line what it does to the *second* token of a call: which position, which keys, which slot next?",
        "Three lines are wrong. They need positions t … t + n − 1, a mask j ≤ t + i (eq. 14.3), and a length that "
        "grows by n.",
    ),
    without={
        "np.where(np.arange(t + n) <= at[:, None], s, -np.inf)":
            "Positions and length are right, but a token still sees the later ones of its call. One query needs no "
            "mask; with n of them, the last n columns are a triangle: eq. 14.3.",
        "attnlab.rotary(k[new], at)": phrases.keys_unrotated("section 3"),
        "k.shape[1] ** 0.5": phrases.unscaled("eq. 14.2"),
        "s.max(1, keepdims=True)": phrases.unshifted("eq. 14.2"),
    },
    mistakes=(
        Mistake(phrases.nothing_fixed("eq. 14.3", inputs=TRY), but(*UNMASKED, *LENGTH)),
        Mistake(phrases.one_fixed("eq. 14.3", inputs=TRY),
                but(*UNMASKED), but(*MASK, *LENGTH), but(*POSITION, *LENGTH)),
        Mistake("You rotate all tokens of a call by the same position, t. They're at t, t + 1, …, t + n − 1: section "
                "3.",
                but(*POSITION)),
        Mistake("Positions and mask are right, but the length still grows by one per call. It counts tokens, not "
                "calls: eq. 14.2.",
                but(*LENGTH)),
        Mistake("Your positions begin at 0 in every call, of keys, of queries or of both. They're positions in the "
                "text, t + i: section 3.",
                but("np.arange(t, t + n)", "np.arange(n)", "<= at[:, None]", "<= at[:, None] + t"),
                but("rotary(k[new], at)", "rotary(k[new], at - t)"),
                but("rotary(q[new], at)", "rotary(q[new], at - t)")),
    ),
)
