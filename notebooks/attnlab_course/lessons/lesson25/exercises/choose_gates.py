"""Lesson 25, ★★★: which gates and which rate for which task, without training: measure and decide."""

from collections.abc import Callable
from typing import Any

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.lessons.lesson25.random_keys import recalled

Choice = tuple[float, float, float]
TASKS = {
    "crowd": {"keys": 16, "features": 10}, "names": {"keys": 24, "times": 2, "features": 64},
    "documents": {"keys": 16, "texts": 4},
}  # fmt: skip
ENOUGH = {"crowd": 0.84, "names": 0.992, "documents": 0.93}


def choose_gates(task: str) -> Choice:
    """(first, a, b) for a task: the gate of a text's first token, that of every other token, and the rate of all.

    "crowd": 16 keys in 10 features, each written once; 84% must be right on other draws. "names": 24 keys in 64
    features, each written twice, the last value counts; 99.2%. "documents": four texts of 16 keys each, one after the
    other in one state of 16 features; the last one is asked about; 93%. ``recalled(**TASKS[task], first=first, a=a,
    b=b)`` measures.
    """
    # a gate of 0 clears the state once, at a text's first token
    return {"crowd": (1.0, 1.0, 0.1), "names": (1.0, 1.0, 0.75), "documents": (0.0, 1.0, 0.2)}[task]


def run(answer: Callable[[str], Choice]) -> Callable[[str, int], tuple[float, float, float, float]]:
    """A function of task and seed: the choice, and the share of right answers with it; NaN if it isn't allowed."""
    def measured(task: str, seed: int) -> tuple[float, float, float, float]:
        first, a, b = (float(x) for x in answer(task))
        allowed = 0 <= first <= 1 and 0 <= a <= 1 and 0 <= b <= 2
        return first, a, b, recalled(**TASKS[task], first=first, a=a, b=b, seed=seed) if allowed else float("nan")

    return measured


def judge(case: Case, got: Any) -> str | None:
    """None if the task is recalled well enough."""
    task, _ = case.args
    first, a, b, right = (float(x) for x in got)
    if right != right:
        return f"gates lie from 0 to 1, rates from 0 to 2; got first = {first:g}, a = {a:g}, b = {b:g}."
    if right < ENOUGH[task]:
        return (f"with first = {first:g}, a = {a:g} and b = {b:g}, {right:.1%} of the answers to {task} are right; "
                f"{ENOUGH[task]:.1%} are asked for.")  # fmt: skip
    return None


def cases() -> list[Case]:
    """Each task with draws that the lesson has not used."""
    return [Case(f"{task}, draws of seed {seed}", (task, seed)) for seed in (101, 102) for task in TASKS]


RIGHT = '{"crowd": (1.0, 1.0, 0.1), "names": (1.0, 1.0, 0.75), "documents": (0.0, 1.0, 0.2)}[task]'

EXERCISE = Exercise(
    lesson="25", stars=3, reference=choose_gates, where="section 2", cases=cases, judge=judge, run=run,
    hints=(
        "Measure: recalled(**TASKS[task], first=…, a=…, b=…) for a few rates, with gates of 1 first.",
        "Which task crowds the state, and which has room in it? Near 0 the rule adds, near 1 it overwrites: section 2.",
        "Four documents in a row: at which token does what's stored have to go, and how much of it?",
    ),
    mistakes=(
        Mistake("You write the whole error everywhere, b = 1. Where 16 keys crowd 10 features, that spoils what other "
                "keys hold: section 2.",
                but(RIGHT, "(0.0 if task == 'documents' else 1.0, 1.0, 1.0)"), but(RIGHT, "(1.0, 1.0, 1.0)")),
        Mistake("With a small b everywhere, you do little but add. A key that's bound again then holds a sum of its "
                "values: section 2.",
                but(RIGHT, "(0.0 if task == 'documents' else 1.0, 1.0, 0.2)"), but(RIGHT, "(0.0, 1.0, 0.1)")),
        Mistake("A gate of 0.9 lets old values fade, and the other keys' values with them. To take back one value, "
                "erase what's under its key: section 2.",
                but('"names": (1.0, 1.0, 0.75)', '"names": (1.0, 0.9, 0.1)')),
        Mistake("Nothing is forgotten between documents: 48 keys of other texts are in the state. A gate of 0 at the "
                "first token clears it: section 1.",
                *(but('"documents": (0.0, 1.0, 0.2)', f'"documents": (1.0, 1.0, {b})') for b in (0.1, 0.2))),
        Mistake("You forget old documents slowly, with one gate for all tokens. What fades them also fades the text "
                "that's asked about; clear the state once, at its first token: section 1.",
                but('"documents": (0.0, 1.0, 0.2)', '"documents": (0.95, 0.95, 0.2)')),
    ),
)
