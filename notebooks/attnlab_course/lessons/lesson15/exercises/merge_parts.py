"""Lesson 15, ★★, debugging: a merge of parts that three faults have crept into."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np

Array = np.ndarray


def merge_parts(outs: Array, lses: Array) -> tuple[Array, float]:
    """(out (Dv,), lse) of parts with outputs outs (S, Dv) and natural lses (S,); no keys: output 0, lse −∞."""
    top = lses.max()
    if top == -np.inf:
        return np.zeros(outs.shape[1]), top  # a kernel may have left anything in outs
    w = np.exp(lses - top)
    return w @ outs / w.sum(), top + np.log(w.sum())  # eq. 15.8


def pairwise(outs: Array, lses: Array) -> tuple[Array, float]:
    """The lesson's broken function without its faults: one part after the other."""
    out, lse = outs[0], float(lses[0])
    for part, e in zip(outs[1:], map(float, lses[1:])):
        if e > -np.inf:
            share = 1 / (1 + np.exp(lse - e))
            out, lse = (1 - share) * out + share * part, np.logaddexp(lse, e)
    return out, lse


def cases() -> list[Case]:
    """What the broken function gets right first, then what it does not."""
    rng = np.random.default_rng(155)
    one, eye, none = np.ones((1, 1)), np.eye(3), -np.inf
    return [
        Case("ONE: a single part comes back as it is", (3 * one, np.array([2.0]))),
        Case("two parts that weigh the same", (np.array([[0.0], [1.0]]), np.array([1.0, 1.0]))),
        Case("ONES: both parts say 1", (np.ones((2, 1)), np.array([0.0, 2.0]))),
        Case("EYE: two parts with lse 0 and 2: the output is their weights", (np.eye(2), np.array([0.0, 2.0]))),
        Case("EYE: three parts", (eye, np.array([1.0, -2.0, 0.5]))),
        Case("the second part is empty", (np.array([[1.0], [0.0]]), np.array([0.0, none]))),
        Case("the first part is empty", (np.array([[0.0], [1.0]]), np.array([none, 0.0]))),
        Case("EMPTY: two parts, and both are empty", (np.zeros((2, 1)), np.array([none, none]))),
        Case("EMPTY: two empty parts, and then one with keys", (np.array([[0.0], [0.0], [1.0]]),
             np.array([none, none, 1.0]))),
        Case("EMPTY: three empty parts, and then one with keys", (np.array([[0.0], [0.0], [0.0], [1.0]]),
             np.array([none, none, none, 1.0]))),
        Case("EYE: two parts with lse 0 and 2000", (np.eye(2), np.array([0.0, 2000.0]))),
        Case("lse 13.80 and 13.83, which bfloat16 cannot tell apart", (np.eye(2), np.array([13.80, 13.83]))),
        Case("HIGH: lse near 100000", (eye, 1e5 + np.array([0.0, -1.0, 1.0]))),
        Case("LOW: lse near −100000", (eye, -1e5 + np.array([0.0, 1.0, -1.0]))),
        Case("a part whose lse is 30 less, and whose values are 10¹³ times as large",
             (np.array([[1.0], [1e13]]), np.array([3.0, -27.0]))),
        Case("five parts of size 3", (rng.normal(size=(5, 3)), 3 * rng.normal(size=5))),
    ]  # fmt: skip


GUARD = "if e > -np.inf:"
LATE = "np.exp(lse - e)", "np.exp(np.logaddexp(lse, e) - e)"
WEIGHTS = "w = np.exp(lses - top)"

EXERCISE = Exercise(
    lesson="15", stars=2, reference=merge_parts, where="eq. 15.8", cases=cases,
    hints=(
        "With two parts, EYE and lses 0 and 2, the output should be 1/(1 + e²) = .119 and .881. What comes out?",
        "Two empty parts: −∞ − (−∞) is NaN. And a part that weighs e^−30 matters if its values are 10¹³.",
        "w = np.exp(lses − lses.max()) in the precision of lses, w @ outs / w.sum(), and lses.max() + log(w.sum()); "
        "before that, the case in which every lse is −∞ (eq. 15.8).",
    ),
    without={
        "np.log(w.sum())":
            "You return the largest lse. The lse of all keys is larger: the log of the sum of e^lse (eq. 15.8).",
    },
    mistakes=(
        Mistake("This is the broken function, with all its faults. EYE with lses 0 and 2 shows the first (eq. 15.8).",
                but(GUARD, "if not e < lse - 20:", *LATE, of=pairwise)),
        Mistake("Your share compares a part with an lse that the part is already in. Compare it with the lse of those "
                "before it, or divide its e^lse by that of all (eq. 15.8).",
                but(*LATE, of=pairwise), but(GUARD, "if True:", *LATE, of=pairwise),
                but(GUARD, "if e > -np.inf and e >= lse - 20:", *LATE, of=pairwise)),
        Mistake("You leave out parts that weigh little. Their values can be large, and their lse counts, too (eq. "
                "15.8).",
                but(GUARD, "if e > -np.inf and e >= lse - 20:", of=pairwise),
                but(GUARD, "if not e < lse - 20:", of=pairwise),
                but(WEIGHTS, "w = np.where(lses < top - 20, 0, np.exp(lses - top))")),
        Mistake("Two empty parts still give NaN, because −∞ − (−∞) isn't a number. An empty part is the identity of "
                "⊕: skip it, and where all are empty return output 0 and lse −∞ (eq. 15.8).",
                but(GUARD, "if True:", of=pairwise), but("if top == -np.inf:", "if False:")),
        Mistake("Your weights are bare exponentials of lse, and they overflow. Subtract the largest lse first (eq. "
                "15.8).",
                but(WEIGHTS, "w = np.exp(lses)", "top + np.log", "np.log"),
                but(WEIGHTS, "w = np.exp(lses)", "top + np.log", "np.log", "if top == -np.inf:", "if False:")),
    ),
)
