"""Lesson 26, ★★★: which draft, and how many guesses, for a batch on a machine; or none."""

from collections.abc import Callable

from attnlab_course.checker.exercise import Exercise, Mistake, but
from attnlab_course.checker.inputs import table


def best_plan(drafts: list[tuple[float, float]], batch: int, ratio: float, balance: float,
              most: int, weights: Callable[[int], float]) -> tuple[int, int]:
    """(index of the draft, guesses k) with the largest speedup over plain decoding, (−1, 0) if none exceeds 1.

    drafts: pairs (alpha, c): the probability that a guess is kept, and what it costs, in plain steps of the model.
    batch: sequences served together. ratio: bytes of one sequence's cache over bytes of the weights that one token
    uses. balance: the machine's, in FLOP per byte; a token takes as many FLOP as its weights have bytes, and we leave
    out those of attention. Guesses: 1 ≤ k ≤ most. weights(m): the weights that a call of m tokens reads, over those of
    one token; 1 for a dense model.
    """
    def seconds(tokens: int) -> float:  # of a call with so many tokens of each sequence, in readings of the weights
        return max(weights(batch * tokens) + batch * ratio, batch * tokens / balance)

    best, plan = 1.0, (-1, 0)
    for index, (alpha, c) in enumerate(drafts):
        for k in range(1, most + 1):
            tokens = sum(alpha**j for j in range(k + 1))
            speedup = tokens * seconds(1) / (seconds(k + 1) + k * c * seconds(1))
            if speedup > best:
                best, plan = speedup, (index, k)
    draft, guesses = plan
    return draft, guesses


def dense(tokens: int) -> float:
    """All weights are read, whatever the tokens."""
    return 1.0


def mixture(tokens: int) -> float:
    """Of 64 experts a token needs 4, which are half of its weights: eq. 20.2."""
    return 0.5 + 0.5 * 16 * (1 - (1 - 1 / 16) ** tokens)


LOOKUP, SMALL, FEW_BITS = (0.35, 0.0), (0.8, 0.05), (0.95, 0.3)
THREE = [LOOKUP, SMALL, FEW_BITS]
TOKENS = "sum(alpha**j for j in range(k + 1))"

EXERCISE = Exercise(
    lesson="26", stars=3, reference=best_plan, where="eq. 26.6",
    cases=table(
        ("one sequence", THREE, 1, 0.0, 295.0, 8, dense),
        ("a batch of 128, short texts", THREE, 128, 0.001, 295.0, 8, dense),
        ("one sequence, lookup is often right", [(0.87, 0.0), SMALL, FEW_BITS], 1, 0.02, 295.0, 8, dense),
        ("a batch of 300: arithmetic is used up", THREE, 300, 0.0, 295.0, 8, dense),
        ("a batch of 128 with long caches", THREE, 128, 0.02, 295.0, 8, dense),
        ("a batch of 59: the last that is free for five tokens", [SMALL], 59, 0.0, 295.0, 8, dense),
        ("a batch of 250: one guess and no more", [(0.8, 0.1)], 250, 0.0, 295.0, 8, dense),
        ("guesses that are free and always wrong: no gain", [(0.0, 0.0)], 1, 0.0, 295.0, 8, dense),
        ("two drafts, the better one dearer", [(0.7, 0.02), (0.9, 0.25)], 1, 0.0, 295.0, 8, dense),
        ("at most two guesses", [SMALL, FEW_BITS], 1, 0.0, 295.0, 2, dense),
        ("one sequence of a mixture of experts", THREE, 1, 0.0, 295.0, 8, mixture),
        ("four sequences of a mixture of experts", [SMALL], 4, 0.0, 295.0, 8, mixture),
        ("64 sequences of a mixture of experts", THREE, 64, 0.0, 295.0, 8, mixture),
        ("2,000 sequences of a mixture of experts", THREE, 2000, 0.0, 295.0, 8, mixture),
    ),
    hints=(
        "Seconds of a call: reading the weights that its tokens touch and each sequence's cache once, or the "
        "arithmetic. Whichever takes longer counts.",
        "A round takes one call with k + 1 tokens of each sequence, and k guesses by the draft (eq. 26.6).",
        "Its tokens are those of eq. 26.5. Try all drafts and all k, and keep what beats 1.",
    ),
    without={
        "k * c * seconds(1)": "You forget what the guesses cost: k of them per round (eq. 26.6).",
        "batch * tokens / balance": "More tokens in a call take no longer in your model, at any batch. Beyond the "
                                    "balance, arithmetic takes the time (eq. 26.6).",
        "batch * ratio": "You forget the caches: they're read once per call, guesses or not, so long texts make "
                         "guesses cheaper (eq. 26.6).",
    },
    mistakes=(
        Mistake("The token of the call itself is missing: it feeds k + 1 tokens of each sequence, and gives one "
                "besides the kept guesses (eqs. 26.5 and 26.6).",
                but(TOKENS, "sum(alpha**j for j in range(1, k + 1))", "seconds(k + 1)", "seconds(k)")),
        Mistake("You count 1 + k·alpha tokens. Guesses behind a wrong one are lost (eq. 26.5).",
                but(TOKENS, "1 + k * alpha")),
        Mistake("Your call reads the same weights with guesses as without. In a mixture of experts each token brings "
                "its own: weights(m), with all tokens of the call (eq. 26.6).",
                but("weights(batch * tokens)", "weights(batch)"), but("weights(batch * tokens)", "weights(1)"),
                but("weights(batch * tokens)", "weights(tokens)")),
    ),
)
