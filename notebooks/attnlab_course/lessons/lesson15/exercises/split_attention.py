"""Lesson 15, ★★: one query, its keys in parts that know nothing of each other."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries

import numpy as np

Array = np.ndarray


def split_attention(q: Array, k: Array, v: Array, splits: int) -> tuple[Array, Array]:
    """(out (Dv,), lses (splits,)) of a query q (D,) and keys k (M, D), v (M, Dv) in parts of ⌈M / splits⌉ keys.

    lses: the natural lse of each part by itself, −∞ where no keys are left for it.
    """
    size = -(-len(k) // splits)
    outs, lses = np.zeros((splits, v.shape[1])), np.full(splits, -np.inf)
    for i in range(splits):
        part = slice(i * size, (i + 1) * size)
        s = k[part] @ q / np.sqrt(len(q))
        if len(s) > 0:
            m = s.max()
            p = np.exp(s - m)
            outs[i], lses[i] = p @ v[part] / p.sum(), m + np.log(p.sum())
    top = lses.max()
    w = np.exp(lses - top)  # eq. 15.8
    return w @ outs / w.sum(), lses


def cases() -> list[Case]:
    """One part, even parts, ragged and empty ones, large scores."""
    rng = np.random.default_rng(153)
    q, k, v = rng.normal(size=4), rng.normal(size=(10, 4)), rng.normal(size=(10, 3))
    one, scores = np.ones(1), np.array([[0.0], [1.0], [3.0]])
    high = np.float32([[60.0], [60.03], [59.9], [60.1]])
    return [
        Case("ONE: one key, one part: its value; lse is its score", (one, 2 * one[:, None], 3 * one[:, None], 1)),
        Case("three keys with scores 0, 1 and 3 in one part", (one, scores, np.eye(3), 1)),
        Case("EYE: the same in three parts of one key", (one, scores, np.eye(3), 3)),
        Case("RAGGED: the same in two parts, of two keys and of one", (one, scores, np.eye(3), 2)),
        Case("ONES: every value is 1, so the output is 1", (one, scores, np.ones((3, 1)), 2)),
        Case("EMPTY: three keys in eight parts: nothing is left for the last five", (one, scores, np.eye(3), 8)),
        Case("ten keys of size 4 in two parts", (q, k, v, 2)),
        Case("RAGGED: ten keys in four parts of three, three, three and one", (q, k, v, 4)),
        Case("PERM: the same with the keys in another order", (q, k[::-1].copy(), v[::-1].copy(), 4)),
        Case("scores of thousands, of either sign", (90 * q, 90 * k, v, 4)),
        Case("scores 0 and 1000 in two parts: the second lies far above the first", (one, np.array([[0.0], [1000.0]]),
             np.eye(2), 2)),
        Case("a part whose score is 10 less, and whose value is 10⁶ times as large", (one, np.array([[10.0], [0.0]]),
             np.array([[1.0], [1e6]]), 2)),
        *far_queries(lambda q, k: (q[0], k, v, 4), q[None], k, "; ten keys in four parts"),
        Case("scores of about 60 in float32: float16 numbers are .03 apart there", (np.float32(one), high,
             np.eye(4, dtype=np.float32), 4)),
    ]  # fmt: skip


def brain(x: Array) -> Array:
    """x rounded to 8 significant bits, as bfloat16 does."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.round(256 * fraction) / 256, exponent)


KEPT = "np.full(splits, -np.inf)"
WEIGHTS = "np.exp(lses - top)"
PART = "if len(s) > 0:", "if True:", "s.max()", "s.max(initial=-np.inf)"

EXERCISE = Exercise(
    lesson="15", stars=2, reference=split_attention, where="eq. 15.7", cases=cases,
    hints=(
        "Two steps. First compute every part by itself: its output, divided, and its lse (eq. 15.7). Then merge them.",
        "Part i has keys i·c to (i + 1)·c with c = ⌈M / splits⌉ = -(-len(k) // splits); slices stop at the end.",
        "w = np.exp(lses - lses.max()); the output is the mean of the parts' outputs with these weights (eq. 15.8).",
    ),
    without={
        "np.sqrt(len(q))": phrases.unscaled("eq. 15.7"),
        "np.log(p.sum())": "Your lse isn't m + log l, and parts are weighed by it (eq. 15.7).",
    },
    mistakes=(
        Mistake(phrases.averages("eq. 15.8"), but("w @ outs / w.sum()", "outs.mean(0)")),
        Mistake(phrases.lse_in_base_two("eq. 15.7 and lesson 12"),
                but("m + np.log(", "m / np.log(2) + np.log2("),
                but("m + np.log(", "m / np.log(2) + np.log2(", "np.exp(lses", "np.exp2(lses"),
                but("m + np.log(", "m + np.log2(")),
        Mistake("You keep lse in half precision. It's in an exponent: at 60, two neighbors in float16 are .03 apart, "
                "in bfloat16 .25, and that's the relative error of the weights. Keep it in float32, whatever the keys "
                "and values are in (eq. 15.8).",
                but(KEPT, "np.full(splits, -np.inf, np.float16)"),
                but(WEIGHTS, "np.exp(np.float16(lses) - np.float16(top))"),
                but("top = ", "lses = brain(lses); top = "),
                but(WEIGHTS, "np.exp(brain(lses) - brain(top))")),
        Mistake("Each part has ⌈M / splits⌉ keys, and only the last ones have fewer (eq. 15.6). If you round down, the "
                "keys after the last full part are lost; if you cut as equally as possible, the output is right, but a "
                "program can't find its keys from its number.",
                but("-(-len(k) // splits)", "len(k) // splits"),
                but("-(-len(k) // splits)", "max(len(k) // splits, 1)"),
                but("slice(i * size, (i + 1) * size)", "np.array_split(np.arange(len(k)), splits)[i]")),
        Mistake("A part without keys spoils the result. Its maximum is −∞, or doesn't exist, and −∞ − (−∞) is NaN. "
                "Its output is 0 and its lse −∞, the identity of ⊕; with lse 0 it would weigh as much as a key with "
                "score 0 (eq. 15.7).",
                but(*PART), but(PART[0], PART[1]), but(KEPT, "np.zeros(splits)")),
    ),
)
