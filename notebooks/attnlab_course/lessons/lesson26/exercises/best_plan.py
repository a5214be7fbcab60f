"""Lesson 26, ★★★: how many guesses each sequence of a batch deserves."""

from collections.abc import Callable

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def best_plan(alphas: list[float], most: int, balance: float, weights: Callable[[int], float]) -> list[int]:
    """How many guesses, 0 to ``most``, each sequence of a batch gets, for the most tokens a second.

    alphas[i] < 1: the probability that a guess for sequence i is kept; one call verifies the guesses of all sequences.
    balance: the machine's, in FLOP per byte; a token takes as many FLOP as its weights have bytes. weights(m): the
    weights that a call of m tokens reads, over those of one token; 1 for a dense model. Guesses cost nothing to make,
    and we leave out the caches. Of plans that are equally fast, the one with the fewest guesses.
    """
    def seconds(tokens: int) -> float:  # of a call with so many tokens, in readings of the weights
        return max(weights(tokens), tokens / balance)

    # the j-th guess for a sequence gives a token if all before it are kept, too: take them by what they give
    gains = sorted(((alpha**j, i) for i, alpha in enumerate(alphas) for j in range(1, most + 1)), reverse=True)
    made, plan = float(len(alphas)), [0] * len(alphas)
    best, fastest = made / seconds(len(alphas)), list(plan)
    for count, (gain, i) in enumerate(gains):
        made, plan[i] = made + gain, plan[i] + 1
        speed = made / seconds(len(alphas) + count + 1)
        if speed > best:
            best, fastest = speed, list(plan)
    return fastest


def equal_shares(alphas: list[float], most: int, balance: float, weights: Callable[[int], float]) -> list[int]:
    """The best of the plans that treat all sequences alike."""
    def speed(k: int) -> float:
        tokens = len(alphas) * (k + 1)
        return sum(alpha**j for alpha in alphas for j in range(k + 1)) / max(weights(tokens), tokens / balance)

    return [max(range(most + 1), key=speed)] * len(alphas)


def dense(tokens: int) -> float:
    """All weights are read, whatever the tokens."""
    return 1.0


def mixture(tokens: int) -> float:
    """Of 64 experts a token needs 4, which are half of its weights: eq. 20.2."""
    return 0.5 + 0.5 * 16 * (1 - (1 - 1 / 16) ** tokens)


MIXED = [0.95, 0.6, 0.3, 0.1]

EXERCISE = Exercise(
    lesson="26", stars=3, reference=best_plan, where="eq. 26.6",
    cases=table(
        ("one sequence of a dense model: guesses are free", [0.8], 8, 295.0, dense),
        ("guesses that are always wrong", [0.0, 0.0], 8, 295.0, dense),
        ("four sequences of a dense model: free for all", MIXED, 4, 295.0, dense),
        ("four sequences, and arithmetic for eight tokens", MIXED, 4, 8.0, dense),
        ("four sequences, and arithmetic for 12.5 tokens", MIXED, 8, 12.5, dense),
        ("four sequences: arithmetic is used up", MIXED, 8, 3.0, dense),
        ("one sequence of a mixture of experts", [0.7], 8, 295.0, mixture),
        ("one sequence of a mixture that's nearly always right", [0.97], 8, 295.0, mixture),
        ("four sequences of a mixture of experts", MIXED, 8, 295.0, mixture),
        ("eight sequences of a mixture: the first guess loses, more of them win", [0.62 - 0.005 * i for i in range(8)],
         8, 295.0, mixture),
        ("sixty sequences of a mixture of experts", [0.9 - 0.013 * i for i in range(60)], 4, 20.0, mixture),
    ),
    hints=(
        "What does the second guess for a sequence give? A token, if both are kept: alpha². So the guesses of all "
        "sequences can be sorted by what they give.",
        "For each number of guesses in all, the best are those that give most. A call then makes one token per "
        "sequence, and what the guesses give.",
        "Its seconds depend only on how many tokens it feeds: max(weights(tokens), tokens / balance), eq. 26.6. Try "
        "every number, because in a mixture the first guess can lose and the tenth win.",
    ),
    without={"tokens / balance": "More tokens in a call take no longer in your model, whatever the batch. Beyond the "
                                 "balance, arithmetic takes the time (eq. 26.6).",
             "j": "Your guesses give alpha each, however many came before. Behind a wrong one, all are lost "
                  "(eq. 26.5)."},
    mistakes=(
        Mistake("You treat all sequences alike. A guess for a text that's easy to guess gives more than another: "
                "sort the guesses by what they give (eq. 26.5).",
                equal_shares),
        Mistake("You stop at the first guess that makes the server slower. In a mixture of experts the next ones read "
                "less and less that's new, so go on (eq. 26.6).",
                but("if speed > best:", "if speed <= best:\n            break\n        else:")),
        Mistake("Your call reads the same weights with guesses as without. In a mixture of experts each token brings "
                "its own: weights(m), with all tokens of the call (eq. 26.6).",
                but("weights(tokens)", "weights(len(alphas))"), but("weights(tokens)", "weights(1)")),
    ),
)
