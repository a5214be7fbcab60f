"""Lesson 15, ★★: one query, its keys in parts that know nothing of each other."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import far_queries
from attnlab_course.lessons.lesson15.exercises.merge_parts import brain  # noqa: F401, edits below call it

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
        "Two steps. First compute every part by itself: its output, divided, and its lse (eq. 15.7). Then merge them.",
        "Part i has keys i·c to (i + 1)·c with c = ⌈M / splits⌉ = -(-len(k) // splits); slices stop at the end.",
        "A part without keys has output 0 and lse −∞: start with np.zeros and np.full(…, -np.inf) and skip it.",
        "w = np.exp(lses - lses.max()); the output is the mean of the parts' outputs with these weights (eq. 15.8).",
    ),
    mistakes=(
        Mistake(phrases.averages("eq. 15.8"), but("w @ outs / w.sum()", "outs.mean(0)")),
        Mistake("You weight the parts by their number of keys. A part weighs e^lse, however many keys it has (eq. "
                "15.8).",
                but(WEIGHTS, "np.array([len(k[i * size : (i + 1) * size]) for i in range(splits)])")),
        Mistake(phrases.lse_in_base_two("eq. 15.7 and lesson 12"),
                but("m + np.log(", "m / np.log(2) + np.log2("),
                but("m + np.log(", "m / np.log(2) + np.log2(", "np.exp(lses", "np.exp2(lses"),
                but("m + np.log(", "m + np.log2(")),
        Mistake(phrases.weights_in_base_two("eq. 15.8"), but(WEIGHTS, "np.exp2(lses - top)")),
        Mistake("You keep lse in half precision. It's in an exponent: at 60, two neighbors in float16 are .03 apart, "
                "in bfloat16 .25, and that's the relative error of the weights. Keep it in float32, whatever the keys "
                "and values are in (eq. 15.8).",
                but(KEPT, "np.full(splits, -np.inf, np.float16)"),
                but(KEPT + "\n", KEPT + "\n", "top = ", "lses = np.float16(lses).astype(float); top = "),
                but(WEIGHTS, "np.exp(np.float16(lses) - np.float16(top))"),
                but("top = ", "lses = brain(lses); top = "),
                but(WEIGHTS, "np.exp(brain(lses) - brain(top))")),
        Mistake("Each part has ⌈M / splits⌉ keys, and only the last ones have fewer (eq. 15.6). If you round down, the "
                "keys after the last full part are lost; if you cut as equally as possible, the output is right, but a "
                "program can't find its keys from its number.",
                but("-(-len(k) // splits)", "len(k) // splits"),
                but("-(-len(k) // splits)", "max(len(k) // splits, 1)"), cut_evenly),
        Mistake("You cut the keys in the wrong places. `splits` is the number of parts, each has ⌈M / splits⌉ keys, "
                "and part i ends before (i + 1) · ⌈M / splits⌉, so no key counts twice (eq. 15.6).",
                but("-(-len(k) // splits)", "splits"), but("(i + 1) * size)", "(i + 1) * size + 1)")),
        Mistake("A part without keys spoils the result. Its maximum is −∞, or doesn't exist, and −∞ − (−∞) is NaN. "
                "Its output is 0 and its lse −∞, the identity of ⊕; with lse 0 it would weigh as much as a key with "
                "score 0 (eq. 15.7).",
                but(*PART), but(PART[0], PART[1]), neighbors, but(KEPT, "np.zeros(splits)")),
        Mistake(phrases.unscaled("eq. 15.7"), but(" / np.sqrt(len(q))", "")),
        Mistake(phrases.bare_lse("eq. 15.8"), but(WEIGHTS, "np.exp(lses)")),
        Mistake("Your lse isn't m + log l of the scaled scores. l is a sum, not a mean; the factor 1/√D is in the lse "
                "as it is in the weights; and without log l, two parts with the same maximum weigh the same, whatever "
                "else is in them (eq. 15.7).",
                but("np.log(p.sum())", "np.log(p.mean())"),
                but("m + np.log(p.sum())", "(m + np.log(p.sum())) * np.sqrt(len(q))"), but("m + np.log(p.sum())", "m")),
        Mistake("Your weights are e^lse, which already contains l, but you don't divide the parts' outputs by l, so l "
                "counts twice (eq. 15.8).",
                but("p @ v[part] / p.sum()", "p @ v[part]")),
        Mistake("We want one lse per part, shape (splits,): not the lse of all keys, and not the parts' weights (eq. "
                "15.7).",
                but(RETURNED, "w.sum(), top + np.log(w.sum())"), but(RETURNED, "w.sum(), w / w.sum()")),
    ),
)
