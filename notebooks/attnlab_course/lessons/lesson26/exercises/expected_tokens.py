"""Lesson 26, ★: tokens per call, if every place has its own acceptance."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def expected_tokens(alphas: Sequence[Any]) -> Any:
    """Average number of tokens from a call with len(alphas) guesses.

    Guess j is kept with probability alphas[j], in [0, 1], if all guesses before it were. The first rejected guess is
    replaced, and if all are kept, one more token follows. If the alphas are Fractions, the result is exact.
    """
    tokens = kept = Fraction(1)
    for alpha in alphas:
        kept = kept * alpha
        tokens = tokens + kept
    return tokens


def of_one_alpha(alphas: Sequence[Any]) -> Any:
    """(26.5) with the average of the alphas."""
    alpha = sum(alphas) / max(len(alphas), 1)
    return sum(alpha**j for j in range(len(alphas) + 1))


HALF = Fraction(1, 2)

EXERCISE = Exercise(
    lesson="26", stars=1, reference=expected_tokens, where="eq. 26.5",
    cases=table(
        ("no guess: a token per call", []),
        ("one guess, kept every other time", [HALF]),
        ("two guesses, 1/2 and 1/3", [HALF, Fraction(1, 3)]),
        ("three guesses of 2/3", [Fraction(2, 3)] * 3),
        ("the first is never right", [Fraction(0), Fraction(1), Fraction(1)]),
        ("a draft that's always right: one more than it guesses", [Fraction(1)] * 5),
        ("0.9, 0.8, 0.5", [0.9, 0.8, 0.5]),
        ("forty guesses of 1.0", [1.0] * 40),
    ),
    hints=(
        "The call gives at least one token. It gives at least two with probability alphas[0].",
        "The mean of a count is the sum over j of the probability that it exceeds j: j guesses kept in a row.",
    ),
    mistakes=(
        Mistake("You count the kept guesses alone. The token that replaces a wrong guess is a right one, too, so every "
                "call gives one more (eq. 26.5).",
                but("tokens = kept = Fraction(1)", "tokens, kept = 0, 1")),
        Mistake("You count guesses behind a wrong one. A guess is read after all the guesses before it, so it only "
                "helps if those were kept, too: the chances multiply (section 3).",
                but("tokens + kept", "tokens + alpha")),
        Mistake("Your sum keeps either all guesses or none. A call that keeps the first two of four gives three tokens "
                "(eq. 26.5).",
                but("        tokens = tokens + kept\n    return tokens", "    return 1 + len(alphas) * kept")),
        Mistake("You use one alpha for all places. An average isn't enough: what comes first counts more (eq. 26.5).",
                of_one_alpha),
    ),
)
