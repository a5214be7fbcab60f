"""Lesson 04, ★: lazy attention for one query, over a stream of pairs."""

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Cost, Exercise, Mistake, but
from attnlab_course.checker.inputs import Pairs, random_row, scored, stream
from attnlab_course.checker.promises import growth

import numpy as np


def lazy_row(q: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Lazy attention of q (D,) over a stream of pairs (key (D,), value (Dv,)) → (Dv,); scale 1/√D. One pass, O(1)."""
    l = o = 0.0
    for k, v in pairs:
        e = np.exp(k @ q / len(q) ** 0.5)
        l += e
        o += e * v
    return o / l  # eq. 4.2


def cases() -> list[Case]:
    """ONE and EYE on scores 0, 1, 2, then random rows, and scores far from 0."""
    rng = np.random.default_rng(41)
    q, keys, values = rng.normal(size=4), rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    return [
        Case("ONE: a single pair, so the result is its value", scored([2.0], np.array([[3.0, -1.0]]))),
        Case("EYE: scores 0, 1, 2, values the identity: the result is the weights", scored([0.0, 1.0, 2.0], np.eye(3))),
        Case("six random pairs, D = 4: scale 1/2", (q, stream(keys, values))),
        Case("six random pairs, D = 3", (q[:3], stream(keys[:, :3], values))),
        Case("HIGH: scores 600 and 601, whose exponentials are large but finite", scored([600.0, 601.0], np.eye(2))),
        Case("LOW: scores −600 and −601, whose exponentials are tiny, but not 0", scored([-600.0, -601.0], np.eye(2))),
        Case("a first value of zeros: its key has a weight", scored([0.0, 1.0], np.array([[0.0], [1.0]]))),
        Case("scores −800 and 0: the first exponential is 0", scored([-800.0, 0.0], np.eye(2))),
        Case("a score of 0, then 300 of −10: together they weigh 0.0135",
             scored([0.0] + [-10.0] * 300, np.eye(301)[:, :1])),
    ]


EXERCISE = Exercise(
    lesson="04", stars=1, reference=lazy_row, cases=cases, where="eq. 4.2",
    costs=(Cost(growth(random_row, 200, 400), 1.1, "Twice the pairs took {found:.1f}× memory: it should not grow."),),
    hints=(
        "Before the loop, set two sums to 0.0; one takes the shape of the first value that's added to it.",
        "In the loop: e = np.exp(k @ q / len(q) ** 0.5), then add e to one and e * v to the other.",
        "Divide once, after the loop. After a pair's turn, you need nothing from it.",
    ),
    without={
        "l": "You never divide o by l. It's a sum until all keys are read: divide it then, once (eq. 4.1).",
        "len(q) ** 0.5": phrases.unscaled("lesson 01, eq. 1.1"),
        "np.exp(k @ q / len(q) ** 0.5)": "You weight the values by the scores. Take their exponentials (eq. 4.2).",
        "e": "Your sum of values has no exponentials in it. In eq. 4.2, v comes with the weight e^s, which l adds.",
    },
    mistakes=(
        Mistake(phrases.divides_early("eq. 4.2", o="o", l="l"),
                *(but("o += e * v", added, "return o / l", result) for result in ("return o / l", "return o")
                  for added in ("o = (o + e * v) / l", "o += e / l * v"))),
        Mistake(phrases.divides_by_number("eq. 4.2", keys="pairs"),
                but("k, v in pairs", "n, (k, v) in enumerate(pairs, 1)", "o / l", "o / n")),
        Mistake(phrases.epsilon("eq. 4.2", instead="l is the sum of the exponentials and nothing else"),
                *(but("o / l", f"o / (l + {small})") for small in ("1e-6", "1e-8", "1e-9", "1e-10", "1e-12"))),
        Mistake(phrases.keeps_all("eq. 4.2", item="pair", sums="l and o"),
                but("l = o = 0.0", "kept = map(np.array, zip(*pairs)); l = o = 0.0", "in pairs:", "in zip(*kept):"),
                but("l = o = 0.0", "l, o, kept = 0.0, 0.0, []", "l += e", "l += e; kept.append(e)")),
    ),
)
