"""Lesson 04, ★★: the shortest list of scores that exposes a wrong update of the running sum."""

from collections.abc import Callable
from itertools import product
from reprlib import repr as shown
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but

import numpy as np

Real = float | int
Update = Callable[[Real, Real, Real], tuple[Real, Real]]


def smallest_counterexample(update: Update) -> list[Real]:
    """Shortest list of finite scores on which ``update(m, l, s) -> (m, l)``, from (−∞, 0) on, gives a wrong lse."""
    # these scores make a tie, a small and a large step, overflow and underflow
    for length in (1, 2, 3):
        for scores in product((0.0, 0.5, 3.0, 1000.0, -1000.0), repeat=length):
            if exposes(update, scores):
                return list(scores)
    return []


def exposes(update: Update, scores: Any) -> bool:
    """Whether m + log l after the last score is not the lse of ``scores``."""
    found, right = lse_by(update, scores), np.logaddexp.reduce(scores)
    return not np.isclose(found, right, rtol=0, atol=1e-6)


def lse_by(update: Update, scores: Any) -> float:
    """m + log l after ``update`` has seen all scores."""
    m, l = -np.inf, 0.0
    with np.errstate(all="ignore"):
        for s in scores:
            m, l = update(m, l, s)
        return float(m + np.log(l))


def update(m: Real, l: Real, s: Real) -> tuple[Real, Real]:
    """(4.8), which is right."""
    m_new = max(m, s)
    return m_new, l * np.exp(m - m_new) + np.exp(s - m_new)


def cases() -> list[Case]:
    """Nine suspects, and how few scores expose each; two for the first, whose list is too long for the next."""
    step = "l * np.exp(m - m_new) + np.exp(s - m_new)"
    suspects = {
        "a suspect that does not rescale l: two scores expose it": but("l * np.exp(m - m_new)", "l"),
        "a suspect that adds the factor to l, as printed: one score exposes it": but(step, "l + np.exp(m - m_new)"),
        "a suspect that computes e^s · e^−m': one score exposes it, if it is chosen well":
            but("np.exp(s - m_new)", "np.exp(s) * np.exp(-m_new)"),
        "a suspect whose maximum is never below 0: one score exposes it, if it is chosen well":
            but("max(m, s)", "max(m, s, 0.0)"),
        "a suspect whose new term is always 1: two scores expose it": but("np.exp(s - m_new)", "1.0"),
        "a suspect that does not add a score equal to the maximum: two scores expose it":
            but("np.exp(s - m_new)", "(np.exp(s - m_new) if s != m else 0.0)"),
        "a suspect that takes 1 − d for e^−d where the maximum moves by d < 1: two scores expose it":
            but("np.exp(m - m_new)", "(np.exp(m - m_new) if m_new - m >= 1 else 1.0 + m - m_new)"),
        "a suspect that measures relative to the newest score: two scores expose it, if they are chosen well":
            but("max(m, s)", "s"),
        "a suspect whose sum stops at 2: three scores expose it": but(step, f"min({step}, 2.0)"),
    }
    return [Case(label, (edit.apply(update),)) for label, edit in suspects.items()]


def judge(case: Case, got: Any) -> str | None:
    """What is wrong with a list: it exposes nothing, or a shorter one does."""
    (update,) = case.args
    try:
        scores = [float(s) for s in got]
    except (TypeError, ValueError):
        return "expected a list of scores."
    if not scores:
        return "your function found no list for this suspect; there is one."
    if not np.isfinite(scores).all():
        return f"expected a list of finite scores, got {scores}."
    if not exposes(update, scores[:1000]):
        return f"{shown(scores)} does not expose it: it finds lse = {lse_by(update, scores):.4f}, and that is right."
    best = len(smallest_counterexample(update))
    return f"{shown(scores)} exposes it, but so does a list of length {best}." if len(scores) > best else None


CANDIDATES = "(0.0, 0.5, 3.0, 1000.0, -1000.0)"

EXERCISE = Exercise(
    lesson="04", stars=2, reference=smallest_counterexample, cases=cases, judge=judge, where="eq. 4.8",
    hints=(
        "Let the computer search: itertools.product(candidates, repeat=length) yields all lists of one length.",
        "Which candidates? Equal scores (CONST), a small and a large step up (UP) and down (DOWN), and scores whose "
        "exponential is not finite or is 0 (HIGH, LOW).",
    ),
    mistakes=(
        Mistake("No exponential (eq. 4.8) of your candidates overflows or vanishes: add scores such as ±1000.",
                *(but(CANDIDATES, moderate, "return []", found_none) for found_none in ("return []", "return None")
                  for moderate in ("(0.0, 1.0)", "(0.0, 1.0, 2.0)", "(-1.0, 0.0, 1.0)", "(0.0, 0.5, 1.0)",
                                   "(0.0, 0.5, 3.0)", "(0.0, 0.5, 1.0, 2.0)", "range(-2, 3)", "range(-5, 6)"))),
        Mistake("Your candidates are too far apart. A factor (eq. 4.8) wrong for small moves needs a step of 0.5.",
                *(but(CANDIDATES, f"({near}, 1000.0, -1000.0)")
                  for near in ("0.0", "0.0, 1.0", "0.0, 2.0", "0.0, 3.0", "0.0, 1.0, -1.0", "0.0, 1.0, 2.0"))),
        Mistake("You search long lists first. Begin with one score: the printed update (section 7) already fails.",
                but("(1, 2, 3)", "(3, 2, 1)")),
        Mistake("You stop at two scores. With two, l in eq. 4.6 never exceeds 2; a bug in larger sums needs three.",
                but("(1, 2, 3)", "(1, 2)")),
    ),
)
