"""Lesson 26, ★★★: which draft, and how many guesses, for a batch on a machine; or none."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def best_plan(drafts: list[tuple[float, float]], batch: int, ratio: float, balance: float,
              most: int) -> tuple[int, int]:
    """(index of the draft, guesses k) with the largest speedup over plain decoding, (−1, 0) if none exceeds 1.

    drafts: pairs (alpha, c): the probability that a guess is kept, and what it costs, in plain steps of the model.
    batch: sequences served together. ratio: bytes of one sequence's cache over bytes of the weights. balance: the
    machine's, in FLOP per byte; a token takes as many FLOP as the weights have bytes. Guesses: 1 ≤ k ≤ most.
    """
    def seconds(tokens: int) -> float:  # of a call with so many tokens of each sequence, in readings of the weights
        return max(1 + batch * ratio, batch * tokens / balance)

    best, plan = 1.0, (-1, 0)
    for index, (alpha, c) in enumerate(drafts):
        for k in range(1, most + 1):
            tokens = sum(alpha**j for j in range(k + 1))
            speedup = tokens * seconds(1) / (seconds(k + 1) + k * c * seconds(1))
            if speedup > best:
                best, plan = speedup, (index, k)
    draft, guesses = plan
    return draft, guesses


def cases() -> list[Case]:
    """Three situations of one machine, and what decides in each."""
    lookup, small, few_bits = (0.35, 0.0), (0.8, 0.05), (0.95, 0.3)
    edited = (0.87, 0.0)
    three = [lookup, small, few_bits]
    return [
        Case("(a) one sequence, prose", (three, 1, 0.0, 295.0, 8)),
        Case("(b) a batch of 128, short texts", (three, 128, 0.001, 295.0, 8)),
        Case("(c) one sequence, editing code: lookup is right", ([edited, small, few_bits], 1, 0.02, 295.0, 8)),
        Case("a batch of 300: arithmetic is used up", (three, 300, 0.0, 295.0, 8)),
        Case("a batch of 128 with long caches", (three, 128, 0.02, 295.0, 8)),
        Case("a batch of 59: the last that is free for five tokens", ([small], 59, 0.0, 295.0, 8)),
        Case("a batch of 74", ([small], 74, 0.0, 295.0, 8)),
        Case("a batch of 250: one guess and no more", ([(0.8, 0.1)], 250, 0.0, 295.0, 8)),
        Case("guesses that are free and always wrong: no gain", ([(0.0, 0.0)], 1, 0.0, 295.0, 8)),
        Case("a draft as dear as the model", ([(0.9, 1.0)], 1, 0.0, 295.0, 8)),
        Case("a draft that's seldom right", ([(0.1, 0.2)], 1, 0.0, 295.0, 8)),
        Case("two drafts, the better one dearer", ([(0.7, 0.02), (0.9, 0.25)], 1, 0.0, 295.0, 8)),
        Case("at most two guesses", ([small, few_bits], 1, 0.0, 295.0, 2)),
        Case("a machine of balance 20, batch 8", (three, 8, 0.01, 20.0, 8)),
    ]


TOKENS, TIME = "sum(alpha**j for j in range(k + 1))", "max(1 + batch * ratio, batch * tokens / balance)"
COST, WHOLE = "k * c * seconds(1)", "(seconds(k + 1) + k * c * seconds(1))"

EXERCISE = Exercise(
    lesson="26", stars=3, reference=best_plan, cases=cases,
    hints=(
        "Seconds of a call: reading the weights once and each sequence's cache once, or the arithmetic. Whichever "
        "takes longer counts.",
        "A round takes one call with k + 1 tokens of each sequence, and k guesses by the draft (eq. 26.6).",
        "Its tokens are those of eq. 26.5. Try all drafts and all k, and keep what beats 1.",
    ),
    mistakes=(
        Mistake("You forget what the guesses cost: k of them per round (eq. 26.6).",
                but(WHOLE, "seconds(k + 1)")),
        Mistake("A guess costs c for each of k places, not once per round (eq. 26.6).",
                but(COST, "c * seconds(1)")),
        Mistake("More tokens in a call take no longer in your model, at any batch. Beyond the balance, arithmetic "
                "takes the time (eq. 26.6).",
                but(TIME, "1 + batch * ratio")),
        Mistake("You forget the caches: they're read once per call, guesses or not, so long texts make guesses "
                "cheaper (eq. 26.6).",
                but(TIME, "max(1, batch * tokens / balance)")),
        Mistake("The token of the call itself is missing: it feeds k + 1 tokens of each sequence, and gives one "
                "besides the kept guesses (eqs. 26.5 and 26.6).",
                but(TOKENS, "sum(alpha**j for j in range(1, k + 1))", "seconds(k + 1)", "seconds(k)")),
        Mistake("You always guess. Where no plan beats 1, the best plan is none: (−1, 0) (section 6).",
                but("best, plan = 1.0, (-1, 0)", "best, plan = 0.0, (-1, 0)")),
        Mistake("You count 1 + k·alpha tokens. Guesses behind a wrong one are lost (eq. 26.5).",
                but(TOKENS, "1 + k * alpha")),
    ),
)
