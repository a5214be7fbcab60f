"""Lesson 13, ★★★: the fold that rescales only when the maximum has grown by more than a threshold."""

from dataclasses import replace

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.checker.fingerprints import DEEP, far_scores
from attnlab_course.checker.promises import Measure
from attnlab_course.lessons.lesson13.exercises.fold_exp2 import COSTS

import numpy as np

Array = np.ndarray
INF = np.inf


def lazy_rescale(s: Array, v: Array, block: int, threshold: float | int) -> tuple[Array, Array, int]:
    """(out, lse, rescalings) as fold_exp2; r becomes a block's maximum if that exceeds it by more than threshold."""
    r, l, o, rescalings = np.full(len(s), -np.inf), np.zeros(len(s)), np.zeros((len(s), v.shape[1])), 0
    for first in range(0, s.shape[1], block):
        t = np.log2(np.e) * s[:, first : first + block]
        top = t.max(1)
        moved = top > r + threshold
        rescalings += int((moved & (r > -np.inf)).sum())  # before the first score there is nothing to rescale
        new = np.where(moved, top, r)
        shift = np.where(new == -np.inf, 0, new)
        a, p = np.exp2(r - shift), np.exp2(t - shift[:, None])  # a = 1 where r stays
        r, l, o = new, a * l + p.sum(1), a[:, None] * o + p @ v[first : first + block]
    total = np.where(l == 0, 1, l)
    return o / total[:, None], (r + np.log2(total)) * np.log(2), rescalings  # eq. 13.6


def cases() -> list[Case]:
    """One key, rising and falling scores, steps smaller and larger than the threshold, hidden keys; few shapes."""
    rng = np.random.default_rng(13)
    eye, up = np.eye(4), np.array([[1.0, 3.0, 6.0, 10.0]])
    hidden = np.array([[-INF, -INF, 1.0, 9.0], [-INF, -INF, -INF, -INF]])
    middle = np.array([[0.0, 1.0, -INF, -INF, 2.0, 20.0]])
    jump = np.array([[0.0, 1.0, 1000.0, 999.0]])
    ramp = 4.0 * np.arange(256.0)[None]
    both = np.array([[0.0, 1.0, 8.0, 9.0], [0.0, 0.5, 1.5, 2.0]])
    return [
        Case("ONE: one key of score 3, value 5", (np.array([[3.0]]), np.array([[5.0]]), 1, 8)),
        Case("CONST: four scores of 0, threshold 0", (np.zeros((1, 4)), eye, 1, 0)),
        Case("UP: scores 1, 3, 6, 10, one by one, threshold 4 in powers of two", (up, eye, 1, 4)),
        Case("UP: the same, threshold 0: every step moves r", (up, eye, 1, 0)),
        Case("UP: the same, threshold 8", (up, eye, 1, 8)),
        Case("UP: scores 0, 1, 1000, 999, threshold 8, blocks of two", (jump, eye, 2, 8)),
        Case("DOWN: 10, 6, 3, 1, threshold 0", (up[:, ::-1].copy(), eye, 1, 0)),
        Case("ROWS: one row grows much, one little, threshold 8, blocks of two", (both, eye, 2, 8)),
        Case("ROWS: both rows grow enough, threshold 2, blocks of two", (2 * both, eye, 2, 2)),
        Case("EMPTY: nothing in the first block; a query that sees nothing", (hidden, eye, 2, 8)),
        Case("EMPTY, LOW: nothing in the first block, then scores of −100000 and −99999",
             (np.array([[-INF, -INF, -1e5, -99999]]), eye, 2, 8)),
        Case("LOW, UP: scores −4·10¹² to −10¹²: the second block rescales the first",
             (DEEP * np.array([[4.0, 3.0, 2.0, 1.0]]), eye, 2, 8)),
        Case("EMPTY: the second of three blocks is hidden", (middle, np.eye(6), 2, 8)),
        *far_scores(lambda s: (s, eye, 2, 8), both, "; threshold 8, blocks of two"),
        Case("RAGGED: 3 queries, 7 keys, blocks of 3, random, threshold 0.5",
             (3 * rng.normal(size=(3, 7)), rng.normal(size=(7, 2)), 3, 0.5)),
        Case("RAMP: 256 keys, each score 4 above the last, threshold 8", (ramp, np.ones((256, 1)), 1, 8)),
    ]


def fold(measure: Measure) -> Measure:
    """A measure of fold_exp2 for an answer with a threshold."""
    return lambda answer, library: measure(lambda s, v, block: answer(s, v, block, 1), library)


MOVED, LSE = "top > r + threshold", "(r + np.log2(total)) * np.log(2)"
START = "np.full(len(s), -np.inf), np.zeros(len(s))"

EXERCISE = Exercise(
    lesson="13", stars=3, reference=lazy_rescale, where="eq. 13.6", cases=cases,
    hints=(
        "Start from fold_exp2. What you subtract from the scores needn't be their maximum: any r will do, as long as l "
        "and o refer to the same r (eq. 13.6).",
        "moved = (the block's maximum > r + threshold); r' is that maximum where moved, else r. With r = −∞ at the "
        "start, the first scores move it.",
        "a = 2^(r − r') is 1 where r stays, so l and o are updated as in fold_exp2. Count moved only where r was "
        "finite.",
    ),
    without={
        "threshold":
            "Your r moves at every new maximum. Move it only when the maximum exceeds r by more than the threshold "
            "(eq. 13.7).",
        "r > -np.inf":
            "You count the first block, too. Before the first score, r is −∞, and l and o are 0: there's nothing to "
            "rescale (section 4).",
        "a": phrases.rescales_one("eq. 13.6", one="o", other="l"),
        "np.log(2)": phrases.lse_in_base_two("eq. 12.4"),
    },
    mistakes=(
        Mistake("You compare with the maximum so far instead of r. Then slowly rising scores never move r, and 2^(t − "
                "r) overflows. Compare with what the weights refer to: r (eq. 13.7).",
                but(START, f"{START}, np.full(len(s), -np.inf)", "r, l, o, rescalings", "r, l, seen, o, rescalings",
                    MOVED, "top > seen + threshold; seen = np.maximum(seen, top)")),
        Mistake("Your threshold is in natural units, but it applies to exponents of two, like t = s log₂ e (eqs. 12.3 "
                "and 13.7).",
                but(MOVED, "top > r + threshold * np.log2(np.e)"), but(MOVED, "top > r + threshold * np.log(2)"),
                but("np.log2(np.e) * ", "", "np.exp2", "np.exp", LSE, "r + np.log(total)")),
        Mistake("Where r moves, it moves to the block's maximum, not by the threshold (eq. 13.7).",
                but("np.where(moved, top, r)", "np.where(r == -np.inf, top, r + moved * threshold)")),
        Mistake("When one row moves, all your rows move. A GPU warp does that; here each row is decided, and counted, "
                "separately (eq. 13.7).",
                but(MOVED, "(top > r + threshold).any() & (top > r)")),
        Mistake("Your lse uses the maximum, but l refers to r: lse = (r + log₂ l) ln 2 (eq. 13.6).",
                but(LSE, "(np.log2(np.e) * s.max(1) + np.log2(total)) * np.log(2)")),
    ),
    costs=tuple(replace(cost, measure=fold(cost.measure)) for cost in COSTS[:2]),
)
