"""Lesson 26, ★: tokens per call, if every guess is kept with the same probability."""

from fractions import Fraction
from typing import Any

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def expected_tokens(alpha: Any, k: int) -> Any:
    """Average number of tokens from a call with ``k`` guesses, each kept with probability ``alpha`` in [0, 1].

    The first rejected guess is replaced, and k kept guesses are followed by one more token. If alpha is a Fraction,
    the result is exact.
    """
    return sum(alpha**j for j in range(k + 1))


ALL = "sum(alpha**j for j in range(k + 1))"

EXERCISE = Exercise(
    lesson="26", stars=1, reference=expected_tokens, where="eq. 26.5",
    cases=table(
        ("no guess: a token per call", Fraction(1, 2), 0),
        ("one guess, kept every other time", Fraction(1, 2), 1),
        ("alpha = 2/3, k = 3", Fraction(2, 3), 3),
        ("alpha = 4/5, k = 4", Fraction(4, 5), 4),
        ("a draft that is never right", Fraction(0), 5),
        ("a draft that is always right: k + 1", Fraction(1), 5),
        ("alpha = 0.9, k = 10", 0.9, 10),
        ("alpha = 1 − 10⁻⁶, k = 8", 1 - 1e-6, 8),
        ("alpha = 1.0, k = 40", 1.0, 40),
    ),
    hints=(
        "The call gives at least one token. It gives at least two with probability alpha.",
        "The mean of a count is the sum over j of the probability that it exceeds j: j guesses kept in a row.",
        "Eq. 26.5: a geometric sum of k + 1 terms. Sum it term by term, and alpha = 1 needs no care.",
    ),
    without={"1": "The last token is missing: after k kept guesses the call still gives one of its own, because its "
                  "last row comes after all of them (eq. 26.5)."},
    mistakes=(
        Mistake("You count the kept guesses alone. The token that replaces a wrong guess is a right one, too, so every "
                "call gives one more (eq. 26.5).",
                but(ALL, "sum(alpha**j for j in range(1, k + 1))")),
        Mistake("You count guesses behind a wrong one. A guess is read after all the guesses before it, so it only "
                "helps if those were kept: probability alpha to the j, not alpha (eq. 26.5).",
                but(ALL, "1 + k * alpha")),
        Mistake("Your sum keeps either all guesses or none. A call that keeps the first two of four gives three tokens "
                "(eq. 26.5).",
                but(ALL, "1 + k * alpha**k")),
        Mistake("A draft that's always right divides by 0 in your formula. There, each call gives k + 1 tokens; the "
                "sum in eq. 26.5 knows that by itself.",
                but(ALL, "(1 - alpha ** (k + 1)) / (1 - alpha)")),
    ),
)
