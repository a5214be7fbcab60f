"""Lesson 15, ★★: one query, its keys in parts that know nothing of each other."""

from attnlab.check.exercise import Case, Exercise, Mistake, but
from attnlab.check.fingerprints import far_queries
from attnlab.course.lesson15.merge_parts import brain  # noqa: F401, edits below call it

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


def cut_evenly(q: Array, k: Array, v: Array, splits: int) -> tuple[Array, Array]:
    """Parts as equal as possible, as np.array_split cuts them."""
    outs, lses = np.zeros((splits, v.shape[1])), np.full(splits, -np.inf)
    for i, part in enumerate(np.array_split(np.arange(len(k)), splits)):
        s = k[part] @ q / np.sqrt(len(q))
        if len(s) > 0:
            p = np.exp(s - s.max())
            outs[i], lses[i] = p @ v[part] / p.sum(), s.max() + np.log(p.sum())
    w = np.exp(lses - lses.max())
    return w @ outs / w.sum(), lses


def neighbors(q: Array, k: Array, v: Array, splits: int) -> tuple[Array, Array]:
    """Merged as a tree, pair by pair, without a guard for a pair of empty parts."""
    _, lses = split_attention(q, k, v, splits)
    size = -(-len(k) // splits)
    parts = [(k[i * size : (i + 1) * size], v[i * size : (i + 1) * size]) for i in range(splits)]
    level = [(split_attention(q, *part, 1)[0] if len(part[0]) else np.zeros(v.shape[1]), lse)
             for part, lse in zip(parts, lses)]  # fmt: skip
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2]))
        merged = [((1 - (w := 1 / (1 + np.exp(a - b)))) * x + w * y, np.logaddexp(a, b)) for (x, a), (y, b) in pairs]
        level = merged + level[2 * len(pairs) :]
    return level[0][0], lses


KEPT = "np.full(splits, -np.inf)"
WEIGHTS = "np.exp(lses - top)"
RETURNED = "w.sum(), lses"
PART = "if len(s) > 0:", "if True:", "s.max()", "s.max(initial=-np.inf)"

EXERCISE = Exercise(
    lesson="15", stars=2, reference=split_attention, cases=cases,
    hints=(
        "Two steps. First every part by itself: its output, divided, and its lse (eq. 15.7). Then merge them.",
        "Part i has the keys i·c to (i + 1)·c with c = ⌈M / splits⌉ = -(-len(k) // splits); slices end by themselves.",
        "A part without keys has output 0 and lse −∞: begin with np.zeros and np.full(…, -np.inf) and skip it.",
        "w = np.exp(lses - lses.max()); the output is the mean of the parts' outputs with these weights (eq. 15.8).",
    ),
    mistakes=(
        Mistake("You average the outputs of the parts as if all weighed the same. A part weighs e^lse, its share of "
                "the sum of exponentials (eq. 15.8).",
                but("w @ outs / w.sum()", "outs.mean(0)")),
        Mistake("You weigh the parts by their number of keys. A part weighs e^lse, however many keys it has "
                "(eq. 15.8).",
                but(WEIGHTS, "np.array([len(k[i * size : (i + 1) * size]) for i in range(splits)])")),
        Mistake("Your lse is in base two. A kernel that computes 2^x keeps m and log₂ l in units of ln 2; outside of "
                "it lse is a natural logarithm (eq. 15.7 and lesson 12).",
                but("m + np.log(", "m / np.log(2) + np.log2("),
                but("m + np.log(", "m / np.log(2) + np.log2(", "np.exp(lses", "np.exp2(lses"),
                but("m + np.log(", "m + np.log2(")),
        Mistake("You read a natural lse as one in base two: the weights are e^(lse − top), not 2^(lse − top) "
                "(eq. 15.8). ONES cannot show it, because any weights that add up to 1 give 1.",
                but(WEIGHTS, "np.exp2(lses - top)")),
        Mistake("You keep lse in half precision. It stands in an exponent: at 60 two neighbors in float16 are .03 "
                "apart, in bfloat16 .25, and that is the relative error of the weights. Keep it in float32, whatever "
                "keys and values are in (eq. 15.8).",
                but(KEPT, "np.full(splits, -np.inf, np.float16)"),
                but(KEPT + "\n", KEPT + "\n", "top = ", "lses = np.float16(lses).astype(float); top = "),
                but(WEIGHTS, "np.exp(np.float16(lses) - np.float16(top))"),
                but("top = ", "lses = brain(lses); top = "),
                but(WEIGHTS, "np.exp(brain(lses) - brain(top))")),
        Mistake("The keys after the last full part are lost. Parts have ⌈M / splits⌉ keys, rounded up; the last one "
                "may be shorter (eq. 15.6).",
                but("-(-len(k) // splits)", "len(k) // splits"),
                but("-(-len(k) // splits)", "max(len(k) // splits, 1)")),
        Mistake("You read `splits` as the number of keys in a part. It is the number of parts, ⌈M / splits⌉ keys each "
                "(eq. 15.6).",
                but("-(-len(k) // splits)", "splits")),
        Mistake("Two parts share a key, which then counts twice: part i ends before (i + 1) · ⌈M / splits⌉ (eq. 15.6).",
                but("(i + 1) * size)", "(i + 1) * size + 1)")),
        Mistake("You cut the keys into parts as equal as possible. The output is right; but the parts of eq. 15.6 have "
                "⌈M / splits⌉ keys each, only the last ones fewer, so that a program finds its keys from its number.",
                cut_evenly),
        Mistake("A part without keys spoils the result: its maximum is −∞, or does not exist, and −∞ − (−∞) is NaN. "
                "Its output is 0 and its lse −∞ (eq. 15.7), and two of them merge into another one.",
                but(*PART), but(PART[0], PART[1]), neighbors),
        Mistake("A part without keys has lse −∞, the identity of ⊕. With lse 0 it weighs as much as a key with score 0 "
                "(eq. 15.7).",
                but(KEPT, "np.zeros(splits)")),
        Mistake("Your scores lack the factor 1/√D (eq. 15.7).", but(" / np.sqrt(len(q))", "")),
        Mistake("Your weights are bare exponentials of lse and overflow. Subtract the largest lse first (eq. 15.8).",
                but(WEIGHTS, "np.exp(lses)")),
        Mistake("Your lse has the mean of the exponentials in the place of their sum: m + log l, l = Σ e^(s − m) "
                "(eq. 15.7).",
                but("np.log(p.sum())", "np.log(p.mean())")),
        Mistake("Your lse lacks the factor 1/√D that your weights have: it is the lse of the scores s = q·k/√D "
                "(eq. 15.7).",
                but("m + np.log(p.sum())", "(m + np.log(p.sum())) * np.sqrt(len(q))")),
        Mistake("Your lse lacks log l: it is the maximum of the part. Two parts with the same maximum then weigh the "
                "same, whatever else is in them (eq. 15.7).",
                but("m + np.log(p.sum())", "m")),
        Mistake("Your weights are e^lse, which contains l already, and the outputs of the parts are not divided by l: "
                "l counts twice (eq. 15.8).",
                but("p @ v[part] / p.sum()", "p @ v[part]")),
        Mistake("You return the lse of all keys. One lse for each part is asked for, shape (splits,) (eq. 15.7).",
                but(RETURNED, "w.sum(), top + np.log(w.sum())")),
        Mistake("You return the weights of the parts. Their lses are asked for (eq. 15.7).",
                but(RETURNED, "w.sum(), w / w.sum()")),
    ),
)
