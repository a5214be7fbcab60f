"""Lesson 26, ★★★: guess and verify, with keyed draws: the tokens of plain sampling in fewer calls."""

from collections.abc import Callable

from attnlab_course.checker import phrases
from attnlab_course.checker.exercise import Case, Exercise, Mistake, but
from attnlab_course.serve import choose, uniform

import numpy as np
from numpy import ndarray as Array


def speculate(logits: Callable, draft: Callable, draw: Callable, prompt: list[int], count: int,
              k: int) -> tuple[list[int], int]:
    """(new, calls): the ``count`` tokens after ``prompt``, the same as without guesses, and how often the model ran.

    logits(tokens) -> (N, V): one call of the model; row i is about the token after tokens[: i + 1]. draft(tokens, k):
    at most k guesses of what follows. draw(row, position) -> token, with the random number of that position (the
    prompt's first token has position 0). Each call takes all tokens and at most k guesses; use every row it returns.
    """
    text, calls = list(prompt), 0
    while len(text) < len(prompt) + count:
        guess = list(draft(text, k))
        rows, calls, n = logits(text + guess), calls + 1, len(text)
        for j in range(len(guess) + 1):
            text.append(draw(rows[n - 1 + j], n + j))
            if j == len(guess) or text[-1] != guess[j]:
                break
    return text[len(prompt) :][:count], calls


TABLE = np.random.default_rng(26).normal(size=(7, 7, 7)) * 2


def by_table(tokens: list[int]) -> Array:
    """A model of seven tokens: what follows depends on the last two, and a little on the length of the text."""
    last = np.asarray(tokens)
    return TABLE[np.concatenate([[0], last[:-1]]), last] + 0.3 * np.cos(np.arange(len(last))[:, None] + np.arange(7))


def drawing(temperature: float, seed: int = 5) -> Callable:
    """A draw by position."""
    return lambda row, position: choose(row, uniform(seed, 0, position), temperature)


def knowing(draw: Callable, every: int) -> Callable:
    """A draft that knows the model, and says something else at each ``every``-th position."""
    def draft(tokens: list[int], k: int) -> list[int]:
        text = list(tokens)
        for position in range(len(text), len(text) + k):
            token = draw(by_table(text)[-1], position)
            text.append(token if position % every else (token + 1) % 7)
        return text[len(tokens) :]

    return draft


def cases() -> list[Case]:
    """Greedy and drawn; drafts that are right, wrong, silent, and right for a while."""
    greedy, warm = drawing(0), drawing(1.0)
    rng_like = lambda tokens, k: [(3 * len(tokens) + j) % 7 for j in range(k)]  # noqa: E731
    calls = {
        "no draft: a token per call": (lambda tokens, k: [], greedy, [1], 5, 3),
        "greedy; a draft that's always right": (knowing(greedy, 10**9), greedy, [1], 12, 3),
        "drawn; a draft that's always right": (knowing(warm, 10**9), warm, [1, 2], 12, 3),
        "drawn; a draft that's wrong at each fourth position": (knowing(warm, 4), warm, [1, 2], 16, 5),
        "drawn; guesses that look random": (rng_like, warm, [3, 1, 2], 15, 4),
        "one token is asked for": (knowing(warm, 10**9), warm, [4], 1, 4),
        "the last call has more than is asked for": (knowing(warm, 10**9), warm, [4], 7, 4),
        "one guess at a time": (knowing(warm, 3), warm, [0, 6], 11, 1),
    }
    return [Case(label, (by_table, *args)) for label, args in calls.items()]


DRAW, STOP = "text.append(draw(rows[n - 1 + j], n + j))", "if j == len(guess) or text[-1] != guess[j]:"

EXERCISE = Exercise(
    lesson="26", stars=3, reference=speculate, where="section 1", cases=cases,
    hints=(
        "A call has len(text) + len(guess) rows. Which row gives the first new token? The one after the text's last.",
        "Draw from that row at position len(text). If it's the guess, the next row is good, too; if not, the round is "
        "over, and the token you drew is right all the same.",
        "If the last guess was right, one row is left: it gives a token without a guess. Cut what's too much at the "
        "end.",
    ),
    without={
        "text[-1] != guess[j]": phrases.after_wrong_guess("section 1"),
        "text[len(prompt):][:count]": "Your text is longer than what was asked for: the last call can bring too many "
                                      "(section 1).",
    },
    mistakes=(
        Mistake("You keep the guess where the draw says something else: what was drawn is the text (section 1).",
                but(STOP, "if j < len(guess) and text[-1] != guess[j]: text[-1] = guess[j]; break\n            "
                          "if j == len(guess):")),
        Mistake("Your number is keyed by the call, not by the position, so with different guesses the text changes "
                "(section 1).",
                but(DRAW, "text.append(draw(rows[n - 1 + j], calls))"),
                but(DRAW, "text.append(draw(rows[n - 1 + j], n))")),
        Mistake("The token after the last right guess is missing: a call with k right guesses gives k + 1 (section 1).",
                but("range(len(guess) + 1)", "range(len(guess) or 1)",
                    STOP, "if not guess or text[-1] != guess[j]:")),
        Mistake("Your rows are one place off: row i is for the token *after* token i, so the first new one comes from "
                "row len(text) − 1 (section 1).",
                but("rows[n - 1 + j]", "rows[min(n + j, len(rows) - 1)]")),
        Mistake("You throw the drawn token away where it differs from the guess. It's the text's next token; without "
                "it the same place is computed again (section 1).",
                but(STOP, "if j and j < len(guess) and text[-1] != guess[j]: text.pop(); break\n            " + STOP)),
    ),
)
